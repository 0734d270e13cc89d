"""The leader's reads of lanes: which ones have waiting runs in a queue, and the first runs of each.

Promises that a read costs as much as what it brings, whatever else waits in the queue. One index step finds a lane, and
a page of it begins behind the place at which the last one ended. Never reads a run that a schedule created.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    Row,
    Select,
    Text,
    bindparam,
    case,
    column,
    func,
    literal,
    select,
    true,
    values,
)
from sqlalchemy import tuple_ as row_of

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.lane_reads import HeadsRead, LanePage, LanesRead
from scheduler_service.core.leader.poll_state import Place
from scheduler_service.core.run_state import WAITING
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.column_types import FIRST_INSTANT, InstantColumn
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.leader.reads import PRIORITIES, in_parts
from scheduler_service.sql.run_rows import ACTIVE_COLUMNS, active_run
from scheduler_service.sql.tables import IS_REQUESTED, runs

_STATES: Final = tuple(sorted(WAITING))
_PAGES: Final = Batch(
    number=Integer, queue=Text, lane=Text, priority=Integer, due_at=InstantColumn, id=BigInteger
)  # fmt: skip
_FRONT: Final = (-1, FIRST_INSTANT, 0)
_UNTIL: Final = bindparam("until", type_=InstantColumn)


def lanes(connection: Connection, queue: str, first: str, limit: int) -> LanesRead:
    """The next `limit` lanes of the queue from `first` on, and the first one behind them."""
    asked = {"queue": queue, "first": first}
    found = list(connection.execute(_lanes_of().limit(limit + 1), asked).scalars())
    return LanesRead(queue, tuple(found[:limit]), found[limit] if len(found) > limit else None)


def heads(connection: Connection, until: Instant, pages: Sequence[LanePage], limit: int) -> HeadsRead:
    """The next `limit` runs due before `until` of each lane, by priority and time, and the pages that follow."""
    asked = [(number, page.queue, page.lane, *(page.after or _FRONT)) for number, page in enumerate(pages)]
    statement = _heads() if dialect_of(connection) is Dialect.POSTGRESQL else _heads_in_parts()
    rows: dict[int, list[Row[Any]]] = {}
    for chunk in _PAGES.chunks(asked):
        for row in connection.execute(statement, {"until": until, "limit": limit, **chunk}).all():
            rows.setdefault(row.number, []).append(row)
    more = [pages[number]._replace(after=_place(found[-1])) for number, found in rows.items() if len(found) == limit]
    found = [active_run(row[:-2]) for of_lane in rows.values() for row in of_lane]
    return HeadsRead(tuple(pages), tuple(found), tuple(more))


def _place(row: Row[Any]) -> Place:
    return row.priority, row.due_at, row.id


@cache
def _lanes_of() -> Select[Any]:
    """Select the lanes of a queue with one index step each, however many runs they have."""
    of_queue = (IS_REQUESTED, runs.c.queue == bindparam("queue", type_=Text))
    first = (
        select(func.min(runs.c.lane).label("lane"))
        .where(*of_queue, runs.c.lane >= bindparam("first", type_=Text))
        .cte("lanes", recursive=True)
    )
    following = select(func.min(runs.c.lane)).where(*of_queue, runs.c.lane > first.c.lane).scalar_subquery()
    found = first.union_all(select(following).where(first.c.lane.is_not(None)))
    return select(found.c.lane).where(found.c.lane.is_not(None))


@cache
def _heads_in_parts() -> Select[Any]:
    """As `_heads`, for SQLite, which joins nothing that depends on the row before it."""
    # Materialised, or each of the parts would parse the JSON of the pages again.
    lane = select(_PAGES.rows(Dialect.SQLITE)).cte("pages").prefix_with("MATERIALIZED")
    of_lane = (IS_REQUESTED, runs.c.queue == lane.c.queue, runs.c.lane == lane.c.lane)
    first = in_parts(_STATES, lambda priority: _behind(lane, priority), of_lane, lane)
    order = (lane.c.number, runs.c.priority, runs.c.due_at, runs.c.id)
    return select(*ACTIVE_COLUMNS, runs.c.id, lane.c.number).select_from(lane.join(runs, first)).order_by(*order)


def _behind(lane: FromClause, priority: Any) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """The place behind which the lane's runs of this priority are read."""
    at_place, passed = lane.c.priority == priority, lane.c.priority > priority
    return (
        case((at_place, lane.c.due_at), (passed, _UNTIL), else_=literal(FIRST_INSTANT, InstantColumn)),
        case((at_place, lane.c.id), else_=literal(0, BigInteger)),
    )


@cache
def _heads() -> Select[Any]:
    """Select a page of each lane, and of a lane each state and priority separately, as `by_priority` does."""
    lane = _PAGES.rows(Dialect.POSTGRESQL)
    states = values(column("state", Text), name="states").data([(state,) for state in _STATES])
    priorities = values(column("priority", Integer), name="priorities").data([(number,) for number in PRIORITIES])
    limit = bindparam("limit", type_=BigInteger)
    one = (
        select(*ACTIVE_COLUMNS, runs.c.id)
        .where(
            IS_REQUESTED,
            runs.c.standing == states.c.state,
            runs.c.queue == lane.c.queue,
            runs.c.lane == lane.c.lane,
            # Adds nothing, but a planner that has statistics of one lane alone would think the index by time as good.
            runs.c.lane.between(lane.c.lane, lane.c.lane),
            runs.c.priority == priorities.c.priority,
            runs.c.due_at < _UNTIL,
            row_of(runs.c.due_at, runs.c.id) > row_of(*_behind(lane, priorities.c.priority)),
        )
        .order_by(runs.c.due_at, runs.c.id)
        .limit(limit)
        .correlate(lane, states, priorities)
        .lateral("one")
    )
    head = (
        select(one)
        .select_from(states.join(priorities, true()).join(one, true()))
        .order_by(one.c.priority, one.c.due_at, one.c.id)
        .limit(limit)
        .correlate(lane)
        .lateral("head")
    )
    wanted = [head.c[each.name] for each in (*ACTIVE_COLUMNS, runs.c.id)]
    order = (lane.c.number, head.c.priority, head.c.due_at, head.c.id)
    return select(*wanted, lane.c.number).select_from(lane.join(head, true())).order_by(*order)
