"""The leader's reads of runs: its takeover, and the runs that fall due.

Promises that a million runs of the far future cost nothing. Due ones are found by queue and priority in the index of
their state, and a poll for requested runs passes no planned run.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    Row,
    Select,
    Text,
    bindparam,
    column,
    func,
    literal,
    select,
    true,
    union_all,
    values,
)
from sqlalchemy import tuple_ as row_of

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.poll_state import Place
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import WAITING, RunState
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.column_types import FIRST_INSTANT, InstantColumn
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.run_rows import ACTIVE_COLUMNS, active_run
from scheduler_service.sql.tables import (
    HAS_DEADLINE,
    IS_IN_FLIGHT,
    IS_MANUAL,
    IS_TRACKED,
    TRACKED,
    WAITS,
    has_index_state,
    runs,
)

PRIORITIES: Final = range(10)
_IndexStates: TypeAlias = tuple[str, ...]
_Columns: TypeAlias = Sequence[ColumnElement[Any]]
_PlaceIn: TypeAlias = tuple[ColumnElement[Any], ColumnElement[Any]]
_ASKED_FOR: Final = tuple(sorted(WAITING))
_ANY: Final = (TRACKED, *_ASKED_FOR)
FROM_THE_FIRST: Final = {f"due_{n}": FIRST_INSTANT for n in PRIORITIES} | {f"id_{n}": 0 for n in PRIORITIES}
_IDS: Final = Batch(run_id=Text)
_LIMIT: Final = bindparam("limit", type_=BigInteger)
_ORDER: Final = (runs.c.priority, runs.c.due_at, runs.c.id)


def tracked_runs(connection: Connection) -> list[ActiveRun]:
    """All runs in flight, every waiting run that a schedule created, and retries of the other runs of its job."""
    tracked = select(*ACTIVE_COLUMNS).where(IS_TRACKED)
    retrying = select(*ACTIVE_COLUMNS).where(has_index_state(RunState.RETRYING), IS_MANUAL)
    return _active(connection.execute(tracked.union_all(retrying)))


def due_runs(connection: Connection, until: Instant, limit: int, paused: Collection[str]) -> list[ActiveRun]:
    """Waiting runs that no schedule created, due before `until`, at most `limit` per queue, by priority and time."""
    found: list[ActiveRun] = []
    for queue, index_states in _queues(connection, _ASKED_FOR):
        if queue in paused:
            continue
        asked = {"queue": queue, "until": until, "limit": limit, **FROM_THE_FIRST}
        found += _numbered(connection.execute(_due_of_queue(dialect_of(connection), index_states), asked).all())
    return found


def overdue(
    connection: Connection, until: Instant, limit: int, after: Place | None, *, planned: bool = False
) -> tuple[list[ActiveRun], Place | None]:
    """The next `limit` waiting runs due before `until`, by queue, priority and time; and the place to continue.

    `planned`: only runs that a schedule created.
    """
    found: list[Row[Any]] = []
    for queue, index_states in _queues(connection, (TRACKED,) if planned else _ANY):
        if after is not None and queue < after[0]:
            continue
        behind = from_place(after[1:], until) if after is not None and queue == after[0] else FROM_THE_FIRST
        asked = {"queue": queue, "until": until, "limit": limit - len(found), **behind}
        found += connection.execute(_due_of_queue(dialect_of(connection), index_states), asked).all()
        if len(found) == limit:
            last = found[-1]
            return _numbered(found), (queue, last.priority, last.due_at, last.id)
    return _numbered(found), None


def queues_after(connection: Connection, after: str, limit: int) -> list[str]:
    """The next `limit` queues by name that have runs waiting or in flight."""
    found: set[str] = set()
    for index_state in _ANY:
        found.update(connection.execute(_queues_of(index_state).limit(limit), {"after": after}).scalars())
    return sorted(found)[:limit]


def count_due(connection: Connection, queue: str, until: Instant, limit: int) -> int:
    """Count the queue's waiting runs that no schedule created and that are due before `until`, at most `limit`."""
    asked = {"queue": queue, "until": until, "limit": limit, **FROM_THE_FIRST}
    counted: int = connection.execute(_count_due(dialect_of(connection)), asked).scalar_one()
    return counted


