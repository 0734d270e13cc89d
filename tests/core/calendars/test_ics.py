"""iCalendar files as closed times: what counts, what does not, what is refused."""

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta

import pytest

from itinerary.protocol.instants import to_datetime
from scheduler_service.core.calendars.ics import IcsError, ics_window, read_ics

EPOCH = date(1970, 1, 1)
START, END = date(2026, 1, 1), date(2028, 1, 1)
NEW_YORK = """\
BEGIN:VTIMEZONE
TZID:Head office
BEGIN:STANDARD
DTSTART:20071104T020000
TZOFFSETFROM:-0400
TZOFFSETTO:-0500
RRULE:FREQ=YEARLY;BYDAY=1SU;BYMONTH=11
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:20070311T020000
TZOFFSETFROM:-0500
TZOFFSETTO:-0400
RRULE:FREQ=YEARLY;BYDAY=2SU;BYMONTH=3
END:DAYLIGHT
END:VTIMEZONE
"""


def event(*lines, uid="one", name="Closed"):
    return "\n".join(["BEGIN:VEVENT", f"UID:{uid}", f"SUMMARY:{name}", *lines, "END:VEVENT"]) + "\n"


def ics(*parts):
    return ("BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:test\n" + "".join(parts) + "END:VCALENDAR\n").encode()


def read(*parts, zone="Europe/Berlin", start=START, end=END):
    return read_ics(ics(*parts), zone=zone, start=(start - EPOCH).days, end=(end - EPOCH).days)


def days(*parts, **window):
    found = read(*parts, **window)
    assert not found.spans
    return [(str(EPOCH + timedelta(d.first)), str(EPOCH + timedelta(d.last)), d.name) for d in found.days]


def spans(*parts, **window):
    found = read(*parts, **window)
    assert not found.days
    return [(f"{to_datetime(s.start):%Y-%m-%dT%H:%MZ}", f"{to_datetime(s.end):%Y-%m-%dT%H:%MZ}") for s in found.spans]


def test_the_end_of_an_all_day_event_is_excluded():
    two_days = event("DTSTART;VALUE=DATE:20261224", "DTEND;VALUE=DATE:20261226")
    one_day = event("DTSTART;VALUE=DATE:20260501", uid="two", name=" May\\n  day ")
    assert days(two_days, one_day) == [
        ("2026-05-01", "2026-05-01", "May day"), ("2026-12-24", "2026-12-25", "Closed")
    ]  # fmt: skip


def test_times_are_of_their_own_zone_or_of_the_calendar_s():
    lines = ["DTEND;TZID=America/New_York:20260701T100000", "DTSTART;TZID=America/New_York:20260701T090000"]
    assert spans(event(*lines)) == [("2026-07-01T13:00Z", "2026-07-01T14:00Z")]
    assert spans(event("DTSTART:20260701T090000", "DURATION:PT1H")) == [("2026-07-01T07:00Z", "2026-07-01T08:00Z")]
    assert spans(event("DTSTART:20260701T090000Z", "DURATION:PT1H")) == [("2026-07-01T09:00Z", "2026-07-01T10:00Z")]
    windows = event("DTSTART;TZID=W. Europe Standard Time:20260701T090000", "DURATION:PT1H")
    assert spans(windows, zone="UTC") == [("2026-07-01T07:00Z", "2026-07-01T08:00Z")]
    assert spans(event("DTSTART:20260701T090000")) == []  # lasts no time at all


def test_a_zone_of_the_file_s_own_is_read_from_its_vtimezone_and_not_kept():
    own = event("DTSTART;TZID=Head office:20260701T090000", "DURATION:PT1H")
    for parts in ((NEW_YORK, own), (own, NEW_YORK)):
        assert spans(*parts) == [("2026-07-01T13:00Z", "2026-07-01T14:00Z")]
    with pytest.raises(IcsError, match="Closed: the zone 'Head office' is unknown, and no VTIMEZONE describes it"):
        read(own)


