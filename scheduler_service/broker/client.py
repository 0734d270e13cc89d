"""The scheduler's Redis clients: how they are created, and how their errors become ours.

Promises that the client never repeats a command by itself (redis-py would retry ten times). No call outlives its
timeout, and text that is not UTF-8 never raises. Never holds keys or commands: those belong to the adapters.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from itinerary.protocol.errors import BadValue, BrokerUnavailable
from itinerary.protocol.sentinel_urls import is_sentinel
from itinerary.protocol.service_urls import redis_url
from itinerary.sentinel_client import master_client

CONNECT_TIMEOUT: Final = 3.0
ANSWER_TIMEOUT: Final = 5.0
_HEALTH_CHECK: Final = 15


def connect(url: str, *, answer_timeout: float = ANSWER_TIMEOUT) -> redis.Redis:
    """Create a client for `url` that connects at its first use; `answer_timeout` is in seconds.

    A client that waits in BLOCK or BLPOP needs a longer `answer_timeout` than it waits.
    """
    options: dict[str, Any] = {
        "decode_responses": True,
        "encoding_errors": "replace",
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": answer_timeout,
        "socket_connect_timeout": CONNECT_TIMEOUT,
        "socket_keepalive": True,
        "health_check_interval": _HEALTH_CHECK,
    }
    try:
        if is_sentinel(url):
            return master_client(url, **options)
        return redis.Redis.from_url(redis_url(url), **options)
    except ValueError:
        raise BadValue("redis_url", url.partition("://")[0] + "://...", "give redis://:password@host:port/0") from None


@contextmanager
def redis_errors() -> Iterator[None]:
    """Turn every error of Redis or its socket in the block into BrokerUnavailable: the outcome is unknown."""
    try:
        yield
    except (redis.RedisError, OSError) as exc:
        raise BrokerUnavailable(f"Redis: {type(exc).__name__}: {exc}") from exc
