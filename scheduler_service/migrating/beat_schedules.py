"""Celery's schedules as ours: crontab, intervals of seconds, timedelta; the others are refused by name."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta, tzinfo
from typing import Any, Final

from celery.schedules import crontab, schedule, solar

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import MICROSECOND, SECOND, format_duration, format_instant
from scheduler_service.core.schedules.cron_fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    WEEKDAY,
    FieldKind,
    read_field,
    values_text,
)
from scheduler_service.core.schedules.zones import zone
from scheduler_service.migrating.converted import CannotConvert
from scheduler_service.migrating.one_time import OneTime

_EVERY_DAY: Final = "*"


def zone_of_app(app: Any) -> str:
    """The IANA name of the zone in which the app's crontabs are meant; CannotConvert where it has none."""
    found: tzinfo = app.timezone
    names = (getattr(found, "key", None), getattr(found, "zone", None), str(found))
    for name in names:
        if isinstance(name, str):
            with suppress(BadValue):
                return zone(name).key
    raise CannotConvert(f"the app's time zone {found!r} has no IANA name: set app.conf.timezone")


def spec_of(given: Any, app: Any) -> tuple[dict[str, Any], list[str]]:
    """Our schedule, and how it differs; CannotConvert for what has no equal here."""
    if isinstance(given, solar):
        place = {"latitude": float(given.lat), "longitude": float(given.lon)}
        return {"kind": "solar", "event": given.event, **place, "timezone": zone_of_app(app)}, _nowfun(given, app)
    if isinstance(given, OneTime):
        return {"kind": "once", "at": format_instant(given.at)}, []
    kind = type(given)
    if kind is crontab:
        return _crontab_spec(given, app), _nowfun(given, app)
    if kind is schedule:
        spec, differences = _interval_spec(given, zone_of_app(app))
        return spec, [*differences, *_nowfun(given, app)]
    raise CannotConvert(f"{kind.__module__}.{kind.__qualname__} is a schedule of its own making: say it as a cron line")


def _nowfun(given: Any, app: Any) -> list[str]:
    if given.nowfun is None:
        return []
    return [f"its nowfun is not carried over: Celery matches in the app's zone, {zone_of_app(app)}, and so do we"]


def _crontab_spec(given: Any, app: Any) -> dict[str, Any]:
    day = _field(DAY, given._orig_day_of_month, given.day_of_month)
    weekday = _field(WEEKDAY, given._orig_day_of_week, given.day_of_week)
    fields = [
        _field(MINUTE, given._orig_minute, given.minute),
        _field(HOUR, given._orig_hour, given.hour),
        day,
        _field(MONTH, given._orig_month_of_year, given.month_of_year),
        weekday,
    ]
    spec: dict[str, Any] = {"kind": "cron", "expr": " ".join(fields), "timezone": zone_of_app(app)}
    if _EVERY_DAY not in (day, weekday):
        spec["day_match"] = "and"  # Celery wants both
    return spec


def _field(kind: FieldKind, given: Any, values: Iterable[int]) -> str:
    """The text as it was written where we read it as Celery does, else the values that Celery made of it."""
    mask = sum({1 << int(value) for value in values})
    if mask == kind.full:
        return _EVERY_DAY
    text = str(given).replace(" ", "").lower() if isinstance(given, str | int) else ""
    try:
        read = read_field(kind, text, "")
    except BadValue:
        return values_text(kind, mask)
    described_alike = read.mask == mask and not read.special
    return text if described_alike else values_text(kind, mask)


def _interval_spec(given: Any, timezone: str) -> tuple[dict[str, Any], list[str]]:
    every = given.run_every // timedelta(microseconds=MICROSECOND)
    if every < SECOND or every % SECOND:
        raise CannotConvert(
            f"every {given.run_every.total_seconds():g} s: intervals here are whole seconds, 1 s or more"
        )
    whole_days = given.run_every.days if not given.run_every.seconds else 0
    if given.relative and whole_days:
        spec = {"kind": "calendar", "unit": "day", "every": whole_days, "at": ["00:00"], "timezone": timezone}
        several = "beat counts the days from its own start; here they are counted from the day the job is made"
        return spec, [several] if whole_days > 1 else []
    length = format_duration(every)
    counted = (
        f"beat counts from its start and from when it last sent; here it runs at 00:00 ({timezone}) + k x {length}"
    )
    return {"kind": "interval", "every": length, "timezone": timezone}, [counted]