def test_repetitions_keep_their_wall_time_over_a_clock_change():
    weekly = event("DTSTART;TZID=Europe/Berlin:20261019T090000", "DURATION:PT1H", "RRULE:FREQ=WEEKLY;COUNT=2")
    assert [start for start, _ in spans(weekly)] == ["2026-10-19T07:00Z", "2026-10-26T08:00Z"]
    utc = event("DTSTART:20261019T070000Z", "DURATION:PT1H", "RRULE:FREQ=WEEKLY;COUNT=2")
    google = spans("X-WR-TIMEZONE:Europe/Berlin\n", utc)
    assert [start for start, _ in google] == ["2026-10-19T07:00Z", "2026-10-26T08:00Z"]


def test_exceptions_moved_and_cancelled_occurrences_are_heeded():
    daily = event(
        "DTSTART;VALUE=DATE:20260601", "RRULE:FREQ=DAILY;COUNT=6", "EXDATE;VALUE=DATE:20260602",
        "RDATE;VALUE=DATE:20260620",
    )  # fmt: skip
    moved = event("RECURRENCE-ID;VALUE=DATE:20260603", "DTSTART;VALUE=DATE:20260703", name="Moved")
    cancelled = event("RECURRENCE-ID;VALUE=DATE:20260604", "DTSTART;VALUE=DATE:20260604", "STATUS:CANCELLED")
    free = event("RECURRENCE-ID;VALUE=DATE:20260605", "DTSTART;VALUE=DATE:20260605", "TRANSP:TRANSPARENT")
    assert [(first, name) for first, _, name in days(daily, moved, cancelled, free)] == [
        ("2026-06-01", "Closed"), ("2026-06-06", "Closed"), ("2026-06-20", "Closed"), ("2026-07-03", "Moved"),
    ]  # fmt: skip


def test_free_and_cancelled_events_close_nothing():
    free = event("DTSTART;VALUE=DATE:20260601", "TRANSP:TRANSPARENT")
    assert days(free, event("DTSTART;VALUE=DATE:20260602", "STATUS:CANCELLED", uid="two")) == []


def test_only_what_touches_the_window_is_read_and_cut_to_it():
    long = event("DTSTART;VALUE=DATE:20200101", "DTEND;VALUE=DATE:20400101")
    assert days(long) == [("2026-01-01", "2027-12-31", "Closed")]
    night = event("DTSTART;TZID=Europe/Berlin:20251231T220000", "DURATION:PT8H")
    assert spans(night) == [("2025-12-31T23:00Z", "2026-01-01T05:00Z")]
    assert days(event("DTSTART;VALUE=DATE:20251231"), event("DTSTART;VALUE=DATE:20280101", uid="two")) == []