def runs_by_id(connection: Connection, run_ids: Sequence[str]) -> list[ActiveRun]:
    """These runs, including final ones."""
    found: list[ActiveRun] = []
    for chunk in _IDS.chunks([(run_id,) for run_id in run_ids]):
        found += _active(connection.execute(_by_id(dialect_of(connection)), chunk))
    return found


def cancel_requests(connection: Connection, limit: int, after: Place | None) -> tuple[list[ActiveRun], Place | None]:
    """The next `limit` runs in flight with a cancel request; and the place to continue."""
    asked_at = runs.c.cancel_requested_at
    wanted = (
        select(*ACTIVE_COLUMNS, runs.c.id)
        .where(IS_TRACKED, IS_IN_FLIGHT, asked_at.is_not(None), behind(asked_at, after))
        .order_by(asked_at, runs.c.id)
        .limit(limit)
    )
    found = connection.execute(wanted).all()
    return _numbered(found), (found[-1].cancel_requested_at, found[-1].id) if len(found) == limit else None


def expired(
    connection: Connection, until: Instant, limit: int, after: Place | None
) -> tuple[list[ActiveRun], Place | None]:
    """The next `limit` waiting runs that should have started before `until`; and the place to continue."""
    by = runs.c.start_by
    wanted = (
        select(*ACTIVE_COLUMNS, runs.c.id)
        .where(HAS_DEADLINE, by < literal(until, InstantColumn), behind(by, after))
        .order_by(by, runs.c.id)
        .limit(limit)
    )
    found = connection.execute(wanted).all()
    return _numbered(found), (found[-1].start_by, found[-1].id) if len(found) == limit else None


def behind(since: ColumnElement[Any], place: Place | None) -> ColumnElement[bool]:
    """Rows after this place, in the order of (`since`, id)."""
    if place is None:
        return true()
    return row_of(since, runs.c.id) > row_of(literal(place[0], InstantColumn), literal(place[1], BigInteger))


def _active(rows: Iterable[Any]) -> list[ActiveRun]:
    return [active_run(row) for row in rows]


def _numbered(rows: Iterable[Any]) -> list[ActiveRun]:
    """Read runs from rows that end with their `id`."""
    return [active_run(row[:-1]) for row in rows]


def _queues(connection: Connection, index_states: _IndexStates) -> list[tuple[str, _IndexStates]]:
    """All queues in order, each with its index states: most often one, and each state takes ten index steps."""
    found: dict[str, _IndexStates] = {}
    for index_state in index_states:
        for queue in connection.execute(_queues_of(index_state), {"after": ""}).scalars():
            found[queue] = (*found.get(queue, ()), index_state)
    return sorted(found.items())


@cache
def _queues_of(index_state: str) -> Select[Any]:
    """Select the queues with one index step each, however many runs they have."""
    first = (
        select(func.min(runs.c.queue).label("queue"))
        .where(has_index_state(index_state), runs.c.queue > bindparam("after", type_=Text))
        .cte("queues", recursive=True)
    )
    following = (
        select(func.min(runs.c.queue))
        .where(has_index_state(index_state), runs.c.queue > first.c.queue)
        .scalar_subquery()
    )
    queues: CTE = first.union_all(select(following).where(first.c.queue.is_not(None)))
    return select(queues.c.queue).where(queues.c.queue.is_not(None))


def from_place(place: Place, until: Instant) -> dict[str, int]:
    """For each priority, the place from which the remaining runs are read."""
    priority, due_at, row_id = place
    firsts = dict(FROM_THE_FIRST)
    for passed in range(priority):
        firsts[f"due_{passed}"] = until
    return firsts | {f"due_{priority}": due_at, f"id_{priority}": row_id}


