"""Balanced jobs that were placed long ago, all in the same few quarters of an hour: what a rebalance is for."""

from sqlalchemy import update

from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.sql.database import Database
from scheduler_service.sql.jobs import SqlJobStore
from scheduler_service.sql.tables import job_versions, jobs


def cluster(database: Database, names: list[str], now: Instant, *, every: str = "6h", pinned: int = 0) -> None:
    """Store these jobs, their next runs within half an hour, two hours from now; the first `pinned` of them pinned."""
    store = SqlJobStore(database)
    for number, name in enumerate(names):
        schedule = {"kind": "interval", "every": every, "balanced": True, "pinned": number < pinned}
        job, _ = read_job({"job_id": name, "task": "demo.task", "schedule": schedule}, created_at=now - 24 * HOUR)
        store.create(job)
        anchor = now - now % (15 * MINUTE) + 2 * HOUR + (number * 97 % 1800) * SECOND
        where = {"placed_anchor": anchor, "placed_at": now - 3 * HOUR}
        with database.write() as connection:
            for table in (jobs, job_versions):
                connection.execute(update(table).where(table.c.job_id == name).values(**where))
