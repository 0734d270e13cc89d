"""Celery schedules that beat's own do not say: one time, and another schedule's times within bounds."""

import copy
from datetime import datetime, timedelta
from typing import Any, Final

from celery.schedules import BaseSchedule, schedstate

from itinerary.protocol.instants import SECOND, Instant, from_datetime, to_datetime

_NEVER: Final = 100_000_000.0
_SLACK: Final = 1e-6


class OneTime(BaseSchedule):
    """Due once, at `at`, as django-celery-beat's `clocked` is."""

    def __init__(self, at: Instant, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.at = at

    def is_due(self, last_run_at: datetime) -> Any:
        """See `BaseSchedule.is_due`; what was sent at or behind `at` is not due again."""
        if from_datetime(last_run_at) >= self.at:
            return schedstate(False, _NEVER)
        left = (self.at - from_datetime(self.now())) / SECOND
        return schedstate(left <= 0, _NEVER if left <= 0 else left)


class Bounded(BaseSchedule):
    """Another schedule from `start` (included) to `end` (excluded), counted from `last_run_at` where that is known."""

    def __init__(
        self, inner: Any, start: Instant | None, end: Instant | None, last_run_at: Instant | None, once: bool
    ) -> None:
        super().__init__()
        self.inner: Any = inner
        self.start, self.end, self.once = start, end, once
        self.last_run_at = last_run_at
        self.sent = False

    def is_due(self, last_run_at: datetime) -> Any:
        """See `BaseSchedule.is_due`; after the first sending of a one-off, and at the end, never again."""
        now = from_datetime(self.now())
        if (self.end is not None and now >= self.end) or (self.once and self.sent):
            return schedstate(False, _NEVER)
        if self.start is not None and now < self.start:
            return schedstate(False, max((self.start - now) / SECOND, _SLACK))
        inner = copy.copy(self.inner)
        inner.app, inner.nowfun = self.app, self.now
        found = inner.is_due(self._counted_from(last_run_at))
        self.sent = self.sent or bool(found[0])
        return found

    def _counted_from(self, last_run_at: datetime) -> datetime:
        """Times before the start are not made up for; an interval is first due at the start itself."""
        if self.start is None or from_datetime(last_run_at) >= self.start:
            return last_run_at
        before: timedelta = getattr(self.inner, "run_every", None) or timedelta(microseconds=1)
        return (to_datetime(self.start) - before).astimezone(last_run_at.tzinfo)


def begins_from(given: Any, start: Instant, zone: Any) -> datetime:
    """The last sending that a beat which begins at `start` knows of."""
    known = getattr(given, "last_run_at", None)
    return to_datetime(min(start, known) if isinstance(known, int) else start).astimezone(zone)
