"""The times of solar events: sunrise, civil dawn, solar noon, ... at a place, by PyEphem, as Celery's `solar` asks it.

Each event belongs to one solar day of its place, and is computed from that day alone: every window shows the same
second. A day without the event (polar summer and winter) has no time.
"""

from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from math import ceil, floor, radians
from typing import Any, Final, NamedTuple

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.schedules.kinds import SolarSchedule
from scheduler_service.core.schedules.zones import DAY_SECONDS, FIRST_SECOND, LAST_SECOND


class _Event(NamedTuple):
    """The height of the sun in degrees, whether its centre counts or its upper edge, and whether it rises or sets."""

    horizon: float
    by_centre: bool
    rises: bool | None


EVENTS: Final = {
    "dawn_astronomical": _Event(-18, True, True),
    "dawn_nautical": _Event(-12, True, True),
    "dawn_civil": _Event(-6, True, True),
    "sunrise": _Event(-34 / 60, False, True),
    "solar_noon": _Event(0, False, None),
    "sunset": _Event(-34 / 60, False, False),
    "dusk_civil": _Event(-6, True, False),
    "dusk_nautical": _Event(-12, True, False),
    "dusk_astronomical": _Event(-18, True, False),
}
"""Celery's events, at Celery's heights."""
_HALF_DAY: Final = DAY_SECONDS // 2
_SECONDS_A_DEGREE: Final = 240
_MARGIN: Final = 1_800  # the true noon is within twenty minutes of the mean one
_EPHEM_EPOCH: Final = 25_567.5  # its days count from noon of 1899-12-31
_DAYS_WITHOUT: Final = 400
_SUMMER, _WINTER = 19_894, 20_078  # the solstices of 2024; every event is rarest or most frequent about one of them
_A_YEAR: Final = range(19_723, 19_723 + 366)


def has_every_day(schedule: SolarSchedule) -> bool:
    """Whether the place has the event on every day of the year."""
    return all(_on_day(schedule, day) is not None for day in (_SUMMER, _WINTER))


def happens(schedule: SolarSchedule) -> bool:
    """Whether the place has the event on any day of a year."""
    return any(_on_day(schedule, day) is not None for day in (_SUMMER, _WINTER, *_A_YEAR))


def solar_seconds(schedule: SolarSchedule, start: Instant, end: Instant) -> Iterator[int]:
    """Yield the events in [start, end), as seconds."""
    low, high = max(-(-start // SECOND), FIRST_SECOND), min(-(-end // SECOND), LAST_SECOND)
    for day in _days(schedule, low, high) if low < high else ():
        at = _on_day(schedule, day)
        if at is not None and low <= at < high:
            yield at


def solar_from(schedule: SolarSchedule, start: Instant) -> Iterator[int]:
    """Yield the events from `start` on, as seconds, until 400 days have none."""
    low = max(-(-start // SECOND), FIRST_SECOND)
    day, without = _days(schedule, low, low).start, 0
    while without < _DAYS_WITHOUT and day * DAY_SECONDS < LAST_SECOND - DAY_SECONDS:
        at = _on_day(schedule, day)
        if at is not None and at >= low:
            yield at
        day, without = day + 1, without + 1 if at is None else 0


def last_solar(schedule: SolarSchedule, start: Instant, end: Instant) -> int | None:
    """Return the newest event in [start, end), as seconds, or None."""
    low, high = max(-(-start // SECOND), FIRST_SECOND), min(-(-end // SECOND), LAST_SECOND)
    for day in reversed(_days(schedule, max(low, high - _DAYS_WITHOUT * DAY_SECONDS), high)) if low < high else ():
        at = _on_day(schedule, day)
        if at is not None and low <= at < high:
            return at
    return None


def _days(schedule: SolarSchedule, low: int, high: int) -> range:
    """The solar days whose events may lie in [low, high): the sun rises in the half day before noon, sets after it."""
    rises = EVENTS[schedule.event].rises
    before = _MARGIN + (_HALF_DAY if rises else 0)
    after = _MARGIN + (_HALF_DAY if rises is False else 0)
    first_noon = _HALF_DAY - schedule.longitude * _SECONDS_A_DEGREE
    return range(ceil((low - after - first_noon) / DAY_SECONDS), floor((high + before - first_noon) / DAY_SECONDS) + 1)


def _on_day(schedule: SolarSchedule, day: int) -> int | None:
    return _event(schedule.event, schedule.latitude, schedule.longitude, day)


@lru_cache(maxsize=131_072)
def _event(name: str, latitude: float, longitude: float, day: int) -> int | None:
    """The event of one solar day, to the nearest second; None where the day has none."""
    ephem: Any = import_module("ephem")  # here, as few installations have such jobs and each process would load it

    event = EVENTS[name]
    place, sun = ephem.Observer(), ephem.Sun()
    place.lat, place.lon = radians(latitude), radians(longitude)
    place.horizon, place.pressure, place.elevation = radians(event.horizon), 0, 0
    mean_noon = (day * DAY_SECONDS + _HALF_DAY - longitude * _SECONDS_A_DEGREE) / DAY_SECONDS + _EPHEM_EPOCH
    noon = place.next_transit(sun, start=mean_noon - 0.25)
    try:
        if event.rises is None:
            at = noon
        elif event.rises:
            at = place.previous_rising(sun, start=noon, use_center=event.by_centre)
        else:
            at = place.next_setting(sun, start=noon, use_center=event.by_centre)
    except ephem.CircumpolarError:
        return None
    return round((float(at) - _EPHEM_EPOCH) * DAY_SECONDS)
