"""A check for queues that have jobs or runs and no living worker: the commonest reason for runs that never start."""

from collections.abc import Mapping
from typing import Any, Final

from scheduler_service.cli.findings import NotWell
from scheduler_service.sql.counts import jobs_of_queues
from scheduler_service.sql.database import Database

_SHOWN: Final = 5
_MOST: Final = 1000


def check_queues(database: Database, statistics: Mapping[str, Any]) -> str:
    """Count the queues with a living worker; NotWell names those with jobs or waiting runs and none."""
    with database.read() as connection:
        counted = connection.execute(jobs_of_queues(_MOST, database.read_clock(connection))).all()
        jobs = {str(row[0]): int(row[1]) for row in counted}
    served = {queue["name"] for queue in statistics["queues"] if queue["workers"]}
    waiting = {queue["name"]: queue["pending"] for queue in statistics["queues"] if queue["pending"]}
    orphans = sorted({*jobs, *waiting} - served)
    if orphans:
        more = f" and {len(orphans) - _SHOWN} more" if len(orphans) > _SHOWN else ""
        named = ", ".join(_text(name, jobs.get(name, 0), waiting.get(name, 0)) for name in orphans[:_SHOWN])
        raise NotWell(f"no living worker listens on {named}{more}")
    return f"{len(served)} with a living worker, none with jobs or runs and without one"


def _text(name: str, jobs: int, waiting: int) -> str:
    counts = [
        f"{count:,} {what if count != 1 else what[:-1]}" for count, what in ((jobs, "jobs"), (waiting, "runs")) if count
    ]
    return f"{name} ({', '.join(counts)})"
