"""Between which instants the inbox is known to have been read to its end, without a pause.

A read that has not come back tells nothing: a worker is silent only up to where reads of its words are confirmed.

Looks into the database for what others wrote there: the questions, and what they found.

A long list is looked at a part at a time; the next look goes on behind the place where the last one stopped.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.model import ActiveRun

# Confirmed more rarely than that, workers may have had no way to speak: their time begins anew.
PAUSE: Final = 2 * SECOND


@dataclass(frozen=True, slots=True)
class Listened:
    """All that was said until `until` is read, and could be said at any time from `since` on."""

    since: Instant
    until: Instant

    def confirmed(self, asked_at: Instant) -> "Listened":
        """A read that was asked for then stood at the stream's end."""
        return Listened(self.since if asked_at - self.until <= PAUSE else asked_at, asked_at)


NEVER: Final = Listened(0, 0)


Place: TypeAlias = tuple[Any, ...]
"""Where a look stopped; only who looked can read it."""


@dataclass(frozen=True, slots=True)
class ReadDue:
    """Bring runs that no schedule made, wait in the database and are due before `until`, `limit` of each queue."""

    until: Instant
    limit: int


@dataclass(frozen=True, slots=True)
class DueRead:
    """Runs that wait in the database and fall due soon; `full`: there may be more."""

    runs: tuple[ActiveRun, ...]
    full: bool


@dataclass(frozen=True, slots=True)
class ReadOverdue:
    """Bring the next `limit` runs that wait in the database and were due before `until`, whoever made them."""

    until: Instant
    limit: int
    after: Place | None


@dataclass(frozen=True, slots=True)
class OverdueRead:
    """Overdue runs; `after`: where to go on, None at the end."""

    runs: tuple[ActiveRun, ...]
    after: Place | None


@dataclass(frozen=True, slots=True)
class ReadCancels:
    """Bring the next `limit` runs that are out and whose cancel is requested, in case the word of it was lost."""

    limit: int
    after: Place | None


@dataclass(frozen=True, slots=True)
class CancelsRead:
    """Runs that are out and whose cancel is requested; `after`: where to go on, None at the end."""

    runs: tuple[ActiveRun, ...]
    after: Place | None


@dataclass(frozen=True, slots=True)
class ReadExpired:
    """Bring the next `limit` runs that no schedule made, wait, and should have started before `until`."""

    until: Instant
    limit: int
    after: Place | None


@dataclass(frozen=True, slots=True)
class ExpiredRead:
    """Waiting runs beyond their start deadline; `after`: where to go on, None at the end."""

    runs: tuple[ActiveRun, ...]
    after: Place | None
