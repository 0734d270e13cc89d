"""Polls of the database for rows that other processes wrote, and the confirmed interval of inbox reads.

Promises: a worker's time without a report counts only up to the last confirmed inbox read. A long list is read a page
at a time; the next poll resumes behind the place at which the last one stopped.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.controls import Controls
from scheduler_service.core.model import ActiveRun

# After a longer pause between confirmed reads, workers may have been unable to report: their time starts again.
PAUSE: Final = 2 * SECOND


@dataclass(frozen=True, slots=True)
class Listened:
    """The interval of inbox reads without a pause: complete up to `until`, open to workers from `since` on."""

    since: Instant
    until: Instant

    def confirmed(self, asked_at: Instant) -> "Listened":
        """Extend the interval by a read requested at `asked_at` that reached the end of the stream."""
        return Listened(self.since if asked_at - self.until <= PAUSE else asked_at, asked_at)


NEVER: Final = Listened(0, 0)


Place: TypeAlias = tuple[Any, ...]
"""The position at which a poll stopped; only the store that returned it can read it."""


@dataclass(frozen=True, slots=True)
class ReadDue:
    """Poll waiting runs that no schedule created and that are due before `until`, at most `limit` of each queue.

    Those of `paused` queues stay in the database until the resume.
    """

    until: Instant
    limit: int
    paused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DueRead:
    """Waiting runs of the database that fall due soon; `full`: the queues that may have more."""

    runs: tuple[ActiveRun, ...]
    full: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ReadOverdue:
    """Poll the next `limit` waiting runs that a schedule created and that were due before `until`.

    The other ones may be a million, and are found by the polls for due runs.
    """

    until: Instant
    limit: int
    after: Place | None


@dataclass(frozen=True, slots=True)
class OverdueRead:
    """Overdue runs; `after`: the place to resume from, None at the end."""

    runs: tuple[ActiveRun, ...]
    after: Place | None


@dataclass(frozen=True, slots=True)
class ReadCancels:
    """Poll the next `limit` runs in flight whose cancel is requested, in case the cancel message was lost."""

    limit: int
    after: Place | None


@dataclass(frozen=True, slots=True)
class CancelsRead:
    """Runs in flight whose cancel is requested; `after`: the place to resume from, None at the end."""

    runs: tuple[ActiveRun, ...]
    after: Place | None


@dataclass(frozen=True, slots=True)
class ReadExpired:
    """Poll the next `limit` waiting runs that no schedule created and that should have started before `until`."""

    until: Instant
    limit: int
    after: Place | None


@dataclass(frozen=True, slots=True)
class ExpiredRead:
    """Waiting runs past their start deadline; `after`: the place to resume from, None at the end."""

    runs: tuple[ActiveRun, ...]
    after: Place | None


@dataclass(frozen=True, slots=True)
class ReadControls:
    """Read the pauses, limits and freezes, unless their version is still `known`.

    Of freezes those that have not ended by `since`. `confirm`: until when no other edit was made is wanted, too.
    """

    known: int
    since: Instant = 0
    confirm: bool = False


@dataclass(frozen=True, slots=True)
class ControlsRead:
    """Other pauses, limits and freezes than those known, no older than their version."""

    controls: Controls


@dataclass(frozen=True, slots=True)
class ControlsConfirmed:
    """The controls of this version were all there were at `at`."""

    version: int
    at: Instant
