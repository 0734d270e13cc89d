"""The version of all edits of queues, and the lock between these edits and the leader's dispatches.

Promises that once an edit has returned, no dispatch that was chosen by older edits commits. On PostgreSQL an edit
holds an advisory lock alone, and a dispatch shares it from its first statement on. Its second statement, whose snapshot
is younger, compares the version. On SQLite both are whole writes, one after the other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, false, func, literal_column, or_, select, true

from itinerary.protocol.errors import Conflict
from itinerary.protocol.instants import Instant
from scheduler_service.core.controls import Controls, QueuePause
from scheduler_service.core.limits import Bounds
from scheduler_service.sql.calendar_rows import calendar_edits
from scheduler_service.sql.control_tables import control, queues
from scheduler_service.sql.database import Database
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.freeze_rows import known_freezes
from scheduler_service.sql.limit_rows import LIMIT_COLUMNS, QUEUE_BOUNDS, bounds_of, limit_of, queue_limit
from scheduler_service.sql.tables import leases

_SHARD: Final = 0
_ADVISORY_LOCK: Final[ColumnElement[int]] = literal_column(str(0x17_1EAA_2F))
_PAUSE: Final = (queues.c.pause_reason, queues.c.paused_at, queues.c.paused_by, queues.c.paused_until)
_IS_BOUNDED: Final = or_(*(column.is_not(None) for column in QUEUE_BOUNDS), queues.c.fair == true())
_OF_SHARD: Final = select(control.c.version).where(control.c.shard == literal_column(str(_SHARD)))
VERSION: Final = func.coalesce(_OF_SHARD.scalar_subquery(), literal_column("0"))


def no_edits() -> Any:
    """An expression that keeps edits out until the transaction ends, on PostgreSQL."""
    return func.pg_advisory_xact_lock_shared(_ADVISORY_LOCK)


_KEEP_EDITS_OUT: Final = select(no_edits())
_READ_VERSION: Final = select(VERSION)


def heed_edits(connection: Connection) -> None:
    """Keep edits out from now on, so that the next statement sees the last one."""
    if dialect_of(connection) is Dialect.POSTGRESQL:
        connection.execute(_KEEP_EDITS_OUT)


def control_version(connection: Connection) -> int:
    """Read the version of the edits; 0 before the first one."""
    version: int = connection.execute(_READ_VERSION).scalar_one()
    return version


def read_controls(connection: Connection, known: int, since: Instant) -> Controls | None:
    """The controls, or None if the version is still `known`; of freezes those that have not ended by `since`.

    The version is read first: a dispatch by an older version than that of the others is refused.
    """
    version = control_version(connection)
    if version == known:
        return None
    paused = connection.execute(select(queues.c.queue, *_PAUSE).where(queues.c.paused_at.is_not(None)))
    pauses = {queue: QueuePause(*pause) for queue, *pause in paused}
    bounded = connection.execute(select(queues.c.queue, *QUEUE_BOUNDS, queues.c.fair).where(_IS_BOUNDED)).all()
    own = [queue_limit(row.queue, bounds) for row in bounded if (bounds := bounds_of(*row[1:4])) != Bounds()]
    edits = () if known < 0 else calendar_edits(connection, known, since)
    named = map(limit_of, connection.execute(select(*LIMIT_COLUMNS)))
    fair = frozenset(row.queue for row in bounded if row.fair)
    limits = {limit.name: limit for limit in (*own, *named)}
    return Controls(version, pauses, limits, fair, known_freezes(connection, since), edits)


def queue_pause(connection: Connection, queue: str, now: Instant) -> QueuePause | None:
    """The pause that holds the queue."""
    paused = select(*_PAUSE).where(queues.c.queue == queue, queues.c.paused_at.is_not(None))
    row = connection.execute(paused).first()
    pause = None if row is None else QueuePause(*row)
    return pause if pause is not None and pause.holds(now) else None


@contextmanager
def editing(database: Database) -> Iterator[Connection]:
    """Run one edit, which calls `raise_version` for a change: no dispatch is under way, later ones compare it."""
    with database.write() as connection:
        _require_heeding_leader(database, connection)
        if database.dialect is Dialect.POSTGRESQL:
            connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        yield connection


def raise_version(connection: Connection) -> int:
    """Outdate every choice that a leader made so far; returns the new version."""
    first = dialect_of(connection).insert(control).values(shard=_SHARD, version=1)
    raised = first.on_conflict_do_update(index_elements=[control.c.shard], set_={"version": control.c.version + 1})
    version: int = connection.execute(raised.returning(control.c.version)).scalar_one()
    return version


def _require_heeding_leader(database: Database, connection: Connection) -> None:
    """Raise Conflict while a leader of an older release leads: it would dispatch from paused queues."""
    live = (leases.c.shard == _SHARD, leases.c.resigned == false(), leases.c.expires_at > database.now())
    columns = (leases.c.term, leases.c.holder, leases.c.controls_term)
    lease = connection.execute(select(*columns).where(*live)).first()
    if lease is not None and lease.controls_term != lease.term:
        raise Conflict(
            f"the leader {lease.holder} is of a release that would not heed this; update every leader first",
            "older-leader",
        )
