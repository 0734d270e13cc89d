"""Starts of rates: written with the transitions that are starts, read by a takeover, pruned when they count no longer.

Promises that no date is earlier than the report of its starts, by the database's clock. A prune deletes a bounded
number of rows. A date in the future counts as now. Never knows a rate.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Integer, Select, Text, case, delete, func, literal, select, update

from itinerary.protocol.instants import SECOND, Duration, Instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.past_starts import PastStarts, StartsPruned
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.column_types import LAST_INSTANT, InstantColumn
from scheduler_service.sql.control_tables import limit_starts
from scheduler_service.sql.dialect import dialect_of

MOST_PRUNED: Final = 5_000
# By their age: a window that still counts them is no shorter.
_READ_AS_ONE: Final = ((100 * SECOND, 1), (1_000 * SECOND, SECOND // 10), (10_000 * SECOND, SECOND))
_LONGEST_AS_ONE: Final = 10 * SECOND
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
    """All stored starts; `now` is the database's clock, read before.

    Of a limit and key, those of a thousandth of their age are read as one, as old as the last of them.
    """
    columns = (limit_starts.c.limit_name, limit_starts.c.limit_key)
    width = case(*((limit_starts.c.at > now - age, part) for age, part in _READ_AS_ONE), else_=_LONGEST_AS_ONE)
    together = dialect_of(connection).microseconds(limit_starts.c.at).op("/")(width)
    starts = select(*columns, func.max(limit_starts.c.at), func.sum(limit_starts.c.count))
    return [
        PastStarts(LimitUse(name, key or None), max(0, now - at), int(count))
        for name, key, at, count in connection.execute(starts.group_by(*columns, width, together))
    ]


def shift(connection: Connection, by: Duration, now: Instant) -> None:
    """Date all that is stored later by a step of the clock, and nothing later than now: too late is safe."""
    later = dialect_of(connection).later(limit_starts.c.at, by)
    connection.execute(update(limit_starts).values(at=case((later > now, literal(now, InstantColumn())), else_=later)))


def prune(connection: Connection, kept: Mapping[str, Duration], now: Instant) -> StartsPruned:
    """Delete rows older than their limit keeps them, or of a name that keeps none."""
    left = MOST_PRUNED
    for name, oldest in connection.execute(_oldest()).all():
        before = now - kept[name] if name in kept else LAST_INSTANT
        if oldest >= before or left <= 0:
            continue
        over = (limit_starts.c.limit_name == name, limit_starts.c.at < before)
        ids = select(limit_starts.c.id).where(*over).order_by(limit_starts.c.at, limit_starts.c.id).limit(left)
        left -= connection.execute(delete(limit_starts).where(limit_starts.c.id.in_(ids))).rowcount
    return StartsPruned(full=left <= 0, left=connection.execute(select(limit_starts.c.id).limit(1)).first() is not None)


@cache
def _oldest() -> Select[Any]:
    """Select each limit that has starts, and its oldest one, with two index steps each."""
    name = limit_starts.c.limit_name
    first = select(func.min(name).label("limit_name")).cte("names", recursive=True)
    following = select(func.min(name)).where(name > first.c.limit_name).scalar_subquery()
    names = first.union_all(select(following).where(first.c.limit_name.is_not(None)))
    oldest = select(func.min(limit_starts.c.at)).where(name == names.c.limit_name).scalar_subquery()
    return select(names.c.limit_name, oldest).where(names.c.limit_name.is_not(None))
