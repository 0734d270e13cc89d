"""Starts of rates: written with the transitions that are starts, read by a takeover, pruned when they count no longer.

Promises that no date is earlier than the report of its starts, by the database's clock. A read walks the rows of the
windows, however many older ones no prune has deleted yet. A prune deletes a bounded number. A date in the future counts
as now. Never knows a rate.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Integer, Select, Text, and_, case, delete, func, literal, or_, select, update

from itinerary.protocol.batches import batched
from itinerary.protocol.instants import SECOND, Duration, Instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.past_starts import PastStarts, StartsPruned, StoredStarts
from scheduler_service.core.limits import LONGEST_RATE
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.column_types import LAST_INSTANT, InstantColumn
from scheduler_service.sql.control_tables import limit_starts
from scheduler_service.sql.dialect import dialect_of

MOST_PRUNED: Final = 5_000
# By their age: a window that still counts them is no shorter.
_READ_AS_ONE: Final = ((100 * SECOND, 1), (1_000 * SECOND, SECOND // 10), (10_000 * SECOND, SECOND))
_LONGEST_AS_ONE: Final = 10 * SECOND
_LIMITS_AT_ONCE: Final = 50
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


def read(connection: Connection, kept: Mapping[str, Duration], now: Instant) -> StoredStarts:
    """Read the starts no older than their limit keeps them; `now` is the database's clock, read before.

    Of a limit and key, those of a thousandth of their age are read as one, as old as the last of them.
    """
    newest = connection.execute(_of_each_limit(func.max)).all()
    names = sorted(name for name, at in newest if name in kept and at > now - kept[name])
    columns = (limit_starts.c.limit_name, limit_starts.c.limit_key)
    width = case(*((limit_starts.c.at > now - age, part) for age, part in _READ_AS_ONE), else_=_LONGEST_AS_ONE)
    together = dialect_of(connection).microseconds(limit_starts.c.at).op("/")(width)
    starts = select(*columns, func.max(limit_starts.c.at), func.sum(limit_starts.c.count))
    counting = []
    for part in batched(names, _LIMITS_AT_ONCE):
        # Each by its own range of the index: a join could read all old rows of the table.
        of_window = or_(*(and_(columns[0] == name, limit_starts.c.at > now - kept[name]) for name in part))
        for name, key, at, count in connection.execute(starts.where(of_window).group_by(*columns, width, together)):
            counting.append(PastStarts(LimitUse(name, key or None), max(0, now - at), int(count)))
    return StoredStarts(tuple(counting), any=bool(newest))


def shift(connection: Connection, by: Duration, now: Instant) -> None:
    """Date what may still count later by a step of the clock, and nothing later than now: too late is safe."""
    later = dialect_of(connection).later(limit_starts.c.at, by)
    may_count = limit_starts.c.at > now - by - LONGEST_RATE
    connection.execute(
        update(limit_starts).where(may_count).values(at=case((later > now, literal(now, InstantColumn())), else_=later))
    )


def prune(connection: Connection, kept: Mapping[str, Duration], now: Instant) -> StartsPruned:
    """Delete rows older than their limit keeps them, or of a name that keeps none."""
    left = MOST_PRUNED
    for name, oldest in connection.execute(_of_each_limit(func.min)).all():
        before = now - kept[name] if name in kept else LAST_INSTANT
        if oldest >= before or left <= 0:
            continue
        over = (limit_starts.c.limit_name == name, limit_starts.c.at < before)
        ids = select(limit_starts.c.id).where(*over).order_by(limit_starts.c.at, limit_starts.c.id).limit(left)
        left -= connection.execute(delete(limit_starts).where(limit_starts.c.id.in_(ids))).rowcount
    return StartsPruned(full=left <= 0, left=connection.execute(select(limit_starts.c.id).limit(1)).first() is not None)


@cache
def _of_each_limit(end: Callable[..., Any]) -> Select[Any]:
    """Select each limit that has starts, and its oldest (min) or newest one (max), with two index steps each."""
    name = limit_starts.c.limit_name
    first = select(func.min(name).label("limit_name")).cte("names", recursive=True)
    following = select(func.min(name)).where(name > first.c.limit_name).scalar_subquery()
    names = first.union_all(select(following).where(first.c.limit_name.is_not(None)))
    one = select(end(limit_starts.c.at)).where(name == names.c.limit_name).scalar_subquery()
    return select(names.c.limit_name, one).where(names.c.limit_name.is_not(None))
