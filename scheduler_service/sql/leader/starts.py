"""Starts of rates: written with the transitions that are starts, read by a takeover, pruned when they count no longer.

Promises that no date is earlier than the report of its starts, by the database's clock. A prune deletes a bounded
number of rows. A date in the future counts as now. Never knows a rate.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from sqlalchemy import Connection, Integer, Text, case, delete, func, literal, select, update

from itinerary.protocol.instants import Duration, Instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.past_starts import PastStarts, StartsPruned
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.control_tables import limit_starts
from scheduler_service.sql.dialect import dialect_of

MOST_PRUNED: Final = 5_000
_STARTS: Final = Batch(limit_name=Text, limit_key=Text, at=InstantColumn, count=Integer)


def keep(connection: Connection, starts: Iterable[LimitUse], now: Instant) -> None:
    """Store one row for each limit and key that counts some of these starts."""
    rows = [(use.name, use.key or "", now, count) for use, count in sorted(Counter(starts).items(), key=_by_name)]
    batch = _STARTS.rows(dialect_of(connection))
    insert = limit_starts.insert().from_select(list(batch.c.keys()), select(*batch.c))
    for chunk in _STARTS.chunks(rows):
        connection.execute(insert, chunk)


def _by_name(counted: tuple[LimitUse, int]) -> tuple[str, str]:
    return counted[0].name, counted[0].key or ""


def read(connection: Connection, now: Instant) -> list[PastStarts]:
    """All stored starts; `now` is the database's clock, read before."""
    columns = (limit_starts.c.limit_name, limit_starts.c.limit_key, limit_starts.c.at, limit_starts.c.count)
    return [
        PastStarts(LimitUse(name, key or None), max(0, now - at), count)
        for name, key, at, count in connection.execute(select(*columns))
    ]


def shift(connection: Connection, by: Duration, now: Instant) -> None:
    """Date all that is stored later by a step of the clock, and nothing later than now: too late is safe."""
    later = dialect_of(connection).later(limit_starts.c.at, by)
    connection.execute(update(limit_starts).values(at=case((later > now, literal(now, InstantColumn())), else_=later)))


def prune(connection: Connection, kept: Mapping[str, Duration], now: Instant) -> StartsPruned:
    """Delete rows older than their limit keeps them, or of a name that keeps none."""
    left = MOST_PRUNED
    first = select(func.min(limit_starts.c.limit_name))
    name = connection.execute(first).scalar()
    while name is not None and left > 0:
        over = [limit_starts.c.limit_name == name]
        if name in kept:
            over.append(limit_starts.c.at < now - kept[name])
        oldest = select(limit_starts.c.id).where(*over).order_by(limit_starts.c.at, limit_starts.c.id).limit(left)
        left -= connection.execute(delete(limit_starts).where(limit_starts.c.id.in_(oldest))).rowcount
        name = connection.execute(first.where(limit_starts.c.limit_name > name)).scalar()
    return StartsPruned(full=left <= 0, left=connection.execute(first).scalar() is not None)
