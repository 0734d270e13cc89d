"""The client of a Redis master behind Sentinels, for workers and the service.

Promises that an error names the Sentinels and no login of theirs: releases of redis-py before 7 print every option of
a connection.
"""

from typing import Any

import redis
from redis.sentinel import MasterNotFoundError, Sentinel

from itinerary.protocol.sentinel_urls import read_sentinel_url


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


def master_client(url: str, *, patience: float, **options: Any) -> redis.Redis:
    """Create a client that connects at its first use; `patience` is in seconds, for each question to a Sentinel."""
    at = read_sentinel_url(url)
    asked = {"socket_timeout": patience, "socket_connect_timeout": patience, **at.sentinel_login}
    sentinels: Any = _Sentinels
    client: redis.Redis = sentinels(at.hosts, sentinel_kwargs=asked).master_for(
        at.master, db=at.db, **at.login, **options
    )
    return client
