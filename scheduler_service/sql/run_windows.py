"""Pages of runs in an order that no index has: the newest SCANNED that a filter finds, sorted; then those before them.

Promises a keyset: the cursor holds the bounds of what is sorted, so pages neither repeat nor miss a run that matches
throughout. A page reads at most SCANNED rows of each index state.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, or_, select

from itinerary.protocol.instants import Instant
from scheduler_service.ports.lists import Order, Page, RunFilter, RunSort
from scheduler_service.sql import run_lists
from scheduler_service.sql.database import PLANNED_EACH_TIME
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.paging import no_cursor, page_of, read_cursor, write_cursor
from scheduler_service.sql.tables import runs

_EACH: Final = {PLANNED_EACH_TIME: True}
_VALUED, _WITHOUT, _FROM_THE_START = 0, 1, 2


class _Window(NamedTuple):
    """The runs that are sorted together: from `lower` on and before `upper`, by time and id; None is no bound."""

    upper: tuple[int, int] | None
    lower: tuple[int, int] | None


class _Place(NamedTuple):
    """The last run shown: whether it has a value, the value, its row."""

    rank: int
    value: int
    row_id: int


def page_in_windows(
    connection: Connection, wanted: RunFilter, limit: int, cursor: str | None, columns: Sequence[Any],
    order: Order[RunSort], now: Instant,
) -> Page[Any]:  # fmt: skip
    """The next page of rows with these columns, in the order."""
    found = run_lists.searched(connection, wanted, now)
    window, place = _begin(connection, found, None) if cursor is None else _resumed(connection, found, cursor, order)
    if window is None:
        return Page([], None)
    placed = _placed(connection, found, window, place, order, limit + 1).subquery("placed")
    whole = select(*columns, placed.c.value).join(placed, runs.c.id == placed.c.id)
    whole = whole.order_by(*_ordered(placed.c.value, placed.c.id, order))
    rows = connection.execute(whole, execution_options=_EACH).all()
    page = page_of(rows, limit, lambda row: row[:-1], lambda row: _cursor(order, window, _place_of(row)))
    if page.next_cursor is not None or window.lower is None:
        return page
    return Page(page.items, write_cursor(_cursor(order, _Window(window.lower, None), _Place(_FROM_THE_START, 0, 0))))


def _begin(
    connection: Connection, found: run_lists.Searched, upper: tuple[int, int] | None
) -> tuple[_Window | None, _Place | None]:
    """The first page of the newest runs before `upper`; no window if there are none."""
    keys = (runs.c.scheduled_at, runs.c.id)

    def read(limit: int, offset: int) -> Any:
        newest = run_lists.first_runs(found, run_lists.SCANNED if offset else 1, _before(upper), keys).subquery("read")
        ordered = select(*newest.c).order_by(newest.c.scheduled_at.desc(), newest.c.id.desc())
        return connection.execute(ordered.offset(offset).limit(limit), execution_options=_EACH).first()

    first = read(1, 0)
    if first is None:
        return None, None
    last = read(1, run_lists.SCANNED - 1)
    # Runs that are newer than the first come into no window, so that a page never reads more than its share.
    lower = None if last is None else (last.scheduled_at, last.id)
    return _Window((first.scheduled_at, first.id + 1), lower), None


def _resumed(
    connection: Connection, found: run_lists.Searched, cursor: str, order: Order[RunSort]
) -> tuple[_Window | None, _Place | None]:
    """The window and the place that a cursor holds."""
    text, upper_at, upper_id, bounded, lower_at, lower_id, *place = read_cursor(cursor, str, *[int] * 8)
    if text != order.text:
        raise no_cursor(cursor)
    upper = (upper_at, upper_id)
    if place[0] == _FROM_THE_START:
        return _begin(connection, found, upper)
    return _Window(upper, (lower_at, lower_id) if bounded else None), _Place(*place)


def _cursor(order: Order[RunSort], window: _Window, place: _Place) -> list[Any]:
    lower = window.lower or (0, 0)
    return [order.text, *(window.upper or (0, 0)), int(window.lower is not None), *lower, *place]


def _place_of(row: Any) -> _Place:
    return _Place(_WITHOUT, 0, row.id) if row.value is None else _Place(_VALUED, row.value, row.id)


def _placed(
    connection: Connection, found: run_lists.Searched, window: _Window, place: _Place | None, order: Order[RunSort],
    limit: int,
) -> Select[Any]:  # fmt: skip
    """Select the ids and values of a page: few columns, so that sorting moves no whole rows."""
    keys = (runs.c.id, runs.c.scheduled_at, runs.c.state, runs.c.task, runs.c.limits)
    value = _value(order.by, dialect_of(connection)).label("value")
    bounds = [*_before(window.upper), *_not_before(window.lower)]
    read = run_lists.first_runs(found, run_lists.SCANNED, bounds, (*keys, value)).subquery("read")
    matching = select(read.c.id, read.c.value).where(*found.judging(read.c), *_behind(read.c, place, order))
    return matching.order_by(*_ordered(read.c.value, read.c.id, order)).limit(limit)


def _value(sort: RunSort, dialect: Dialect) -> ColumnElement[int]:
    if sort is RunSort.DURATION:
        return dialect.microseconds(runs.c.finished_at) - dialect.microseconds(runs.c.started_at)
    return dialect.microseconds(runs.c[sort.value])


def _ordered(value: ColumnElement[Any], row_id: ColumnElement[int], order: Order[RunSort]) -> list[ColumnElement[Any]]:
    if order.descending:
        return [value.is_(None), value.desc(), row_id.desc()]
    return [value.is_(None), value, row_id]


def _behind(columns: Any, place: _Place | None, order: Order[RunSort]) -> list[ColumnElement[bool]]:
    """The condition of what follows the last run shown."""
    if place is None:
        return []

    def follows(column: ColumnElement[Any], last: int) -> ColumnElement[bool]:
        return column < last if order.descending else column > last

    value, same = columns.value, follows(columns.id, place.row_id)
    if place.rank == _WITHOUT:
        return [value.is_(None), same]
    return [or_(value.is_(None), follows(value, place.value), and_(value == place.value, same))]


def _before(upper: tuple[int, int] | None) -> list[ColumnElement[bool]]:
    return [] if upper is None else [run_lists.key(*upper) > run_lists.KEY]


def _not_before(lower: tuple[int, int] | None) -> list[ColumnElement[bool]]:
    return [] if lower is None else [run_lists.key(*lower) <= run_lists.KEY]
