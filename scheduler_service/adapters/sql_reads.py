"""What the leader reads of runs: what it must know when it takes over, and what falls due.

Promises that a million runs of the far future cost nothing: due ones are found queue by queue and priority by
priority in the partial index of waiting runs; and that whoever looks for what was asked for walks past no planned run.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import CTE, BigInteger, ColumnElement, Connection, Select, Text, bindparam, func, select, union_all

from scheduler_service.adapters.batch import Batch
from scheduler_service.adapters.column_types import InstantColumn
from scheduler_service.adapters.run_rows import ACTIVE_COLUMNS, active_run
from scheduler_service.adapters.tables import (
    IS_ACTIVE,
    IS_ASKED_FOR,
    IS_MANUAL,
    IS_OCCURRENCE,
    IS_OUT,
    IS_RETRYING,
    WAITS,
    runs,
)
from scheduler_service.core.instants import Instant
from scheduler_service.core.model import ActiveRun

PRIORITIES: Final = range(10)
_IDS: Final = Batch(run_id=Text)


def led_runs(connection: Connection) -> list[ActiveRun]:
    """All that is out, every waiting run that a schedule made, and retries of its job's other runs."""
    out = select(*ACTIVE_COLUMNS).where(IS_ACTIVE, IS_OUT)
    waiting = select(*ACTIVE_COLUMNS).where(IS_ACTIVE, WAITS, IS_OCCURRENCE)
    retrying = select(*ACTIVE_COLUMNS).where(IS_ACTIVE, IS_RETRYING, IS_MANUAL)
    return _active(connection.execute(out.union_all(waiting, retrying)))


def due_runs(connection: Connection, until: Instant, limit: int, *, asked_for: bool = False) -> list[ActiveRun]:
    """Waiting runs due before `until`, at most `limit` of each queue, by priority and time."""
    found: list[ActiveRun] = []
    for queue in connection.execute(_waiting_queues(asked_for)).scalars().all():
        asked = {"queue": queue, "until": until, "limit": limit}
        found += _active(connection.execute(_due_of_queue(asked_for), asked))
    return found


def runs_by_id(connection: Connection, dialect: str, run_ids: Sequence[str]) -> list[ActiveRun]:
    """These runs, final ones too."""
    found: list[ActiveRun] = []
    for chunk in _IDS.chunks([(run_id,) for run_id in run_ids]):
        found += _active(connection.execute(_by_id(dialect), chunk))
    return found


def cancel_requests(connection: Connection, limit: int) -> list[ActiveRun]:
    """Runs that are out and not wanted any more."""
    wanted = select(*ACTIVE_COLUMNS).where(IS_ACTIVE, IS_OUT, runs.c.cancel_requested_at.is_not(None)).limit(limit)
    return _active(connection.execute(wanted))


def _active(rows: Iterable[Any]) -> list[ActiveRun]:
    return [active_run(row) for row in rows]


def _of_kind(asked_for: bool) -> tuple[ColumnElement[bool], ...]:
    return (WAITS, IS_ASKED_FOR) if asked_for else (WAITS,)


@cache
def _waiting_queues(asked_for: bool) -> Select[Any]:
    """One step through the index for each queue, however many runs it has."""
    waits = _of_kind(asked_for)
    first = select(func.min(runs.c.queue).label("queue")).where(*waits).cte("queues", recursive=True)
    following = select(func.min(runs.c.queue)).where(*waits, runs.c.queue > first.c.queue).scalar_subquery()
    queues: CTE = first.union_all(select(following).where(first.c.queue.is_not(None)))
    return select(queues.c.queue).where(queues.c.queue.is_not(None))


@cache
def _due_of_queue(asked_for: bool) -> Select[Any]:
    """Each priority apart: a condition on the time narrows the index only once the priority is given."""
    limit = bindparam("limit", type_=BigInteger)
    due = [
        select(*ACTIVE_COLUMNS, runs.c.id)
        .where(
            *_of_kind(asked_for),
            runs.c.queue == bindparam("queue", type_=Text),
            runs.c.priority == priority,
            runs.c.due_at < bindparam("until", type_=InstantColumn),
        )
        .order_by(runs.c.due_at, runs.c.id)
        .limit(limit)
        .subquery(f"of_priority_{priority}")
        for priority in PRIORITIES
    ]
    together = union_all(*(select(part) for part in due)).subquery("due")
    wanted = [together.c[column.name] for column in ACTIVE_COLUMNS]
    return select(*wanted).order_by(together.c.priority, together.c.due_at, together.c.id).limit(limit)


@cache
def _by_id(dialect: str) -> Select[Any]:
    batch = _IDS.rows(dialect)
    return select(*ACTIVE_COLUMNS).join(batch, runs.c.run_id == batch.c.run_id)
