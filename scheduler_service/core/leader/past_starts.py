"""Starts by a rate as the database keeps them between leaders. Values only."""

from dataclasses import dataclass

from itinerary.protocol.instants import Duration
from itinerary.protocol.limits import LimitUse


@dataclass(frozen=True, slots=True)
class PastStarts:
    """`count` starts that this use counts, reported to a leader at least `age` ago by the database's clock."""

    use: LimitUse
    age: Duration
    count: int


@dataclass(frozen=True, slots=True)
class PruneStarts:
    """Delete the rows of starts older than the longest window of their limit (`kept`), and those of other names."""

    kept: tuple[tuple[str, Duration], ...]


@dataclass(frozen=True, slots=True)
class StartsPruned:
    """A part of the rows to be deleted is; `full`: there may be more."""

    full: bool
