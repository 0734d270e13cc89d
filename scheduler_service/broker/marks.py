"""The marks that show whether two processes use the same Redis and the same broker.

Promises that only a leader writes marks; all others only read them. For a broker other than Redis, its kind is the
mark.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import redis
from uuid_utils.compat import uuid7

from itinerary.protocol.keys import Keys
from scheduler_service.broker.client import connect, redis_errors
from scheduler_service.core.redis_marks import Marks
from scheduler_service.ports.broker import DataMarks

_ANSWERS_WITHIN: Final = 2.0


class RedisMarks(DataMarks):
    """The DataMarks port. `ping_broker` checks that a broker other than Redis answers."""

    def __init__(
        self,
        redis_url: str,
        broker_url: str,
        broker_prefix: str | None = None,
        ping_broker: Callable[[], object] | None = None,
        key_prefix: str = "",
    ) -> None:
        self._client = connect(redis_url, answer_timeout=_ANSWERS_WITHIN)
        self._broker: redis.Redis | None = None
        if reads_marks(broker_url):
            same = broker_url == redis_url
            self._broker = self._client if same else connect(broker_url, answer_timeout=_ANSWERS_WITHIN)
        self._kind = broker_url.partition(":")[0]
        self._keys = Keys(key_prefix)
        self._of_queues = f"{broker_prefix or ''}{self._keys.broker_mark}"
        self._ping_broker = ping_broker

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        if self._broker is not None:
            self._broker.close()

    def put(self) -> Marks:
        """GET both marks, and SET NX those that are missing: a wipe removes a mark together with the data."""
        return Marks(_put(self._client, self._keys.redis_mark), self._of_broker(_put))

    def read(self) -> Marks:
        """GET both marks."""
        return Marks(self.read_redis(), self._of_broker(_read))

    def read_redis(self) -> str | None:
        """GET the mark beside inbox and claims."""
        return _read(self._client, self._keys.redis_mark)

    def _of_broker(self, ask: Callable[[redis.Redis, str], str | None]) -> str | None:
        if self._broker is not None:
            return ask(self._broker, self._of_queues)
        if self._ping_broker is not None:
            self._ping_broker()
        return self._kind


def reads_marks(broker_url: str) -> bool:
    """Whether our own client reaches the broker: it is a Redis."""
    return broker_url.startswith(("redis://", "rediss://", "unix://", "redis+socket://", "sentinel://"))


def _read(client: redis.Redis, key: str) -> str | None:
    with redis_errors():
        mark: Any = client.get(key)
    return None if mark is None else str(mark)


def _put(client: redis.Redis, key: str) -> str | None:
    mark = _read(client, key)
    if mark is not None:
        return mark
    with redis_errors(), suppress(redis.ResponseError):  # a full or read-only Redis answers, but has no mark
        client.set(key, str(uuid7()), nx=True)
    return _read(client, key)
