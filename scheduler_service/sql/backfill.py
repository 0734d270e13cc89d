"""The database's knowledge of a job's past occurrences, for backfills: one index step per occurrence.

Only reads, the cursor first, so that rows which it has passed are seen afterwards.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, func, select

from itinerary.protocol.instants import Instant
from scheduler_service.core.contract.backfill import Known, PastRun
from scheduler_service.core.run_state import RunState
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.tables import KEY, cursors, job_versions, jobs, runs

_SHARD: Final = 0
_TIMES: Final = Batch(at=InstantColumn)
_JOB_ID: Final = bindparam("job_id", type_=KEY)
_COLUMNS: Final = (runs.c.run_id, runs.c.scheduled_at, runs.c.state, runs.c.retry_of)


def known_of(connection: Connection, job_id: str, times: Sequence[Instant]) -> Known:
    """Read what the database knows of the job's occurrences at `times`, ascending."""
    progress = select(cursors.c.materialised_until, cursors.c.pruned_until).where(cursors.c.shard == _SHARD)
    cursor, pruned_until = connection.execute(progress).first() or (None, None)
    unplanned_since = connection.execute(_unplanned_since(), {"job_id": job_id}).scalar()
    found: list[Any] = []
    for chunk in _TIMES.chunks([(at,) for at in times]):
        found += connection.execute(_at_times(dialect_of(connection)), {**chunk, "job_id": job_id})
    tried_again = connection.execute(_retries(), {"job_id": job_id, "since": times[0]}) if found else ()
    return Known(
        runs=_past_runs(found),
        retries=_past_runs(tried_again),
        planned_until=min((at for at in (cursor, unplanned_since) if at is not None), default=None),
        pruned_until=pruned_until,
    )


def _past_runs(rows: Any) -> list[PastRun]:
    return [PastRun(run_id, at, RunState(state), retry_of) for run_id, at, state, retry_of in rows]


@cache
def _unplanned_since() -> Select[Any]:
    return (
        select(func.min(job_versions.c.effective_from))
        .join(jobs, jobs.c.job_id == job_versions.c.job_id)
        .where(jobs.c.job_id == _JOB_ID, job_versions.c.version > jobs.c.planned_version)
    )


@cache
def _at_times(dialect: Dialect) -> Select[Any]:
    batch = _TIMES.rows(dialect)
    at_time = (runs.c.job_id == _JOB_ID, runs.c.scheduled_at == batch.c.at)
    return select(*_COLUMNS).select_from(batch.join(runs, at_time[1])).where(at_time[0]).order_by(runs.c.id)


@cache
def _retries() -> Select[Any]:
    """Runs that were retried manually; such a run bears the time of its request."""
    since = bindparam("since", type_=InstantColumn)
    again = (runs.c.job_id == _JOB_ID, runs.c.scheduled_at >= since, runs.c.retry_of.is_not(None))
    return select(*_COLUMNS).where(*again).order_by(runs.c.id)
