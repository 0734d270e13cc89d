"""Starts by a rate as the database keeps them between leaders. Values only."""

from dataclasses import dataclass

from itinerary.protocol.instants import Duration, Instant
from itinerary.protocol.limits import LimitUse


@dataclass(frozen=True, slots=True)
class PastStarts:
    """`count` starts that this use counts, reported to a leader at least `age` ago by the database's clock."""

    use: LimitUse
    age: Duration
    count: int


@dataclass(frozen=True, slots=True)
class StoredStarts:
    """The stored starts that still count, and whether `any` are stored, perhaps only older ones."""

    counting: tuple[PastStarts, ...] = ()
    any: bool = False


@dataclass(frozen=True, slots=True)
class ClockStepped:
    """The database's clock stepped ahead: what is stored looks older than it is."""

    by: Duration


@dataclass(frozen=True, slots=True)
class ShiftStarts:
    """Date the stored starts later by as much as the clock stepped; at most as now."""

    by: Duration


@dataclass(frozen=True, slots=True)
class PruneStarts:
    """Delete the rows of starts older than the longest window of their limit (`kept`), and those of other names.

    `now` is the leader's time: a step of the database's clock that it has not seen must delete nothing.
    """

    kept: tuple[tuple[str, Duration], ...]
    now: Instant


@dataclass(frozen=True, slots=True)
class StartsPruned:
    """A part of the rows to be deleted is; `full`: there may be more of them, `left`: there are other rows."""

    full: bool
    left: bool
