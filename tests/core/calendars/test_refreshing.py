"""Whether a calendar that was written out anew is another one."""

from dataclasses import replace

from itinerary.protocol.instants import DAY, HOUR
from scheduler_service.core.calendars.ics import IcsEvents
from scheduler_service.core.calendars.model import Compiled, NamedDays, NamedSpan, Weekly
from scheduler_service.core.calendars.refreshing import differs, today_in, too_few

TODAY = 20_786
CLOSED = Compiled(
    "Europe/Berlin",
    (NamedDays(TODAY - 9, TODAY - 5, "Past"), NamedDays(TODAY - 1, TODAY + 1, "Now"), NamedDays(21_000, 21_000)),
    (NamedSpan((TODAY - 1) * DAY, TODAY * DAY - 2 * HOUR), NamedSpan(21_000 * DAY, 21_000 * DAY + HOUR)),
    (Weekly(1, 0, 0, "Sunday"),),
    21_500,
)


def test_today_is_a_day_of_the_calendar_s_zone() -> None:
    assert today_in("UTC", TODAY * DAY - 1) == TODAY - 1
    assert today_in("Europe/Berlin", TODAY * DAY - HOUR) == TODAY


def test_what_is_over_and_what_it_is_called_make_no_other_calendar() -> None:
    later = replace(CLOSED, days=CLOSED.days[1:], spans=CLOSED.spans[1:], weekly=(Weekly(1, 0, 0, "Sun"),))
    assert not differs(CLOSED, later, TODAY)
    began_later = replace(later, days=(NamedDays(TODAY, TODAY + 1), NamedDays(21_000, 21_000, "New name")))
    assert not differs(CLOSED, began_later, TODAY)


def test_each_part_to_come_counts() -> None:
    for after in (
        replace(CLOSED, timezone="Europe/Paris"),
        replace(CLOSED, days=CLOSED.days[:2]),
        replace(CLOSED, spans=CLOSED.spans[:1]),
        replace(CLOSED, weekly=()),
        replace(CLOSED, known_until=21_600),
        replace(CLOSED, days=(*CLOSED.days, NamedDays(TODAY, TODAY))),
    ):
        assert differs(CLOSED, after, TODAY)


def test_less_than_half_of_what_is_to_come_is_too_few() -> None:
    def events(*days: int) -> IcsEvents:
        return IcsEvents(tuple(NamedDays(day, day) for day in days), ())

    past = range(TODAY - 100, TODAY)
    had = events(*past, TODAY, TODAY + 1, TODAY + 2, TODAY + 3)
    assert too_few(had, events(TODAY, TODAY + 1), "UTC", TODAY) is None
    assert too_few(had, events(*past, TODAY), "UTC", TODAY) == (1, 4)
    assert too_few(had, events(), "UTC", TODAY) == (0, 4)
    assert too_few(events(TODAY - 1), events(), "UTC", TODAY) is None
    assert too_few(IcsEvents((), CLOSED.spans), events(), "Europe/Berlin", TODAY) == (0, 1)
