"""The days of a year that a calendar names."""

from datetime import date

from itinerary.protocol.instants import DAY, parse_instant
from scheduler_service.core.calendars.model import Compiled, NamedDays, NamedSpan, Weekly
from scheduler_service.core.calendars.year import MarkedDay, days_of_year

SUNDAY, SATURDAY = 1, 1 << 6


def day_number(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def test_days_are_marked_whole_or_in_part_in_the_calendar_s_own_zone() -> None:
    move = NamedSpan(parse_instant("2026-03-01T23:00:00Z"), parse_instant("2026-03-02T23:00:00Z"), "move")
    compiled = Compiled(
        "Europe/Berlin",
        days=(NamedDays(day_number("2026-12-24"), day_number("2027-01-02"), "closed"),),
        spans=(move,),
        weekly=(Weekly(SUNDAY, 22 * 3600, 4 * 3600, "night"), Weekly(SATURDAY)),
    )
    found = {one.day.isoformat(): one for one in days_of_year(compiled, 2026)}
    assert found["2026-12-31"] == MarkedDay(date(2026, 12, 31), True, ("closed",))
    assert "2027-01-01" not in found
    assert found["2026-03-02"] == MarkedDay(date(2026, 3, 2), False, ("move", "night")), "midnight to midnight there"
    assert "2026-03-03" not in found
    assert found["2026-03-08"] == MarkedDay(date(2026, 3, 8), False, ("night",)), "a Sunday"
    assert found["2026-03-09"] == MarkedDay(date(2026, 3, 9), False, ("night",)), "until four"
    assert found["2026-03-07"] == MarkedDay(date(2026, 3, 7), True, ()), "a Saturday"
    assert days_of_year(compiled, 2027)[0] == MarkedDay(date(2027, 1, 1), True, ("closed",))


def test_a_span_from_the_first_day_to_the_last_one_there_are_is_shown_in_every_zone() -> None:
    ever = NamedSpan(day_number("0001-01-01") * DAY, (day_number("9999-12-31") + 1) * DAY, "ever")
    for timezone in ("America/New_York", "UTC", "Pacific/Kiritimati"):
        for year in (1970, 9998):
            found = days_of_year(Compiled(timezone, spans=(ever,)), year)
            assert (len(found), found[0].names) == (365, ("ever",)), (timezone, year)
    assert days_of_year(Compiled("UTC", spans=(NamedSpan(ever.start, day_number("2026-01-01") * DAY),)), 2026) == []
