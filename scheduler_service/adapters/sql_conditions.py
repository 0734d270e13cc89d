"""Conditions in SQL: few rows by partial indexes, however long the history is. Only reads."""

from typing import Any, Final

from sqlalchemy import Connection, Select, false, literal_column, select

from scheduler_service.adapters import sql_reads
from scheduler_service.adapters.database import Database
from scheduler_service.adapters.job_rows import JOB_COLUMNS, current_job_of
from scheduler_service.adapters.sql_notices import named_runs
from scheduler_service.adapters.tables import IS_ACTIVE, jobs, runs
from scheduler_service.core.errors import BadValue, BadValues
from scheduler_service.core.instants import Duration, Instant
from scheduler_service.core.model import Job
from scheduler_service.core.notice_conditions import Pending, Running, may_end
from scheduler_service.core.notices import Named
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.notices import Page

_R: Final = runs.c


class SqlConditions:
    """Conditions on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(self, due_before: Instant, limit: int) -> list[Pending]:
        """See Conditions."""
        with self._database.read() as connection:
            due = {run.run_id: run.due_at for run in sql_reads.due_runs(connection, due_before, limit)}
            waiting = named_runs(connection, self._database.dialect, due)
            out = _in_state(RunState.PENDING, _R.due_at).where(_R.due_at < due_before).limit(limit)
            sent = [Pending(run, due_at) for run, due_at, _ in _rows(connection, out)]
        return [*sent, *(Pending(run, due[run_id]) for run_id, run in waiting.items())]

    def running(self, limit: int) -> list[Running]:
        """See Conditions."""
        started = _in_state(RunState.RUNNING, _R.started_at).where(_R.started_at.is_not(None)).limit(limit)
        with self._database.read() as connection:
            return [Running(*row) for row in _rows(connection, started)]

    def jobs(self, after: str | None, limit: int) -> Page:
        """See Conditions. Only what could end is parsed."""
        following = [] if after is None else [jobs.c.job_id > after]
        wanted = (
            select(*JOB_COLUMNS, jobs.c.job_id)
            .where(jobs.c.deleted == false(), jobs.c.paused == false(), *following)
            .order_by(jobs.c.job_id)
            .limit(limit)
        )
        with self._database.read() as connection:
            rows = connection.execute(wanted).all()
        found = [job for row in rows if may_end(row.definition) and (job := _job(row)) is not None]
        return Page(found, after, rows[-1].job_id if len(rows) == limit else None)


def _in_state(state: RunState, since: Any) -> Select[Any]:
    is_so = _R.state == literal_column(f"'{state}'")
    return (
        select(_R.run_id, _R.job_id, _R.task, since.label("since"), _R.timeout)
        .where(IS_ACTIVE, is_so)
        .order_by(since, _R.id)
    )


def _rows(connection: Connection, wanted: Select[Any]) -> list[tuple[Named, Instant, Duration | None]]:
    return [(Named(*row[:3]), row.since, row.timeout) for row in connection.execute(wanted)]


def _job(row: Any) -> Job | None:
    try:
        return current_job_of(row)
    except (BadValue, BadValues):  # the leader says so itself, and plans nothing for it
        return None
