"""Coalesce occurrences that are skipped one after the other: their rows become one missed range.

Promises that a row is deleted and its range grows in one transaction. Never deletes a row that somebody changed, asked
to cancel, or planned again. Decides nothing: the transitions say which occurrences coalesce, and into which range.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Text, and_, delete, exists, false, literal_column, select

from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.model import MissedRange
from scheduler_service.core.run_state import RunState
from scheduler_service.sql.batch import Batch, judged
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.leader.planning import add_to_missed_ranges
from scheduler_service.sql.tables import IS_OCCURRENCE, jobs, runs

_COALESCED: Final = Batch(run_id=Text)


def coalesce(connection: Connection, transitions: Sequence[Transition]) -> set[str]:
    """Apply the transitions that may coalesce and still can, and return their runs; the others keep their rows."""
    ranges = {t.run_id: t.coalesce for t in transitions if t.coalesce is not None}
    gone: set[str] = set()
    for chunk in _COALESCED.chunks([(run_id,) for run_id in ranges]):
        gone.update(connection.execute(_delete(dialect_of(connection)), chunk).scalars())
    add_to_missed_ranges(connection, _joined(missed_range for run_id, missed_range in ranges.items() if run_id in gone))
    return gone


def _joined(missed_ranges: Iterable[MissedRange]) -> list[MissedRange]:
    """Join each range to the one of the same reason that ends where it begins."""
    last: dict[tuple[str, str, int], MissedRange] = {}
    for missed_range in missed_ranges:
        before = last.pop((missed_range.job_id, missed_range.reason, missed_range.start), None)
        one = (
            missed_range
            if before is None
            else replace(before, end=missed_range.end, count=before.count + missed_range.count)
        )
        last[one.job_id, one.reason, one.end] = one
    return list(last.values())


@cache
def _delete(dialect: Dialect) -> Any:
    batch = _COALESCED.rows(dialect)
    # Inside `judged` this is no join: to merge, PostgreSQL would read all jobs up to the last one that is named.
    is_planned = exists().where(
        jobs.c.job_id == runs.c.job_id, jobs.c.version == runs.c.job_version, jobs.c.deleted == false()
    )
    untouched = (
        runs.c.state == literal_column(f"'{RunState.SCHEDULED}'"),
        IS_OCCURRENCE,
        runs.c.seq == 0,
        runs.c.cancel_requested_at.is_(None),
        is_planned.correlate(runs),
    )
    collected = (
        select(runs.c.id)
        .select_from(batch.join(runs, runs.c.run_id == batch.c.run_id))
        .where(judged(batch.c.run_id, and_(*untouched)))
        .with_for_update(of=runs, skip_locked=True)
        .cte("collected")
    )
    return delete(runs).where(runs.c.id.in_(select(collected.c.id))).returning(runs.c.run_id)
