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
from itinerary.protocol.service_urls import read_service_url, redis_url
from itinerary.sentinel_client import master_client
from itinerary.server_traits import CLUSTER, OF_CLUSTERS, is_cluster

CONNECT_TIMEOUT: Final = 3.0
ANSWER_TIMEOUT: Final = 5.0
_HEALTH_CHECK: Final = 15
_ASKED_WITHIN: Final = 2.0


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
    except OF_CLUSTERS as exc:
        raise BrokerUnavailable(f"Redis: {CLUSTER}") from exc
    except (redis.RedisError, OSError) as exc:
        raise BrokerUnavailable(f"Redis: {type(exc).__name__}: {exc}") from exc


def refuse_cluster(**urls: str) -> None:
    """Raise BadValue with the name of an address that is a node of a Redis Cluster; one that is away passes."""
    for name, url in urls.items():
        try:
            with connect(url, answer_timeout=_ASKED_WITHIN) as client, redis_errors():
                refused = is_cluster(client)
        except BrokerUnavailable:
            continue
        if refused:
            raise BadValue(f"ITINERARY_{name.upper()}", read_service_url(url, name).shown, CLUSTER)
