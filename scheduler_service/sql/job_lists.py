"""Pages of jobs, by their id or by their last run, for lists and for bulk operations.

Promises a keyset: pages neither repeat nor miss a job that matches throughout. What no index finds is judged in at most
SCANNED jobs a page; by its last run no more jobs are sorted than that.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, case, func, literal, or_, select, true

from itinerary.protocol.instants import Instant
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.lists import MOST_BY_LAST_RUN, JobFilter, JobSort, Order, Page, too_many
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.database import PLANNED_EACH_TIME
from scheduler_service.sql.dialect import dialect_of
from scheduler_service.sql.holding_text import holds
from scheduler_service.sql.job_rows import LISTED_COLUMNS, tag_line
from scheduler_service.sql.paging import no_cursor, page_of, read_cursor, write_cursor
from scheduler_service.sql.tables import jobs, runs

SCANNED: Final = MOST_BY_LAST_RUN
_LAST: Final = "\x7f"  # sorts after every character of an id
_EACH: Final = {PLANNED_EACH_TIME: True}
_WORST_FIRST: Final = (
    RunState.FAILED, RunState.MISSED, RunState.RETRYING, RunState.CANCELLED, RunState.SKIPPED, RunState.PENDING,
    RunState.SCHEDULED, RunState.RUNNING, RunState.COMPLETED,
)  # fmt: skip


def page_of_jobs(
    connection: Connection, wanted: JobFilter, limit: int, cursor: str | None, order: Order[JobSort], now: Instant,
    *more: ColumnElement[bool],
) -> Page[Any]:  # fmt: skip
    """The next page of rows with LISTED_COLUMNS that match and pass `more`.

    `now` tells which runs were due, and which pauses hold.
    """
    if order.by is not JobSort.JOB_ID:
        return _by_last_run(connection, wanted, limit, cursor, order, now)
    behind = [] if cursor is None else [_follows(jobs.c.job_id, read_cursor(cursor, str)[0], order)]
    by_id = jobs.c.job_id.desc() if order.descending else jobs.c.job_id
    found = select(jobs.c.job_id).where(*_found_by(wanted, now), *more, *behind).order_by(by_id)
    end = None
    if wanted.last_states:
        read = found.limit(SCANNED).subquery("read")
        found = select(read.c.job_id).where(has_last_state(read.c.job_id, wanted, now))
        found = found.order_by(read.c.job_id.desc() if order.descending else read.c.job_id)
        ids = select(read.c.job_id).order_by(read.c.job_id.desc() if order.descending else read.c.job_id)
        end = connection.execute(ids.offset(SCANNED - 1).limit(1), execution_options=_EACH).scalar()
    placed = found.limit(limit + 1).subquery("placed")
    whole = select(*LISTED_COLUMNS).join(placed, jobs.c.job_id == placed.c.job_id).order_by(by_id)
    page = page_of(connection.execute(whole, execution_options=_EACH).all(), limit, _as_it_is, _id)
    return Page(page.items, write_cursor([end])) if page.next_cursor is None and end is not None else page


def is_paused(now: Instant) -> ColumnElement[bool]:
    """Whether the job of a row is in a pause: one that is over is none."""
    return and_(jobs.c.paused, func.coalesce(jobs.c.paused_until > literal(now, InstantColumn), true()))


def job_conditions(wanted: JobFilter, now: Instant) -> list[ColumnElement[bool]]:
    """The conditions of the filter on the row of a job, but for the prefixes."""
    conditions: list[ColumnElement[bool]] = []
    if wanted.tag is not None:
        conditions.append(holds(jobs.c.tags, f"\n{tag_line(wanted.tag)}\n"))
    if wanted.text:
        conditions.append(holds(jobs.c.search_text, wanted.text.casefold()))
    if wanted.paused is not None:
        conditions.append(is_paused(now) if wanted.paused else ~is_paused(now))
    for name in ("source", "queue", "task"):
        if (value := getattr(wanted, name)) is not None:
            conditions.append(jobs.c[name] == value)
    if wanted.job_ids:
        conditions.append(jobs.c.job_id.in_(wanted.job_ids))
    return conditions


def has_last_state(job_id: ColumnElement[str], wanted: JobFilter, now: Instant) -> ColumnElement[bool]:
    """Whether the newest run that was due is in one of the filter's states: one short read of an index for each job."""
    return _of_last_run(job_id, runs.c.state, now).in_([state.value for state in wanted.last_states])


