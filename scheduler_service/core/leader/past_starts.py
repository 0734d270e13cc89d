"""Starts by a rate as the database keeps them between leaders. Values only."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from itinerary.protocol.instants import Duration
from itinerary.protocol.limits import LimitUse


@dataclass(frozen=True, slots=True)
class PastStarts:
    """`count` starts that this use counts, reported to a leader at least `age` ago by the database's clock."""

    use: LimitUse
    age: Duration
    count: int


def younger(starts: Iterable[PastStarts], by: Duration) -> list[PastStarts]:
    """The same starts, if the database's clock stepped ahead by so much since they were stored."""
    return [replace(past, age=max(0, past.age - by)) for past in starts]


@dataclass(frozen=True, slots=True)
class ClockStepped:
    """The database's clock stepped ahead: what is stored looks older than it is."""

    by: Duration


@dataclass(frozen=True, slots=True)
class ShiftStarts:
    """Date the stored starts of before a step of the clock later by as much; at most as now."""

    by: Duration


@dataclass(frozen=True, slots=True)
class PruneStarts:
    """Delete the rows of starts older than the longest window of their limit (`kept`), and those of other names."""

    kept: tuple[tuple[str, Duration], ...]


@dataclass(frozen=True, slots=True)
class StartsPruned:
    """A part of the rows to be deleted is; `full`: there may be more of them, `left`: there are other rows."""

    full: bool
    left: bool
