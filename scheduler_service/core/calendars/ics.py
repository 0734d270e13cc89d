"""iCalendar files (RFC 5545) read as the times that they close.

Promises that an event counts as its calendar program shows it: each repetition, moved and cancelled ones heeded, the
end excluded. Free and cancelled events do not count. Whatever could open a closed day by mistake is refused instead: a
time that cannot be read, a zone that nobody knows. An untrusted file can take long to read: run this in a process with
limits. Imports its libraries only when asked.
"""

import warnings
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from itinerary.protocol.instants import from_datetime
from scheduler_service.core.calendars.model import NamedDays, NamedSpan
from scheduler_service.core.schedules.zones import zone as load_zone

# The library's own type of a property's value has thirty members.
Component: TypeAlias = Any

MOST_BYTES: Final = 5 * 1024 * 1024
MOST_EVENTS: Final = 10_000
_YEARS_AHEAD: Final = 2
_EPOCH: Final = date(1970, 1, 1)
_TIMES: Final = ("DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "RECURRENCE-ID")
_FREQUENCIES: Final = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_TOO_MANY: Final = f"has over {MOST_EVENTS} events, with each repetition counted"
_LONGEST_NAME: Final = 200
_LONGEST_ERROR: Final = 300


class IcsError(ValueError):
    """A file that cannot be read as closed times; the text says why."""


class IcsEvents(NamedTuple):
    """The times that the events of a file close: whole days of the calendar's zone, and instants."""

    days: tuple[NamedDays, ...]
    spans: tuple[NamedSpan, ...]


def ics_window(today: int) -> tuple[int, int]:
    """Return the days to write out at the day `today`: from the year before to at least two years ahead.

    It moves twice a year only, so that a file that did not change gives the same days each time it is read.
    """
    day = _EPOCH + timedelta(today)
    end = date(day.year + _YEARS_AHEAD, 7, 1) if day.month <= 6 else date(day.year + _YEARS_AHEAD + 1, 1, 1)
    return _number(date(day.year - 1, 1, 1)), _number(end)


def read_ics(data: bytes, *, zone: str, start: int, end: int) -> IcsEvents:
    """Return what the file closes within the days [`start`, `end`); times without a zone are of `zone`."""
    if len(data) > MOST_BYTES:
        raise IcsError(f"the file has over {MOST_BYTES} bytes")
    local = load_zone(zone)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # guesses of the library, such as of a zone's name in a longer one
        try:
            return _within(_occurrences(data, _midnight(start, local), _midnight(end, local)), local, start, end)
        except IcsError:
            raise
        except Exception as exc:  # the libraries raise whatever an unexpected value leads to
            raise IcsError(f"cannot be read: {type(exc).__name__}: {exc}"[:_LONGEST_ERROR]) from exc


def _occurrences(data: bytes, start: datetime, end: datetime) -> Iterator[Component]:
    from icalendar import Calendar
    from icalendar.timezone import tzp

    tzp.use_default()  # forget the zones of the file before
    if data.count(b"BEGIN:VEVENT") > MOST_EVENTS:
        raise IcsError(_TOO_MANY)
    calendars: list[Component] = Calendar.from_ical(data, multiple=True)
    if not calendars or any(calendar.name != "VCALENDAR" for calendar in calendars):
        raise IcsError("is no complete iCalendar file: it must begin with BEGIN:VCALENDAR and end with END:VCALENDAR")
    events = [event for calendar in calendars for event in calendar.walk("VEVENT")]
    if not events:
        raise IcsError("has no events")
    for event in events:
        _check(event)
    for found, occurrence in enumerate((one for each in calendars for one in _expanded(each, start, end)), 1):
        if found > MOST_EVENTS:
            raise IcsError(_TOO_MANY)
        yield occurrence


def _check(event: Component) -> None:
    """Refuse an event of which a time was left out or would be guessed."""
    from icalendar.timezone import tzp

    for name, why in event.errors:
        if name in _TIMES or (name is None and any(f"'{time}" in why for time in _TIMES)):
            raise IcsError(f"{_called(event)}: {name or 'a line'} cannot be read: {why}"[:_LONGEST_ERROR])
    for name in _TIMES:
        for value in _listed(event.get(name)):
            named = value.params.get("TZID")
            if named is not None and tzp.timezone(named) is None:
                raise IcsError(f"{_called(event)}: the zone {named[:100]!r} is unknown, and no VTIMEZONE describes it")
    for rule in _listed(event.get("RRULE")):
        if rule.get("FREQ", [""])[0] not in _FREQUENCIES:
            raise IcsError(f"{_called(event)}: RRULE: FREQ must be one of {', '.join(_FREQUENCIES)}")


def _expanded(calendar: Component, start: datetime, end: datetime) -> Iterator[Component]:
    """Yield each occurrence that touches [start, end); one that lasts may come several times."""
    import recurring_ical_events  # type: ignore[import-untyped]

    query, days = recurring_ical_events.of(calendar), 1
    while start < end:
        until = min(start + timedelta(days), end)
        found = query.between(start, until)
        yield from found
        # As far as the most events would reach, so that a file with too many ends before all of them were expanded.
        start, days = until, max(1, days * MOST_EVENTS // max(1, len(found)))


def _within(occurrences: Iterable[Component], zone: ZoneInfo, start: int, end: int) -> IcsEvents:
    opens, closes = from_datetime(_midnight(start, zone)), from_datetime(_midnight(end, zone))
    days, spans = set(), set()
    for event in occurrences:
        if str(event.get("TRANSP", "")).upper() == "TRANSPARENT" or str(event.get("STATUS", "")).upper() == "CANCELLED":
            continue
        name, first, last = _title(event), event["DTSTART"].dt, event["DTEND"].dt
        if isinstance(first, datetime):
            begins, ends = max(_instant(first, zone), opens), min(_instant(last, zone), closes)
            if begins < ends:
                spans.add(NamedSpan(begins, ends, name))
        else:
            whole = NamedDays(max(_number(first), start), min(max(_number(last) - 1, _number(first)), end - 1), name)
            if whole.first <= whole.last:
                days.add(whole)
    return IcsEvents(tuple(sorted(days)), tuple(sorted(spans)))


def _called(event: Component) -> str:
    return _title(event) or "an event without a title"


def _title(event: Component) -> str:
    return " ".join(str(event.get("SUMMARY", "")).split())[:_LONGEST_NAME]


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _instant(moment: datetime, zone: ZoneInfo) -> int:
    return from_datetime(moment if moment.tzinfo is not None else moment.replace(tzinfo=zone))


def _midnight(day: int, zone: ZoneInfo) -> datetime:
    at = _EPOCH + timedelta(day)
    return datetime(at.year, at.month, at.day, tzinfo=zone)


def _number(day: date) -> int:
    return (day - _EPOCH).days
