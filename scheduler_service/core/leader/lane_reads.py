"""Reads of lanes, for queues in which more runs wait than one poll brings.

Promises that a flood in one lane hides no other: lanes are found one by one, and each is read a page at a time.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.poll_state import Place
from scheduler_service.core.model import ActiveRun


class LanePage(NamedTuple):
    """A page of a lane to be read, behind `after`; None: from the front."""

    queue: str
    lane: str
    after: Place | None = None


@dataclass(frozen=True, slots=True)
class ReadLanes:
    """Read which lanes of the queue have waiting runs that no schedule created: at most `limit`, from `first` on."""

    queue: str
    first: str
    limit: int


@dataclass(frozen=True, slots=True)
class LanesRead:
    """Lanes of the queue in order; `following`: the one to continue from, None at the end."""

    queue: str
    lanes: tuple[str, ...]
    following: str | None


@dataclass(frozen=True, slots=True)
class ReadHeads:
    """Read a page of each of these lanes: runs that no schedule created and that are due before `until`."""

    until: Instant
    pages: tuple[LanePage, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class HeadsRead:
    """The runs of these pages; `more`: the pages that follow those that were full."""

    pages: tuple[LanePage, ...]
    runs: tuple[ActiveRun, ...]
    more: tuple[LanePage, ...]


LaneCommand: TypeAlias = ReadLanes | ReadHeads
LaneFeedback: TypeAlias = LanesRead | HeadsRead
