"""Totals of lists in SQL: exact while an index scan of at most MOST rows ends, else "more than". Only reads.

Promises that a count reads at most MOST + 1 rows of each state asked for, however long the history. A single index
narrows each scan; the rest of the filter is applied to the scanned rows.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, func, literal_column, select, true

from itinerary.protocol.instants import Instant
from scheduler_service.core.run_state import ACTIVE, FINAL, RunState
from scheduler_service.ports.history import Total
from scheduler_service.ports.stores import JobFilter, RunFilter
from scheduler_service.sql.index_states import IS_COMPLETED, are_over, ended_as
from scheduler_service.sql.job_lists import has_last_state, is_paused, job_conditions
from scheduler_service.sql.run_lists import judging
from scheduler_service.sql.tables import IS_TRACKED, among, has_index_state, jobs, runs

MOST: Final = 10_000
_R: Final = runs.c
_BY_TIME: Final = (_R.scheduled_at.desc(), _R.id.desc())
_BY_QUEUE: Final = (_R.standing, _R.queue, _R.priority, _R.due_at, _R.id)


def runs_total(wanted: RunFilter, now: Instant) -> list[Select[Any]]:
    """One statement for each index to scan; each gives (rows scanned, rows that match). `now` is for completed runs."""
    states = frozenset(wanted.states)
    if wanted.run_ids:
        return [_scan([_R.run_id.in_(wanted.run_ids)], among(_R.state, states) if states else true(), wanted)]
    if not states:
        return [_scan(_by_time(wanted), true(), wanted)]
    scans = [_scan(_ended_so(state, wanted), true(), wanted) for state in sorted(states & FINAL - {RunState.COMPLETED})]
    if RunState.COMPLETED in states:
        scans.append(_scan([*_by_time(wanted), are_over(now)], IS_COMPLETED, wanted))
    if active := states & ACTIVE:
        scans.append(_scan(_in_queue([IS_TRACKED], wanted), among(_R.state, active), wanted, _BY_QUEUE))
    waiting = sorted(active & {RunState.SCHEDULED, RunState.RETRYING})
    return [
        *scans,
        *(_scan(_in_queue([has_index_state(state)], wanted), true(), wanted, _BY_QUEUE) for state in waiting),
    ]


def jobs_total(wanted: JobFilter, now: Instant) -> Select[Any]:
    """The statement that counts jobs in the same way; `now` tells which runs were due, and which pauses hold."""
    last = [has_last_state(jobs.c.job_id, wanted, now)] if wanted.last_states else []
    named = {name: getattr(wanted, name) for name in ("queue", "task", "source")}
    narrowed = [jobs.c[name] == value for name, value in named.items() if value is not None]
    narrowed += [jobs.c.job_id.in_(wanted.job_ids)] if wanted.job_ids else []
    there = [~jobs.c.deleted]
    # The indexes by queue and task are of jobs that are there, and so need no row of the table.
    if wanted.queue is not None or wanted.task is not None:
        narrowed, there = [*narrowed, *there], []
    matches = and_(true(), *there, *job_conditions(wanted, now), *last).label("matches")
    scanned = select(matches).select_from(jobs).where(*narrowed)
    return _counted(scanned.limit(MOST + 1).subquery("walk"))


def total_of(counted: Sequence[tuple[int, int | None]]) -> Total:
    """The sum; `more` if a scan did not reach its end, or if there are more than MOST."""
    found = sum(matching or 0 for _, matching in counted)
    return Total(min(found, MOST), found > MOST or any(scanned > MOST for scanned, _ in counted))


def _by_time(wanted: RunFilter) -> list[ColumnElement[bool]]:
    if wanted.job_id is not None:
        return [_R.job_id == wanted.job_id, *_window(wanted)]
    return [*([_R.queue == wanted.queue] if wanted.queue is not None else []), *_window(wanted)]


def _ended_so(state: RunState, wanted: RunFilter) -> list[ColumnElement[bool]]:
    return [ended_as(state), *_by_time(wanted)]


def _in_queue(index_state: list[ColumnElement[bool]], wanted: RunFilter) -> list[ColumnElement[bool]]:
    return [*index_state, *([_R.queue == wanted.queue] if wanted.queue is not None else [])]


def _window(wanted: RunFilter) -> list[ColumnElement[bool]]:
    since = [_R.scheduled_at >= wanted.since] if wanted.since is not None else []
    return [*since, *([_R.scheduled_at < wanted.until] if wanted.until is not None else [])]


def _scan(
    narrowed: Sequence[ColumnElement[bool]],
    judged: ColumnElement[bool],
    wanted: RunFilter,
    order: Sequence[ColumnElement[Any]] = _BY_TIME,
) -> Select[Any]:
    # Ordered as the index, so that no planner scans the table because of the limit.
    of_job = [_R.job_id == wanted.job_id] if wanted.job_id is not None else []
    of_queue = [_R.queue == wanted.queue] if wanted.queue is not None else []
    matches = and_(judged, *of_job, *of_queue, *_window(wanted), *judging(wanted, _R)).label("matches")
    return _counted(
        select(matches).select_from(runs).where(*narrowed).order_by(*order).limit(MOST + 1).subquery("walk")
    )


def _counted(scan: Any) -> Select[Any]:
    one: ColumnElement[Any] = literal_column("1")
    figures: tuple[ColumnElement[Any], ...] = (func.count(), func.count(one).filter(scan.c.matches))
    return select(*figures).select_from(scan)


def jobs_of_queues(most: int, now: Instant) -> Select[Any]:
    """Count for each queue the unpaused jobs that name it, in one scan of the jobs, for manual requests only."""
    queue = jobs.c.queue
    counted: tuple[ColumnElement[Any], ...] = (queue, func.count())
    return select(*counted).where(~jobs.c.deleted, ~is_paused(now)).group_by(queue).order_by(queue).limit(most)
