"""Redis for the workers: one client per process, created at its first use, and patience while Redis is away.

Promises that the client never repeats a command by itself and never waits longer than its timeout. Never holds a lock:
a child forked at the wrong moment would inherit it closed.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha1
from typing import Any, Final, TypeVar

import redis

from itinerary.protocol.errors import BadValue
from itinerary.protocol.keys import KEY_PREFIX_VARIABLE, Keys, read_prefix
from itinerary.protocol.sentinel_urls import celerys_sentinel_url, is_sentinel, read_sentinel_url
from itinerary.protocol.service_urls import redis_url
from itinerary.sentinel_client import master_client
from itinerary.worker.lines import Lines

T = TypeVar("T")

REDIS_VARIABLE: Final = "ITINERARY_REDIS_URL"
AWAY: Final = (redis.RedisError, OSError)
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
# The server has started anew, or its user may only send whole scripts.
_NOT_RUN: Final = (redis.exceptions.NoScriptError, redis.exceptions.NoPermissionError)

log = logging.getLogger("itinerary.worker")


class RedisConnection:
    """The Redis of claims and reports; threads of one process share its client, forked children have their own."""

    def __init__(self, url: str, key_prefix: str = "") -> None:
        self._url = url
        self.keys = Keys(key_prefix)
        self._clients: dict[int, tuple[redis.Redis, Lines]] = {}

    @property
    def client(self) -> redis.Redis:
        """This process's client."""
        return self._of_process()[0]

    def _of_process(self) -> tuple[redis.Redis, Lines]:
        pid = os.getpid()
        known = self._clients.get(pid)
        if known is None:
            client = _connect(self._url)
            self._clients = {pid: (known := (client, Lines(client)))}
        return known

    def run_script(self, text: str, keys: list[str], args: list[str]) -> Any:
        """Run the script, by its name where Redis knows it; it may have run even if this raises."""
        (answer,) = self.run_scripts(text, [(keys, args)])
        if isinstance(answer, redis.ResponseError):
            raise answer
        return answer

    def run_scripts(self, text: str, calls: Sequence[tuple[list[str], list[str]]]) -> list[Any]:
        """Run the script for each (keys, args) in one round trip; an answer may be the error of its call."""
        lines, name = self._of_process()[1], _name(text)
        answers = lines.ask([["EVALSHA", name, len(keys), *keys, *args] for keys, args in calls])
        for n, answer in enumerate(answers):
            if isinstance(answer, _NOT_RUN):
                keys, args = calls[n]
                (answers[n],) = lines.ask([["EVAL", text, len(keys), *keys, *args]])
        return answers


@cache
def _name(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def patiently(action: Callable[[], T], doing: str) -> T:
    """Repeat `action` until Redis answers; it must be safe to repeat, since it may have succeeded despite an error."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return action()
        except AWAY as exc:
            if pause == _FIRST_PAUSE:
                log.warning("redis is away while %s, trying on: %s", doing, exc)
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


def connection_of(redis_url: str | None, key_prefix: str | None, conf: Any) -> RedisConnection:
    """The connection of an app with this configuration; what attach() was not given is read from the environment."""
    url = redis_of(redis_url, conf.broker_url, conf.broker_transport_options or {})
    given = os.environ.get(KEY_PREFIX_VARIABLE) if key_prefix is None else key_prefix
    return RedisConnection(url, read_prefix(given))


def redis_of(given: str | None, broker: object, options: Mapping[str, Any]) -> str:
    """The Redis for claims and reports: the one given to attach(), the setting's, or the broker; BadValue for none.

    `options` are the broker's transport options: they name the master behind Sentinels.
    """
    named = given or os.environ.get(REDIS_VARIABLE)
    if named is None and (several := _celerys_urls(broker)) and is_sentinel(several[0]):
        return celerys_sentinel_url(several, options)
    url = usable_url(named or broker)
    if url is None:
        problem = f"set {REDIS_VARIABLE}, or give attach() a redis_url: the broker is not Redis"
        raise BadValue("redis_url", None, problem)
    return url


def usable_url(url: object) -> str | None:
    """`url` as our clients read it, or None if it is not the URL of one Redis."""
    first = url[0] if isinstance(url, (list, tuple)) and url else url
    if not isinstance(first, str):
        return None
    if is_sentinel(first):
        return read_sentinel_url(first).text
    first = first.partition(";")[0]
    return redis_url(first) if first.startswith(("redis://", "rediss://", "unix://", "redis+socket://")) else None


def is_redis(broker: object) -> bool:
    """Whether this `broker_url` is Redis, also in Celery's form of Sentinels, where another option names the master."""
    first = next(iter(_celerys_urls(broker)), "")
    return is_sentinel(first) or usable_url(first) is not None


def _celerys_urls(broker: object) -> list[str]:
    """The alternatives of a `broker_url`: a list, or a text with semicolons."""
    given = broker.split(";") if isinstance(broker, str) else broker
    return [url for url in given if isinstance(url, str) and url] if isinstance(given, (list, tuple)) else []


def _connect(url: str) -> redis.Redis:
    from redis.backoff import NoBackoff  # absent from the oldest releases, which the start check refuses
    from redis.retry import Retry

    options: dict[str, Any] = {
        "decode_responses": True,
        "encoding_errors": "replace",
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": 5,
        "socket_connect_timeout": 3,
        "socket_keepalive": True,
        "health_check_interval": 15,
    }
    try:
        if is_sentinel(url):
            return master_client(url, **options)
        return redis.Redis.from_url(url, **options)
    except ValueError:
        raise BadValue("redis_url", url.partition("://")[0] + "://...", "give redis://:password@host:port/0") from None
