"""Pages of runs by their time, for lists and for bulk operations.

Promises a keyset: pages neither repeat nor miss a run that matches throughout. Each index state is found by its index,
and a page reads at most SCANNED rows of it, whatever the filter.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, exists, func, literal, select, union_all
from sqlalchemy import tuple_ as row_of

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant
from scheduler_service.core.model import RunKind
from scheduler_service.core.run_state import ACTIVE, WAITING, RunState
from scheduler_service.ports.lists import NEWEST_FIRST, Order, Page, RunFilter, RunSort
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.database import PLANNED_EACH_TIME
from scheduler_service.sql.holding_text import holds
from scheduler_service.sql.index_states import in_states
from scheduler_service.sql.paging import page_of, read_cursor, write_cursor
from scheduler_service.sql.tables import IS_TRACKED, has_index_state, runs

SCANNED: Final = 10_000
KEY: Final = row_of(runs.c.scheduled_at, runs.c.id)
_EACH: Final = {PLANNED_EACH_TIME: True}
_BY_QUEUE: Final = (runs.c.standing, runs.c.queue, runs.c.priority, runs.c.due_at, runs.c.id)


@dataclass(frozen=True, slots=True)
class Searched:
    """A filter, and the states that are judged in rows that were read, since no index would find them in time.

    `now` is the database's time, at least where completed runs are wanted.
    """

    wanted: RunFilter
    now: Instant
    judged: tuple[RunState, ...] = ()

    @property
    def scans(self) -> bool:
        """Whether rows must be read to be judged."""
        return self.wanted.scans or bool(self.judged)

    def judging(self, columns: Any) -> list[ColumnElement[bool]]:
        """The conditions that no index serves, on these columns."""
        in_state = [columns.state.in_([state.value for state in self.judged])] if self.judged else []
        return [*judging(self.wanted, columns), *in_state]


def page_of_runs(
    connection: Connection, wanted: RunFilter, limit: int, cursor: str | None, columns: Sequence[Any],
    *more: ColumnElement[bool], now: Instant, order: Order[RunSort] = NEWEST_FIRST,
) -> Page[Any]:  # fmt: skip
    """The next page of rows with these columns, `scheduled_at` and `id` among them, that match and pass `more`."""
    found, down = searched(connection, wanted, now), order.descending
    if found.judged and not down:
        message = (
            f"more than {SCANNED:,} such runs wait, in no order of time; sort by -scheduled_at, or narrow by queue"
        )
        raise BadValue("sort", order.text, message)
    conditions = [*more, *_behind(cursor, down)]
    if not found.scans:
        first = first_runs(found, limit + 1, conditions, columns, descending=down)
        return page_of(connection.execute(first, execution_options=_EACH).all(), limit, _as_it_is, _place)
    scanned = first_runs(found, SCANNED, conditions, columns, descending=down).subquery("scanned")
    matching = select(*scanned.c).where(*found.judging(scanned.c)).limit(limit + 1)
    rows = connection.execute(matching.order_by(*_by_time(scanned.c, down)), execution_options=_EACH).all()
    page = page_of(rows, limit, _as_it_is, _place)
    if page.next_cursor is not None:
        return page
    last = select(scanned.c.scheduled_at, scanned.c.id).order_by(*_by_time(scanned.c, down))
    end = connection.execute(last.offset(SCANNED - 1).limit(1), execution_options=_EACH).first()
    return Page(page.items, None if end is None else write_cursor(list(end)))


def searched(connection: Connection, wanted: RunFilter, now: Instant) -> Searched:
    """How the filter's states are found.

    The index of waiting runs is not in the order of time. A few are sorted; of more, each page would sort all.
    """
    if wanted.run_ids or not _in_crowds(connection, wanted):
        return Searched(wanted, now)
    return Searched(replace(wanted, states=()), now, wanted.states)


def _in_crowds(connection: Connection, wanted: RunFilter) -> bool:
    """Whether one of the filter's index states has more rows than a page may read."""
    states = frozenset(wanted.states) & ACTIVE
    crowds = [*([IS_TRACKED] if states else []), *(has_index_state(state) for state in sorted(states & WAITING))]
    for index_state in crowds:
        for queue in [wanted.queue] if wanted.queue is not None else wanted.queues or [None]:
            asked = select(runs.c.id).where(index_state, *([] if queue is None else [runs.c.queue == queue]))
            # Ordered as the index, so that no planner reads the table because of the limit.
            beyond = asked.order_by(*_BY_QUEUE).offset(SCANNED).limit(1)
            if connection.execute(beyond, execution_options=_EACH).first() is not None:
                return True
    return False


