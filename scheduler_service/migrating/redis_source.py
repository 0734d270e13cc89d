"""The Redis of another scheduler, opened to be read."""

from typing import Final

import redis

from itinerary.protocol.errors import BadValue
from itinerary.protocol.service_urls import read_service_url, redis_url

_PATIENCE: Final = 10.0
_GIVE: Final = "give redis://, rediss:// or unix://; behind a Sentinel, the address of the present master"


def open_redis(url: str, option: str) -> redis.Redis:
    """Open the Redis that `option` names; BadValue for another URL."""
    plain = redis_url(url, option)
    try:
        return redis.Redis.from_url(plain, socket_timeout=_PATIENCE, socket_connect_timeout=_PATIENCE)
    except ValueError as exc:
        raise BadValue(option, f"{plain.partition(':')[0]}://...", _GIVE) from exc


def place_in(url: str, option: str) -> str:
    """Return the place of that Redis, without a password."""
    at = read_service_url(url, option)
    return f"{','.join(at.hosts)}{at.path}"
