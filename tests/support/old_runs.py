"""Rows of the past, written as if they had been lived."""

from itertools import count
from typing import Any

from sqlalchemy import insert, select

from itinerary.protocol.instants import Instant
from scheduler_service.sql.database import Database
from scheduler_service.sql.tables import runs

_NUMBERS = count(1)


def old_run(at: Instant, **fields: Any) -> dict[str, Any]:
    """A run of no job that completed at `at`, or as `fields` say."""
    number = next(_NUMBERS)
    row = {
        "run_id": f"old-{number}", "kind": "adhoc", "task": "pkg.task", "args": [], "kwargs": {}, "queue": "default",
        "priority": 5, "scheduled_at": at, "due_at": at, "state": "completed", "pending_at": at, "finished_at": at,
        "created_at": at, "job_id": None, "job_version": None, "idempotency_key": None,
    }  # fmt: skip
    return {**row, **fields}


def keep(database: Database, *rows: dict[str, Any]) -> list[str]:
    """Insert them; returns their ids."""
    with database.write() as connection:
        connection.execute(insert(runs), list(rows))
    return [row["run_id"] for row in rows]


def kept_of(database: Database, run_ids: list[str]) -> list[str]:
    """Which of these are there still, in this order."""
    with database.read() as connection:
        there = set(connection.execute(select(runs.c.run_id)).scalars())
    return [run_id for run_id in run_ids if run_id in there]
