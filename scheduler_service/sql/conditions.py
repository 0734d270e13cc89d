"""Conditions in SQL: few rows found by partial indexes, however long the history is. Only reads."""

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, case, false, literal_column, select

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.leader.poll_state import Place
from scheduler_service.core.model import Job, Overlap, RunKind
from scheduler_service.core.notifications.conditions import Pending, Running, may_end
from scheduler_service.core.notifications.notices import Named
from scheduler_service.core.policies import could_go_since
from scheduler_service.core.run_state import RunState
from scheduler_service.core.versions import as_of
from scheduler_service.ports.notices import Conditions, Page
from scheduler_service.sql.database import Database
from scheduler_service.sql.job_lists import is_paused
from scheduler_service.sql.job_rows import JOB_COLUMNS, current_job_of
from scheduler_service.sql.leader import reads
from scheduler_service.sql.notices import named_runs
from scheduler_service.sql.tables import IS_TRACKED, jobs, runs

_R: Final = runs.c


class SqlConditions(Conditions):
    """Conditions on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def waiting(self, due_before: Instant, limit: int, after: Place | None) -> tuple[list[Pending], Place | None]:
        with self._database.read() as connection:
            runs_due, place = reads.overdue(connection, due_before, limit, after)
            now = self._database.read_clock(connection)
            paused = _paused(connection, {run.job_id for run in runs_due if run.kind is RunKind.OCCURRENCE}, now)
            due = {
                run.run_id: run.due_at
                for run in runs_due
                if could_go_since(run) is not None and (run.job_id not in paused or run.kind is not RunKind.OCCURRENCE)
            }
            named = named_runs(connection, due)
        return [Pending(run, due[run_id]) for run_id, run in named.items()], place

    def in_flight(self, due_before: Instant, limit: int, after: Place | None) -> tuple[list[Pending], Place | None]:
        since = case((_R.overlap == literal_column(f"'{Overlap.QUEUE_ALL}'"), _R.pending_at), else_=_R.due_at)
        found, place = self._in_state(RunState.PENDING, since, since < due_before, limit, after)
        return [Pending(run, due_at) for run, due_at, _ in found], place

    def running(self, limit: int, after: Place | None) -> tuple[list[Running], Place | None]:
        found, place = self._in_state(RunState.RUNNING, _R.started_at, _R.started_at.is_not(None), limit, after)
        return [Running(*one) for one in found], place

    def _in_state(
        self, state: RunState, since: Any, wanted: ColumnElement[bool], limit: int, after: Place | None
    ) -> tuple[list[tuple[Named, Instant, Duration | None]], Place | None]:
        """Read the runs in a state, oldest first."""
        found = (
            select(_R.run_id, _R.job_id, _R.task, _R.queue, since.label("since"), _R.timeout, _R.id)
            .where(IS_TRACKED, _R.state == literal_column(f"'{state}'"), wanted, reads.behind(since, after))
            .order_by(since, _R.id)
            .limit(limit)
        )
        with self._database.read() as connection:
            rows = connection.execute(found).all()
        place = (rows[-1].since, rows[-1].id) if len(rows) == limit else None
        return [(Named(row.run_id, row.job_id, row.task, row.queue), row.since, row.timeout) for row in rows], place

    def jobs(self, after: str | None, limit: int) -> Page:
        """Parses only jobs that could end."""
        following = [] if after is None else [jobs.c.job_id > after]
        with self._database.read() as connection:
            now = self._database.read_clock(connection)
            wanted = (
                select(*JOB_COLUMNS, jobs.c.job_id)
                .where(jobs.c.deleted == false(), ~is_paused(now), *following)
                .order_by(jobs.c.job_id)
                .limit(limit)
            )
            rows = connection.execute(wanted).all()
        found = [as_of(job, now) for row in rows if may_end(row.definition) and (job := _job(row)) is not None]
        return Page(found, after, rows[-1].job_id if len(rows) == limit else None)


def _paused(connection: Connection, job_ids: Iterable[str | None], now: Instant) -> set[str]:
    """Select the paused jobs: a run that waits for a resume is not late."""
    named = sorted(job_id for job_id in job_ids if job_id is not None)
    return set(connection.execute(select(jobs.c.job_id).where(is_paused(now), jobs.c.job_id.in_(named))).scalars())


def _job(row: Any) -> Job | None:
    try:
        return current_job_of(row)
    except (BadValue, BadValues):  # the leader logs that itself, and plans nothing for it
        return None
