"""Traits of a Redis server that decide whether, and how safely, Itinerary runs on it; for workers and the service.

Promises to ask only, and only with rights that every user has or whose lack is the answer.
"""

from typing import Any, Final

import redis

CLUSTER: Final = (
    "this is a node of a Redis Cluster, and all keys of a run must be on one server: give a server with "
    "`cluster-enabled no`, alone or behind Sentinels"
)
OF_CLUSTERS: Final = (redis.exceptions.ClusterError, redis.exceptions.ClusterDownError, redis.exceptions.MovedError)
"""Errors with which such a node answers."""


def run_id_of(client: "redis.Redis") -> str | None:
    """The run id of the server, which each start changes; None where INFO is refused or does not tell."""
    try:
        return run_id_in(client.info("server"))
    except redis.ResponseError:
        return None


def run_id_in(server: Any) -> str | None:
    """The run id in an answer to INFO, which may be an error from a pipeline."""
    if isinstance(server, redis.ResponseError):
        return None
    if isinstance(server, Exception):
        raise server
    return str(server["run_id"]) if server.get("run_id") else None


def is_cluster(client: Any) -> bool:
    """Whether the server is a node of a Redis Cluster, as far as it tells."""
    try:
        answer: Any = client.execute_command("HELLO")  # needs no right
    except redis.ResponseError:
        pass
    else:
        words = [part for pair in answer.items() for part in pair] if isinstance(answer, dict) else answer
        return any(word in (b"cluster", "cluster") for word in words)
    try:
        answer = client.info("cluster")
    except redis.ResponseError:
        return False
    return bool(answer.get("cluster_enabled"))
