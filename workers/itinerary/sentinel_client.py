"""The client of a Redis master behind Sentinels, for workers and the service.

Promises that an error names the Sentinels and no login of theirs: releases of redis-py before 7 print every option of
a connection.
"""

from typing import Any, Final

import redis
from redis.sentinel import MasterNotFoundError, Sentinel

from itinerary.protocol.sentinel_urls import SentinelUrl, read_sentinel_url

_SECONDS: Final = 3


class _Sentinels(Sentinel):
    def discover_master(self, service_name: str) -> Any:
        known: Any = super()
        try:
            return known.discover_master(service_name)
        except MasterNotFoundError:
            asked = ", ".join(
                "{host}:{port}".format_map(one.connection_pool.connection_kwargs) for one in self.sentinels
            )
            problem = f"no Sentinel of {asked} names a master {service_name!r} that is up: check the name and the login"
        raise MasterNotFoundError(problem)


def master_client(url: str, **options: Any) -> redis.Redis:
    """Create a client that connects at its first use, and asks the Sentinels without repeating itself."""
    at = read_sentinel_url(url)
    sentinels: Any = _Sentinels
    client: redis.Redis = sentinels(at.hosts, sentinel_kwargs=_patience() | at.sentinel_login).master_for(
        at.master, db=at.db, **at.login, **options
    )
    return client


def transport_options(at: SentinelUrl) -> dict[str, Any]:
    """The `broker_transport_options` with which Celery asks them as briefly."""
    return {**at.transport_options, "sentinel_kwargs": _patience() | at.sentinel_login}


def _patience() -> dict[str, Any]:
    """Each question has one try: redis-py has several, seconds apart, for each Sentinel that is down."""
    from redis.backoff import NoBackoff  # absent from the oldest releases, which the start check refuses
    from redis.retry import Retry

    return {"socket_timeout": _SECONDS, "socket_connect_timeout": _SECONDS, "retry": Retry(NoBackoff(), 0)}
