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

    next_at: Instant = 0
    _after: Place | None = None

    def begin(self, now: Instant, interval: Duration) -> Place | None:
        """Record that a page is read, and return the place to resume from."""
        self.next_at = now + interval
        after, self._after = self._after, None
        return after

    def read(self, after: Place | None, now: Instant) -> None:
        """Record the end of a page; the next one, if any, follows soon."""
        self._after = after
        if after is not None:
            self.next_at = min(self.next_at, now + _CONTINUE_AFTER)


@dataclass(slots=True)
class Polls:
    """Polls for overdue and expired runs; for new runs at `next_at`, with cancel requests, and because of a wakeup.

    `wanted_at`: the earliest time of a poll because of a wakeup; it grows with what the last one found.
    `is_first_answered`: a poll for new runs was answered, so that memory knows whether any wait.
    """

    overdue: PagedPoll = field(default_factory=PagedPoll)
    expired: PagedPoll = field(default_factory=PagedPoll)
    next_at: Instant = 0
    wanted: bool = False
    wanted_at: Instant = 0
    is_first_answered: bool = False
    _cancels_after: Place | None = None

    def want(self) -> None:
        """Record a wakeup."""
        self.wanted = True

    def begin_cancels(self, now: Instant, interval: Duration) -> Place | None:
        """Record that cancel requests are polled with new runs, and return the place to resume from."""
        self.next_at = now + interval
        after, self._cancels_after = self._cancels_after, None
        return after

    def begin_due(self, now: Instant) -> None:
        """Record that new runs are polled; a wakeup may poll again sooner once this poll is answered."""
        self.wanted = False
        self.wanted_at = now + SECOND

    def due_read(self, rows: int, now: Instant) -> None:
        """Record the answer."""
        self.is_first_answered = True
        self.wanted_at = min(self.wanted_at, now + _PAUSE + rows * _PAUSE_A_ROW)

    def cancels_read(self, after: Place | None) -> None:
        """Record the end of a page of cancel requests; the next poll of them resumes there."""
        self._cancels_after = after
