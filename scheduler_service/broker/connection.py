"""One connection to Celery's broker, opened at first use and again after an error. Used by one thread at a time."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import redis
from celery import Celery
from kombu import Connection
from kombu.exceptions import KombuError

from itinerary.protocol.errors import BrokerUnavailable


class BrokerConnection:
    """A connection and its channel; never repeats what failed."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._connection: Connection | None = None
        self._channel: Any = None

    @contextmanager
    def channel(self) -> Iterator[Any]:
        """Yield a live channel; every error inside becomes BrokerUnavailable, and the next call connects again."""
        try:
            yield self._open()
        except self._errors() as exc:
            self.close()
            raise BrokerUnavailable(f"broker: {type(exc).__name__}: {exc}") from exc

    def close(self) -> None:
        """Close the connection, which may be broken."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(KombuError, redis.RedisError, OSError, AttributeError):
                connection.close()

    def _open(self) -> Any:
        if self._channel is None:
            self._connection = self._app.connection_for_write()
            self._connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
            self._channel = self._connection.channel()
            # Celery asks for a result backend at each send, and searches all installed packages for it.
            _ = self._app.backend
        return self._channel

    def _errors(self) -> tuple[type[BaseException], ...]:
        common = (KombuError, redis.RedisError, OSError)
        if self._connection is None:
            return common
        return (*common, *self._connection.connection_errors, *self._connection.channel_errors)
