"""How long nobody leads: after kill -9 of the leader and after a clean stop, with the default lease and one standby.

Jobs fall due every second meanwhile, a worker runs them and records what it ran; at the end the whole history is held
against the invariants. A fail-over is timed from the signal to the standby's own word that it has taken over.
"""

import re
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median

from sqlalchemy import text

from scheduler_service.core.invariants.history import Rule
from scheduler_service.sql.migrations import upgrade
from tests.benchmarks.figures import Asked, Figure
from tests.support.fault_bed import FaultBed, LeaderProcess
from tests.support.postgres_server import PostgresServer
from tests.support.processes import wait_until
from tests.support.redis_server import RedisServer

ROUNDS = {"PostgreSQL": 20, "SQLite": 5}
TARGETS = {signal.SIGKILL: ("kill -9", 6.0), signal.SIGTERM: ("clean stop", 1.0)}
JOBS = 5
DEFAULTS = {
    "ITINERARY_LEASE_TTL": "5s",
    "ITINERARY_LOST_AFTER": "30s",
    "ITINERARY_REDISPATCH_AFTER": "30s",
    "ITINERARY_PRE_SCHEDULE_INTERVAL": "10s",
    "ITINERARY_INDEX_REBUILD_INTERVAL": "60s",
    "ITINERARY_LOOKAHEAD_WINDOW": "10m",
    "ITINERARY_GRACE_PERIOD": "30s",
}


def figures(asked: Asked) -> Iterator[Figure]:
    """Seconds without a leader, and what became of the runs that fell due in them."""
    for database, rounds in ROUNDS.items():
        with _bed(database) as bed:
            yield from _of(bed, database, 2 if asked.quick else rounds)


def _of(bed: FaultBed, database: str, rounds: int) -> Iterator[Figure]:
    bed.begin().worker()
    leading, due = bed.sole_leader(), 0
    for number, (name, target) in TARGETS.items():
        waits = []
        for _ in range(rounds):
            standby = bed.leader().wait_standing_by()
            began, ended = _change(leading, standby, number)
            waits.append(ended - began)
            due += _due_between(bed, began, ended)
            leading = standby
        yield Figure(f"{name} to the next leader, {database}, median of {rounds}", median(waits), "s")
        yield Figure("  the longest", max(waits), "s", target=target)
    now = time.time()
    wait_until(lambda: not bed.unfinished(int(now * 1e6)), 60, lambda: bed.outputs)
    found = bed.violations()
    yield Figure(f"  runs due while nobody led, {database}", due, "runs")
    yield Figure("  of all runs lost", sum(one.rule is Rule.LOST for one in found), "runs", target=0)
    yield Figure("  of all runs started twice", sum(one.rule is Rule.DOUBLED for one in found), "runs", target=0)
    yield Figure("  other violations of the invariants", _others(found), "findings", target=0)


def _others(found: list[object]) -> int:
    return sum(getattr(one, "rule", None) not in (Rule.LOST, Rule.DOUBLED) for one in found)


def _change(leading: LeaderProcess, standby: LeaderProcess, number: signal.Signals) -> tuple[float, float]:
    """When the leader was signalled and when the standby led, in seconds since 1970."""
    began = time.time()
    leading.child.signal(number)
    standby.wait_leading()
    leading.child.wait(15)
    said = re.search(r"^(\S+Z) .*took over", standby.child.output, re.MULTILINE)
    assert said is not None
    return began, datetime.fromisoformat(said[1]).timestamp()


def _due_between(bed: FaultBed, began: float, ended: float) -> int:
    asked = text("SELECT count(*) FROM runs WHERE due_at BETWEEN :began AND :ended")
    between = {"began": bed.instant(int(began * 1e6)), "ended": bed.instant(int(ended * 1e6))}
    with bed.database.read() as connection:
        return int(connection.execute(asked, between).scalar_one())


@contextmanager
def _bed(database: str) -> Iterator[FaultBed]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="itinerary-bench-")))
        redis = stack.enter_context(RedisServer(folder))
        if database == "PostgreSQL":
            url = stack.enter_context(PostgresServer()).create_database()
        else:
            url = f"sqlite:///{folder}/itinerary.db"
        upgrade(url)
        yield stack.enter_context(FaultBed(folder, url, redis.url, jobs=JOBS, **DEFAULTS))
