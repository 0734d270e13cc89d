"""Polls of the database for rows that others wrote: when the next one is due, and where it resumes."""

from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import MICROSECOND, MILLISECOND, SECOND, Duration, Instant
from scheduler_service.core.leader.poll_state import Place

_CONTINUE_AFTER: Final = 500 * MILLISECOND
_PAUSE: Final = 20 * MILLISECOND
_PAUSE_A_ROW: Final = 100 * MICROSECOND


@dataclass(slots=True)
class PagedPoll:
    """A poll of a long list, a page at a time. `_after`: the place at which the last page ended."""

    _next_at: Instant = 0
    _after: Place | None = None

    def is_due(self, now: Instant) -> bool:
        """Whether the next page is to be read now."""
        return now >= self._next_at

    def begin(self, now: Instant, interval: Duration) -> Place | None:
        """Record that a page is read, and return the place to resume from."""
        self._next_at = now + interval
        after, self._after = self._after, None
        return after

    def read(self, after: Place | None, now: Instant) -> None:
        """Record the end of a page; the next one, if any, follows soon."""
        self._after = after
        if after is not None:
            self._next_at = min(self._next_at, now + _CONTINUE_AFTER)


@dataclass(slots=True)
class Polls:
    """Polls for overdue runs, expired runs, cancel requests, and for new runs: those by time and by wakeup as well.

    `wanted_at`: the earliest time of a poll by wakeup; it grows with what the last one found.
    """

    overdue: PagedPoll = field(default_factory=PagedPoll)
    expired: PagedPoll = field(default_factory=PagedPoll)
    cancels_after: Place | None = None
    wanted: bool = False
    wanted_at: Instant = 0
    _next_due_at: Instant = 0

    def want(self) -> None:
        """Record a wakeup."""
        self.wanted = True

    def due_by_time(self, now: Instant) -> bool:
        """Whether new runs are to be polled, wakeup or not."""
        return now >= self._next_due_at

    def due_by_wakeup(self, now: Instant) -> bool:
        """Whether new runs are to be polled because of a wakeup."""
        return self.wanted and now >= self.wanted_at

    def begin_by_time(self, now: Instant, interval: Duration) -> Place | None:
        """Record a poll by time, and return the place from which its poll of cancel requests resumes."""
        self._next_due_at = now + interval
        after, self.cancels_after = self.cancels_after, None
        return after

    def begin_due(self, now: Instant) -> None:
        """Record that new runs are polled; the next poll by wakeup comes sooner once this one is answered."""
        self.wanted = False
        self.wanted_at = now + SECOND

    def due_read(self, rows: int, *, full: bool, now: Instant) -> None:
        """Record the answer; there may be more where it is full."""
        if full:
            self._next_due_at = min(self._next_due_at, now + _CONTINUE_AFTER)
        self.wanted_at = min(self.wanted_at, now + _PAUSE + rows * _PAUSE_A_ROW)

    def cancels_read(self, after: Place | None) -> None:
        """Record the end of a page of cancel requests; the next poll by time resumes there."""
        self.cancels_after = after