def judging(wanted: RunFilter, columns: Any) -> list[ColumnElement[bool]]:
    """The conditions of the filter that no index serves, on these columns."""
    conditions: list[ColumnElement[bool]] = []
    if wanted.task is not None:
        conditions.append(columns.task == wanted.task)
    if wanted.planned is not None:
        conditions.append((columns.kind == RunKind.OCCURRENCE.value) == wanted.planned)
    if wanted.recalled is not None:
        row = runs.alias("row")  # no page of runs has the column
        taken_back = exists().where(row.c.id == columns.id, row.c.recalled_at.is_not(None))
        conditions.append(taken_back if wanted.recalled else ~taken_back)
    uses = func.coalesce(columns.limits, "")
    if wanted.limit_name is not None and wanted.limit_key is not None:
        use = json.dumps([wanted.limit_name, wanted.limit_key], ensure_ascii=False, separators=(",", ":"))
        conditions.append(holds(uses, use))
    elif wanted.limit_name is not None:
        conditions.append(holds(uses, f'["{wanted.limit_name}",'))
    elif wanted.limit_key is not None:
        conditions.append(holds(uses, f",{json.dumps(wanted.limit_key, ensure_ascii=False)}]"))
    return conditions


def key(scheduled_at: int, row_id: int) -> Any:
    """A run's place in time, to compare KEY with."""
    return row_of(literal(scheduled_at, InstantColumn), literal(row_id))


def first_runs(
    found: Searched, limit: int, more: Sequence[ColumnElement[bool]], columns: Sequence[Any], *, descending: bool = True
) -> Select[Any]:
    """Select the first rows by time that the indexes find and that pass `more`."""
    wanted = found.wanted
    conditions = [*_conditions(wanted), *more]
    # Each index state separately: rare and common ones are found by different indexes.
    states = [[*conditions, part] for part in in_states(wanted.states, found.now)] or [conditions]
    queues = [[runs.c.queue == queue] for queue in wanted.queues] or [[]]
    parts = [[*state, *queue] for state in states for queue in queues]

    def first(table: Any, selected: Sequence[Any]) -> Select[Any]:
        return select(*selected).order_by(*_by_time(table.c, descending)).limit(limit)

    of_each = [first(runs, columns).where(*part) for part in parts]
    if len(of_each) == 1:
        return of_each[0]
    together = union_all(*(select(part.subquery()) for part in of_each)).subquery("together")
    return first(together, list(together.c))


def _behind(cursor: str | None, descending: bool) -> list[ColumnElement[bool]]:
    if cursor is None:
        return []
    last = key(*read_cursor(cursor, int, int))
    return [last > KEY if descending else last < KEY]


def _by_time(columns: Any, descending: bool) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    at, row_id = columns.scheduled_at, columns.id
    return (at.desc(), row_id.desc()) if descending else (at, row_id)


def _as_it_is(row: Any) -> Any:
    return row


def _place(row: Any) -> list[Any]:
    return [row.scheduled_at, row.id]


def _conditions(wanted: RunFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.job_id is not None:
        conditions.append(runs.c.job_id == wanted.job_id)
    if wanted.queue is not None:
        conditions.append(runs.c.queue == wanted.queue)
    if wanted.owner is not None:
        conditions.append(runs.c.owner == wanted.owner)
    if wanted.since is not None:
        conditions.append(runs.c.scheduled_at >= wanted.since)
    if wanted.until is not None:
        conditions.append(runs.c.scheduled_at < wanted.until)
    if wanted.run_ids:
        conditions.append(runs.c.run_id.in_(wanted.run_ids))
    return conditions