@cache
def _due_of_queue(dialect: Dialect, index_states: _IndexStates) -> Select[Any]:
    # A tracked run may be in flight; one in a state of waiting waits, and SQLite's index alone tells that.
    waits = () if WAITING.issuperset(index_states) else (WAITS,)
    return _by_priority(dialect, index_states, (*ACTIVE_COLUMNS, runs.c.id), *waits)


@cache
def _count_due(dialect: Dialect) -> Select[Any]:
    found = _by_priority(dialect, _ASKED_FOR, (runs.c.priority, runs.c.due_at, runs.c.id))
    return select(func.count()).select_from(found.subquery())


def _by_priority(
    dialect: Dialect,
    index_states: _IndexStates,
    columns: _Columns,
    *conditions: ColumnElement[bool],
) -> Select[Any]:
    """Select each index state and priority separately: a condition on time narrows the index only if both are fixed.

    PostgreSQL takes as long to plan thirty parts as to read them, so there it is one part that is joined.
    """
    of_queue = (*conditions, runs.c.queue == bindparam("queue", type_=Text))
    if dialect is Dialect.POSTGRESQL:
        return _joined(index_states, columns, of_queue).limit(_LIMIT)
    return select(*columns).where(in_parts(index_states, _place, of_queue)).order_by(*_ORDER)


def in_parts(
    index_states: _IndexStates,
    place: Callable[[int], _PlaceIn],
    conditions: Sequence[ColumnElement[bool]],
    outer: FromClause | None = None,
) -> ColumnElement[bool]:
    """Runs among the first ones behind their priority's place. SQLite merges what its index holds, not whole rows.

    The conditions and places may name columns of `outer`.
    """
    parts = [
        _part(_ORDER, has_index_state(index_state), priority, *place(priority), *conditions)
        .correlate(outer)
        .subquery(f"{index_state}_{priority}")
        for index_state in index_states
        for priority in PRIORITIES
    ]
    merged = union_all(*(select(part) for part in parts)).subquery("merged")
    first = select(merged.c.id).order_by(merged.c.priority, merged.c.due_at, merged.c.id).limit(_LIMIT)
    return runs.c.id.in_(first)


def _joined(index_states: _IndexStates, columns: _Columns, conditions: Sequence[ColumnElement[bool]]) -> Select[Any]:
    states = values(column("state", Text), name="states").data([(state,) for state in index_states])
    kinds = (column("priority", Integer), column("due_at", InstantColumn), column("id", BigInteger))
    places = values(*kinds, name="places").data([(priority, *_place(priority)) for priority in PRIORITIES])
    place = (places.c.priority, places.c.due_at, places.c.id)
    part = _part(columns, runs.c.standing == states.c.state, *place, *conditions)
    part = part.correlate(states, places)
    due = part.lateral("due")
    rows = states.join(places, true()).join(due, true())
    return select(due).select_from(rows).order_by(due.c.priority, due.c.due_at, due.c.id)


def _part(
    columns: _Columns, in_state: ColumnElement[bool], priority: Any, due_at: Any, row_id: Any,
    *conditions: ColumnElement[bool],
) -> Select[Any]:  # fmt: skip
    """Select what lies behind this place in one index state and priority."""
    return (
        select(*columns)
        .where(
            in_state,
            *conditions,
            runs.c.priority == priority,
            runs.c.due_at < bindparam("until", type_=InstantColumn),
            row_of(runs.c.due_at, runs.c.id) > row_of(due_at, row_id),
        )
        .order_by(runs.c.due_at, runs.c.id)
        .limit(_LIMIT)
    )


def _place(priority: int) -> _PlaceIn:
    return bindparam(f"due_{priority}", type_=InstantColumn), bindparam(f"id_{priority}", type_=BigInteger)


@cache
def _by_id(dialect: Dialect) -> Select[Any]:
    batch = _IDS.rows(dialect)
    return select(*ACTIVE_COLUMNS).join(batch, runs.c.run_id == batch.c.run_id)