def test_several_calendars_in_one_file_are_one_set():
    data = ics(event("DTSTART;VALUE=DATE:20260601")) + ics(event("DTSTART;VALUE=DATE:20260602"))
    assert len(read_ics(data, zone="UTC", start=20_454, end=21_184).days) == 2


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no complete iCalendar file"),
        (b"<html>Please log in</html>", "cannot be read"),
        (ics(event("DTSTART;VALUE=DATE:20260601"))[:-30], "no complete iCalendar file"),
        (event("DTSTART;VALUE=DATE:20260601").encode(), "no complete iCalendar file"),
        (ics(), "has no events"),
        (ics("BEGIN:VTODO\nUID:1\nEND:VTODO\n"), "has no events"),
        (ics(event("DTSTART:2026010T0900Z")), "Closed: DTSTART cannot be read"),
        (ics(event("DTEND:20260101T090000Z")), "cannot be read"),
        (ics(event("DTSTART;VALUE=DATE:20260601", "EXDATE:garbage")), "Closed: EXDATE cannot be read"),
        (ics(event("DTSTART;VALUE=DATE:20260601", "RRULE:FREQ=DAILY;COUNT=x")), "Closed: RRULE cannot be read"),
        (ics(event("DTSTART;VALUE=DATE:20260601", "RRULE FREQ=DAILY")), "Closed: a line cannot be read"),
        (ics(event("DTSTART;VALUE=DATE:20260601", "RRULE:garbage")), "RRULE: FREQ must be one of DAILY"),
        (ics(event("DTSTART;VALUE=DATE:20260601", "RRULE:FREQ=SOMETIMES")), "Closed: RRULE cannot be read"),
        (ics(event("DTSTART:20260601T090000Z", "RRULE:FREQ=SECONDLY")), "RRULE: FREQ must be one of DAILY"),
        (ics(event("DTSTART:20260601T090000Z", "RRULE:FREQ=HOURLY")), "RRULE: FREQ must be one of DAILY"),
        (ics(event("DTSTART:20260601T090000Z", "RRULE:FREQ=HOURLY", name="")), "an event without a title: RRULE: FREQ"),
        (ics("X-WR-TIMEZONE:Nowhere\n", event("DTSTART:20260601T090000Z")), "cannot be read"),
        (b"BEGIN:VCALENDAR\n" * 2_000, "no complete iCalendar file"),
        (b"x" * (5 * 1024 * 1024 + 1), "over 5242880 bytes"),
        (bytes(range(256)) * 100, "cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(data, says):
    with pytest.raises(IcsError) as error:
        read_ics(data, zone="UTC", start=20_454, end=21_184)
    assert says in str(error.value)
    assert len(str(error.value)) <= 300


def test_a_description_that_cannot_be_read_closes_as_before():
    assert len(days(event("DTSTART;VALUE=DATE:20260601", "a second line of the description"))) == 1


@pytest.mark.slow
def test_more_than_ten_thousand_events_are_refused_whether_written_or_repeated():
    daily = [event("DTSTART:20250601T090000Z", "DURATION:PT1H", "RRULE:FREQ=DAILY", uid=str(n)) for n in range(1_000)]
    with pytest.raises(IcsError, match="over 10000 events"):
        read(*daily)
    with pytest.raises(IcsError, match="over 10000 events"):
        read(*(event("DTSTART;VALUE=DATE:20260601", uid=str(n)) for n in range(10_001)))


def test_the_window_moves_twice_a_year_and_is_never_shorter_than_two_years():
    windows = set()
    for day in range((date(2026, 1, 1) - EPOCH).days, (date(2027, 1, 1) - EPOCH).days):
        start, end = ics_window(day)
        assert start <= day - 365
        assert end >= day + 730
        windows.add((str(EPOCH + timedelta(start)), str(EPOCH + timedelta(end))))
    assert windows == {("2025-01-01", "2028-07-01"), ("2025-01-01", "2029-01-01")}


def test_the_libraries_are_loaded_only_when_asked():
    loads = "assert not {'icalendar', 'recurring_ical_events'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", f"import sys, scheduler_service.core.calendars.ics; {loads}"], check=True)


@pytest.mark.slow
def test_the_repetitions_of_random_rules_are_those_of_dateutil():
    """The one rule of which both the library and we could be wrong alike is dateutil's own: it is the reference."""
    import random

    from dateutil.rrule import rrulestr

    choose = random.Random(4711)
    window = [datetime(*day, tzinfo=UTC) for day in ((2025, 12, 31), (2027, 12, 31, 1))]
    for _ in range(60):
        rule = choose.choice([
            f"FREQ=DAILY;INTERVAL={choose.randint(1, 9)}",
            f"FREQ=WEEKLY;BYDAY={','.join(choose.sample(['MO', 'TU', 'WE', 'TH', 'FR', 'SA', 'SU'], 2))}",
            f"FREQ=MONTHLY;BYMONTHDAY={choose.randint(-5, 31) or 1}",
            f"FREQ=MONTHLY;BYDAY={choose.choice(['1MO', '-1FR', '2TU'])}",
            f"FREQ=YEARLY;BYMONTH={choose.randint(1, 12)};BYMONTHDAY={choose.randint(1, 28)}",
        ])  # fmt: skip
        first = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=choose.randint(-900, 300))
        theirs = rrulestr(rule, dtstart=first)
        wanted = {day.date() for day in theirs.between(*window)}
        found = days(event(f"DTSTART;VALUE=DATE:{first:%Y%m%d}", f"RRULE:{rule}"))
        # RFC 5545 counts DTSTART in any case, dateutil only where the rule matches.
        assert {date.fromisoformat(day) for day, _, _ in found} - {first.date()} == wanted - {first.date()}, rule
