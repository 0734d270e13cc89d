"""Rules written out in a process of their own: what comes back, and files that would never end."""

import pytest

from itinerary.protocol.errors import BadValue
from scheduler_service.core.calendars.holiday_rules import holiday_years, holidays_of
from scheduler_service.core.calendars.ics import IcsEvents, ics_window, read_ics
from scheduler_service.feeds import written_out
from scheduler_service.feeds.written_out import holidays_written_out, ics_written_out

TODAY = 20_786
"""29 November 2026."""


def ics(*lines: str, events: int = 1) -> bytes:
    each = "".join(f"BEGIN:VEVENT\nUID:{n}\n" + "\n".join(lines) + "\nEND:VEVENT\n" for n in range(events))
    return f"BEGIN:VCALENDAR\n{each}END:VCALENDAR\n".encode()


@pytest.mark.slow
def test_what_is_written_out_is_what_the_rules_say() -> None:
    start, end = ics_window(TODAY)
    file = ics("SUMMARY:Straße", "DTSTART;TZID=Europe/Berlin:20261224T120000", "DURATION:PT6H", "RRULE:FREQ=YEARLY")
    expected = read_ics(file, zone="UTC", start=start, end=end)
    assert len(expected.spans) == 3
    assert ics_written_out(file, "UTC", TODAY) == expected
    berlin, wrong, again = holidays_written_out([("DE", "BE"), ("DE", "BX"), ("DE", "BE")], TODAY)
    assert isinstance(berlin, IcsEvents)
    assert list(berlin.days) == holidays_of("DE", "BE", holiday_years(TODAY))
    assert again is berlin
    assert isinstance(wrong, BadValue)
    assert str(wrong).startswith("subdivision: 'BX' is not accepted; nearest of DE")
    with pytest.raises(BadValue, match=r"^ics: has no events"):
        ics_written_out(b"BEGIN:VCALENDAR\nEND:VCALENDAR\n", "UTC", TODAY)


BOMBS = {
    "each second of the day": ics("DTSTART:20200101T000000Z", "DURATION:PT1S", "RRULE:FREQ=DAILY;" + ";".join(
        f"BY{part}={','.join(map(str, range(most)))}" for part, most in (("HOUR", 24), ("MINUTE", 60), ("SECOND", 60))
    )),
    "never": ics("DTSTART:20260101T000000Z", "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", events=100),
    "nested": b"BEGIN:VCALENDAR\n" + b"BEGIN:VEVENT\n" * 9_999 + b"END:VEVENT\n" * 9_999 + b"END:VCALENDAR\n",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_file_that_would_never_end_is_given_up_within_seconds(bomb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_out, "CPU_SECONDS", 1)
    with pytest.raises(BadValue, match=r"^ics: (takes too long to read|cannot be read)"):
        ics_written_out(BOMBS[bomb], "UTC", TODAY)
