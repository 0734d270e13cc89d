"""Axes of time: the ticks of a span at round times of a zone, and positions in percent of its width. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant, to_datetime
from scheduler_service.core.schedules.zones import first_instant_from
from scheduler_service.ports.timeline import Span

_STEPS: Final = (
    SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE,
    HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, DAY, 7 * DAY, 31 * DAY,
)  # fmt: skip
_MOST: Final = 9
_DAY_SECONDS: Final = DAY // SECOND
_QUARTER: Final = 15 * MINUTE  # no offset of a zone is finer, those of local mean time aside


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the axis: its position in percent, its text; `minor` ones have no text on a narrow screen."""

    x: float
    text: str
    minor: bool


def place(span: Span, at: Instant) -> float:
    """Return where an instant lies, in percent of the span; one outside lies at its edge."""
    share = (min(max(at, span.since), span.until) - span.since) / (span.until - span.since)
    return round(100 * share, 3)


def ticks(span: Span, zone: ZoneInfo) -> list[Tick]:
    """Return at most nine ticks at round local times; at a change of the clocks one may be missing or come twice."""
    length = span.until - span.since
    step = next((step for step in _STEPS if length / step <= _MOST), _STEPS[-1])
    times = list(_days(span, zone, step) if step >= DAY else _clock_times(span, zone, step))
    return [Tick(place(span, at), _text(at, zone, step), n % 2 == 1) for n, at in enumerate(times)]


def local(at: Instant, zone: ZoneInfo) -> datetime:
    """Return the wall time of an instant."""
    return to_datetime(at).astimezone(zone)


def midnight(day: date, zone: ZoneInfo) -> Instant:
    """Return the first instant of a day; where midnight is skipped, that is the end of the gap."""
    return first_instant_from(zone.key, (day - date(1970, 1, 1)).days * _DAY_SECONDS) * SECOND


def _clock_times(span: Span, zone: ZoneInfo, step: Duration) -> Iterator[Instant]:
    fine = min(step, _QUARTER)
    for at in range(-(-span.since // fine) * fine, span.until, fine):
        wall = local(at, zone)
        if (wall.hour * HOUR + wall.minute * MINUTE + wall.second * SECOND) % step == 0:
            yield at


def _days(span: Span, zone: ZoneInfo, step: Duration) -> Iterator[Instant]:
    day, last = local(span.since, zone).date(), local(span.until, zone).date()
    while day <= last:
        wanted = step == DAY or (step == 7 * DAY and day.weekday() == 0) or day.day == 1
        if wanted and span.since <= (at := midnight(day, zone)) < span.until:
            yield at
        day += timedelta(1)


def _text(at: Instant, zone: ZoneInfo, step: Duration) -> str:
    wall = local(at, zone)
    if step >= DAY or (wall.hour, wall.minute, wall.second) == (0, 0, 0):
        return f"{wall:%a} {wall.day} {wall:%b}" if step < 7 * DAY else f"{wall.day} {wall:%b}"
    return f"{wall:%H:%M:%S}" if step < MINUTE else f"{wall:%H:%M}"
