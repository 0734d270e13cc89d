"""Business days by a calendar of free days, against a plain model."""

from datetime import date, timedelta
from random import Random
from typing import Any

import pytest

from itinerary.protocol.instants import DAY
from scheduler_service.core.calendars.closing import closed, closing_of
from scheduler_service.core.calendars.model import Compiled, JobCalendars, NamedDays, Weekly
from scheduler_service.core.schedules.schedule import occurrences
from tests.support.calendar_model import nearest, nth, number, of_month
from tests.support.moments import at, cron, schedule_of, texts

START = date(2026, 1, 1)


def counted(own: Any, free: Compiled, first: date, last: date) -> list[str]:
    schedule = closed(own, closing_of(JobCalendars(workdays="f"), {"f": free}))
    found = occurrences(schedule, number(first) * DAY, number(last) * DAY)
    return [text[:10] for text in texts(found)]


@pytest.mark.parametrize("seed", range(12))
def test_they_are_those_of_the_plain_model(seed: int) -> None:
    dice = Random(seed)
    share = dice.choice((0.02, 0.1, 0.5, 0.97))
    days = tuple(NamedDays(n, n) for n in range(number(START) - 5, number(START) + 750) if dice.random() < share)
    weekly = dice.choice(((), (), (Weekly(0b1100000),), (Weekly(0b1000001, 0, 3600),)))
    free = Compiled("UTC", days, (), weekly)
    target, before_end, numbers = dice.randint(1, 31), dice.randint(1, 30), dice.sample([1, 2, 3, 20, -1, -2, -15], 3)
    months = [of_month(2026 + n // 12, n % 12 + 1) for n in range(24)]
    last = months[-1][-1] + timedelta(days=1)
    for own, expected in (
        (cron(f"0 0 {target}W * *"), [d for m in months for d in nearest(free, m, min(target, len(m)))]),
        (cron("0 0 LW * *"), [d for m in months for d in nearest(free, m, len(m))]),
        (cron(f"0 0 L-{before_end}W * *"), [d for m in months for d in nearest(free, m, len(m) - before_end)]),
        (
            schedule_of(
                {"kind": "calendar", "unit": "month", "weekdays": ["workday"], "nth": numbers, "start": "2026-01-01"}
            ),
            [d for m in months for d in nth(free, m, numbers)],
        ),
    ):
        assert counted(own, free, START, last) == [day.isoformat() for day in expected]


def test_without_whole_weekdays_of_its_own_the_weekend_is_free() -> None:
    christmas = Compiled("UTC", (NamedDays(number(date(2026, 12, 25)), number(date(2026, 12, 25))),))
    line = cron("0 0 25W 12 *")
    assert counted(line, christmas, START, date(2027, 1, 1)) == ["2026-12-24"]
    friday_off = Compiled("UTC", christmas.days, (), (Weekly(0b0100000),))
    assert counted(cron("0 0 26W 12 *"), friday_off, START, date(2027, 1, 1)) == ["2026-12-26"], "a Saturday"


def test_a_business_day_moves_off_closed_days_too() -> None:
    free = Compiled("UTC", (NamedDays(number(date(2026, 12, 31)), number(date(2026, 12, 31))),))
    calendars = JobCalendars(("f",), (), "next_day", "f")
    schedule = closed(cron("0 0 LW 12 *"), closing_of(calendars, {"f": free}))
    assert texts(occurrences(schedule, at("2026-12-01T00:00:00Z"), at("2027-02-01T00:00:00Z")))[0][:10] == "2026-12-30"
