"""What one more leader costs that has nothing to do: the price of a partition (manual/scaling.md), and of a standby."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final, NamedTuple

from tests.benchmarks.bed import Bed, Scene, usage
from tests.benchmarks.figures import Asked, Figure
from tests.support.processes import Child, free_port, wait_until

_CONNECTIONS: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
_TRANSACTIONS: Final = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"


class _Spent(NamedTuple):
    """Of one process: CPU and memory; of its servers: CPU, transactions, commands."""

    at: float
    leader: float
    postgres: float
    redis: float
    transactions: int
    commands: int


def figures(asked: Asked) -> Iterator[Figure]:
    """A leader without jobs, then a standby beside it; each alone."""
    seconds = 10 if asked.quick else 60
    with Bed() as bed, bed.scene() as scene, ExitStack() as stack:
        leader = scene.start_leader()
        yield from _cost(bed, scene, leader, "a leader without jobs", seconds)
        before = scene.value(_CONNECTIONS)
        port = str(free_port())
        standby = stack.enter_context(_standby(scene, port))
        wait_until(lambda: scene.value(_CONNECTIONS) > before, 60, lambda: standby.output)
        both = list(_cost(bed, scene, standby, "a standby beside it", seconds))
        yield from (figure for figure in both if "process" in figure.name)
        yield Figure("connections to PostgreSQL of a standby", scene.value(_CONNECTIONS) - before, "")


def _standby(scene: Scene, port: str) -> Child:
    env = scene.env | {"ITINERARY_METRICS_PORT": port}
    return Child([sys.executable, "-m", "scheduler_service.cli", "leader"], env=env)


def _cost(bed: Bed, scene: Scene, process: Child, name: str, seconds: int) -> Iterator[Figure]:
    time.sleep(seconds / 4)  # what a start does is over
    first = _spent(bed, scene, process)
    time.sleep(seconds)
    last = _spent(bed, scene, process)
    spent = last.at - first.at
    yield Figure(f"{name}: connections to PostgreSQL", scene.value(_CONNECTIONS), "")
    yield Figure(f"{name}: memory of the process", usage(process.pid).rss / 1e6, "MB")
    yield Figure(f"{name}: CPU of the process", 100 * (last.leader - first.leader) / spent, "%")
    yield Figure(f"{name}: CPU of PostgreSQL", 100 * (last.postgres - first.postgres) / spent, "%")
    yield Figure(f"{name}: CPU of Redis", 100 * (last.redis - first.redis) / spent, "%")
    yield Figure(f"{name}: transactions", (last.transactions - first.transactions) / spent, "a second")
    yield Figure(f"{name}: commands to Redis", (last.commands - first.commands) / spent, "a second")


def _spent(bed: Bed, scene: Scene, process: Child) -> _Spent:
    scene.sql.execute("SELECT pg_stat_clear_snapshot()")
    info = scene.client.info("all")
    return _Spent(
        time.monotonic(),
        usage(process.pid).cpu,
        usage(bed.postgres.pid).cpu,
        info["used_cpu_user"] + info["used_cpu_sys"],
        scene.value(_TRANSACTIONS),
        info["total_commands_processed"],
    )