def _found_by(wanted: JobFilter, now: Instant) -> list[ColumnElement[bool]]:
    begins = [and_(jobs.c.job_id >= first, jobs.c.job_id < f"{first}{_LAST}") for first in wanted.prefixes]
    return [~jobs.c.deleted, *job_conditions(wanted, now), *([or_(*begins)] if begins else [])]


def _of_last_run(job_id: ColumnElement[str], value: ColumnElement[Any], now: Instant) -> ColumnElement[Any]:
    of_job = select(value).where(runs.c.job_id == job_id, runs.c.scheduled_at < literal(now, InstantColumn))
    return of_job.order_by(runs.c.scheduled_at.desc(), runs.c.id.desc()).limit(1).scalar_subquery()


def _by_last_run(
    connection: Connection, wanted: JobFilter, limit: int, cursor: str | None, order: Order[JobSort], now: Instant
) -> Page[Any]:
    """Sort all jobs that the filter finds, as of the time of the first page."""
    place: Sequence[Any] = ()
    if cursor is not None:
        text, now, *place = read_cursor(cursor, str, int, int, int, str)
        if text != order.text:
            raise no_cursor(cursor)
    read = select(jobs.c.job_id).where(*_found_by(wanted, now)).limit(SCANNED + 1).subquery("read")
    if connection.execute(select(func.count()).select_from(read), execution_options=_EACH).scalar_one() > SCANNED:
        raise too_many(order, SCANNED)
    value = _of_last_run(read.c.job_id, _value(connection, order), now).label("value")
    in_states = [has_last_state(read.c.job_id, wanted, now)] if wanted.last_states else []
    valued = select(read.c.job_id, value).where(*in_states).subquery("valued")
    following = select(*valued.c).where(*_behind(valued.c, place, order))
    placed = following.order_by(*_ordered(valued.c, order)).limit(limit + 1).subquery("placed")
    whole = select(*LISTED_COLUMNS, placed.c.value).join(placed, jobs.c.job_id == placed.c.job_id)
    rows = connection.execute(whole.order_by(*_ordered(placed.c, order)), execution_options=_EACH).all()
    return page_of(
        rows, limit, _as_it_is,
        lambda row: [order.text, now, int(row.value is None), 0 if row.value is None else row.value, row.job_id],
    )  # fmt: skip


def _value(connection: Connection, order: Order[JobSort]) -> ColumnElement[int]:
    if order.by is JobSort.LAST_RUN:
        return dialect_of(connection).microseconds(runs.c.scheduled_at)
    return case({state.value: place for place, state in enumerate(_WORST_FIRST)}, value=runs.c.state)


def _ordered(columns: Any, order: Order[JobSort]) -> list[ColumnElement[Any]]:
    if order.descending:
        return [columns.value.is_(None), columns.value.desc(), columns.job_id.desc()]
    return [columns.value.is_(None), columns.value, columns.job_id]


def _behind(columns: Any, place: Sequence[Any], order: Order[JobSort]) -> list[ColumnElement[bool]]:
    """The condition of what follows the last job shown: whether it had no value, the value, its id."""
    if not place:
        return []
    without, value, job_id = place
    same = _follows(columns.job_id, job_id, order)
    if without:
        return [columns.value.is_(None), same]
    return [or_(columns.value.is_(None), _follows(columns.value, value, order), and_(columns.value == value, same))]


def _follows(column: ColumnElement[Any], last: Any, order: Order[JobSort]) -> ColumnElement[bool]:
    behind: ColumnElement[bool] = column < last if order.descending else column > last
    return behind


def _as_it_is(row: Any) -> Any:
    return row


def _id(row: Any) -> list[Any]:
    return [row.job_id]
