"""Traits of a Redis server that decide whether, and how safely, Itinerary runs on it; for workers and the service.

Promises to ask only, and only with rights that every user has or whose lack is the answer.
"""

from typing import Any

import redis


def run_id_of(client: "redis.Redis") -> str | None:
    """The run id of the server, which each start changes; None where INFO is refused or does not tell."""
    try:
        server: Any = client.info("server")
    except redis.ResponseError:
        return None
    return str(server["run_id"]) if server.get("run_id") else None
