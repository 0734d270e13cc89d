"""When Celery beat would send an entry: Celery's own schedule objects, asked on a clock of paper.

Promises to change nothing of the app's schedules, which are copied. Promises to end: a schedule that gives no progress
is asked again a second later.
"""

import copy
from datetime import datetime, tzinfo
from typing import Any, Final

from itinerary.protocol.instants import MICROSECOND, SECOND, Instant, to_datetime
from scheduler_service.migrating.one_time import begins_from

_CHECK_AGAIN: Final = SECOND


class _PaperClock:
    """A clock that stands where it was put."""

    def __init__(self, now: Instant, zone: tzinfo) -> None:
        self.now = now
        self._zone = zone

    def __call__(self) -> datetime:
        return to_datetime(self.now).astimezone(self._zone)


def beat_fires(schedule: Any, app: Any, start: Instant, end: Instant) -> list[Instant]:
    """The instants in (start, end) at which a beat that began at `start` sends, never late and never busy."""
    clock = _PaperClock(start, app.timezone)
    asked = copy.copy(schedule)
    asked.app, asked.nowfun = app, clock
    last_run_at, found = begins_from(schedule, start, app.timezone), []
    while clock.now < end:
        is_due, seconds = asked.is_due(last_run_at)
        if is_due and clock.now > start:
            found.append(clock.now)
        if is_due:
            last_run_at = clock()
        clock.now += max(_microseconds(seconds), MICROSECOND if is_due else _CHECK_AGAIN)
    return found


def _microseconds(seconds: Any) -> int:
    """Beat waits a float of seconds; the nearest whole microsecond is the instant that it means."""
    return round(float(seconds) * SECOND)
