"""Pings in SQL: written with the run's event, claimed by one process at a time, deleted once they arrived.

If we die after a claim, its pings are due again when the claim ends: they may arrive twice. A start
that failed and whose run is over is dropped, so that it does not arrive after the end.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import structlog
from sqlalchemy import (
    BigInteger,
    Connection,
    Select,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    literal_column,
    or_,
    select,
    true,
    update,
)

from itinerary.protocol.errors import RowRefused
from itinerary.protocol.instants import HOUR, Duration, Instant
from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.pings import GIVE_UP_AFTER, Ping, PingState, next_try
from scheduler_service.ports.pings import PingStore, WaitingPing
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.database import Database, savepoint
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.notice_tables import pings
from scheduler_service.sql.ready import ReadyStatement

log = structlog.get_logger(__name__)

_P: Final = pings.c
_NEW: Final = Batch(
    job_id=Text, state=Text, url=Text, made_at=InstantColumn, next_at=InstantColumn, attempts=BigInteger
)
_COLUMNS: Final = (_P.job_id, _P.state, _P.url, _P.made_at, _P.attempts)


def keep_pings(connection: Connection, transitions: Iterable[Transition], refused: set[str], now: Instant) -> None:
    """Store the pings of the transitions that were applied; nothing is read or written where there are none."""
    wanted = {(p.job_id, p.state): p for t in transitions if t.pings and t.run_id not in refused for p in t.pings}
    if not wanted:
        return
    rows = [(p.job_id, p.state.value, p.url, now + n, now + n, 0) for n, p in enumerate(wanted.values())]
    try:
        with savepoint(connection):
            over = sorted({p.job_id for p in wanted.values() if p.state is not PingState.START})
            failing = and_(_P.job_id.in_(over), _P.state == PingState.START.value, _P.attempts > 0)
            if over:
                connection.execute(delete(pings).where(failing))
            for chunk in _NEW.chunks(sorted(rows)):  # by their key, so that two writers never deadlock
                connection.execute(_add(dialect_of(connection)), chunk)
    except RowRefused as refusal:
        log.error("pings not stored, a row was refused", count=len(rows), reason=str(refusal))


class SqlPingStore(PingStore):
    """PingStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, limit: int, hold: Duration) -> list[WaitingPing]:
        with self._database.read() as connection:
            now = self._database.read_clock(connection)
            if not _SOME_DUE.rows(connection, {"now": now, "beyond": now + HOUR}):
                return []
        # One that waits for longer than any pause came from a clock that ran ahead. A condition for each: only so is
        # the index read no further than `limit`.
        due, ahead = (
            select(*_COLUMNS).where(which).order_by(_P.next_at).limit(limit).with_for_update(skip_locked=True)
            for which in (_P.next_at <= now, _P.next_at > now + HOUR)
        )
        with self._database.write() as connection:
            rows = [*connection.execute(due), *connection.execute(ahead)]
            rows = sorted(rows, key=lambda row: row.made_at)[:limit]
            found = [WaitingPing(_ping(row), row.made_at, row.attempts + 1) for row in rows]
            fresh = [one for one in found if one.created_at + GIVE_UP_AFTER >= now]
            for one in fresh:
                connection.execute(update(pings).where(_is(one)).values(attempts=one.attempts, next_at=now + hold))
            for one in found:
                if one not in fresh:  # nobody led: what it says is no longer true
                    log.error("ping given up, it is too old", job_id=one.ping.job_id, state=one.ping.state.value)
                    connection.execute(delete(pings).where(_is(one)))
        return fresh

    def sent(self, waiting: WaitingPing) -> None:
        with self._database.write() as connection:
            connection.execute(delete(pings).where(_is(waiting)))

    def failed(self, waiting: WaitingPing) -> bool:
        with self._database.write() as connection:
            at = next_try(waiting.attempts, waiting.created_at, self._database.read_clock(connection))
            if at is None:
                connection.execute(delete(pings).where(_is(waiting)))
            else:
                connection.execute(update(pings).where(_is(waiting)).values(next_at=at))
        return at is not None


def _some_due(_: Dialect) -> Select[Any]:
    due = exists().where(_P.next_at <= bindparam("now", type_=InstantColumn))
    ahead = exists().where(_P.next_at > bindparam("beyond", type_=InstantColumn))
    return select(literal_column("1")).where(or_(due, ahead))


_SOME_DUE: Final = ReadyStatement(_some_due)


def _is(waiting: WaitingPing) -> Any:
    """Whether the row is still that one: a later one of its job is due by itself."""
    ping = waiting.ping
    return and_(_P.job_id == ping.job_id, _P.state == ping.state.value, _P.made_at == waiting.created_at)


def _ping(row: Any) -> Ping:
    return Ping(row.job_id, PingState(row.state), row.url)


@cache
def _add(dialect: Dialect) -> Any:
    batch = _NEW.rows(dialect)
    insert = dialect.insert(pings).from_select(list(batch.c.keys()), select(*batch.c).where(true()))
    values = {name: insert.excluded[name] for name in ("url", "made_at", "next_at", "attempts")}
    return insert.on_conflict_do_update(index_elements=[_P.job_id, _P.state], set_=values)
