"""Calendars that count weekdays of the month, against the standard library's calendar and a minute-by-minute model."""

from calendar import monthrange
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, SECOND, format_instant
from scheduler_service.core.index.expansion import Entry, expand
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.schedule import canonical_spec, count, latest, occurrences
from scheduler_service.core.schedules.spec_reading import WEEKDAYS
from tests.support.examples import examples
from tests.support.jumps import whole_minutes, zone_and_moment
from tests.support.moments import at, schedule_of
from tests.support.oracle import Meaning, fires

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)
MONTHLY = {"kind": "calendar", "unit": "month", "at": ["09:00"]}


def days_of(spec: dict[str, Any], start: str, end: str) -> list[str]:
    return [format_instant(each)[:10] for each in occurrences(schedule_of({**MONTHLY, **spec}), at(start), at(end))]


def named(day: date) -> str:
    return WEEKDAYS[(day.weekday() + 1) % 7]


def is_meant(spec: dict[str, Any], day: date) -> bool:
    """Whether a day is one of the spec's, counted on the fingers."""
    start = date.fromisoformat(spec["start"])
    months = 12 * (day.year - start.year) + day.month - start.month
    if day < start or months % spec["every"]:
        return False
    month = [date(day.year, day.month, n + 1) for n in range(monthrange(day.year, day.month)[1])]
    if spec["weekdays"] == ["workday"]:
        alike = [each for each in month if each.weekday() < 5]
    else:
        alike = [each for each in month if named(each) == named(day)] if named(day) in spec["weekdays"] else []
    chosen = [alike[n - 1 if n > 0 else n] for n in spec["nth"] if abs(n) <= len(alike)]
    return day in chosen


def test_the_second_friday_of_every_second_month() -> None:
    found = days_of({"every": 2, "weekdays": ["fri"], "nth": [2], "start": "2026-12-01"}, "2026-11-29T00:00:00Z",
                    "2027-07-01T00:00:00Z")  # fmt: skip
    assert found == ["2026-12-11", "2027-02-12", "2027-04-09", "2027-06-11"]


def test_the_last_monday_and_the_last_working_day() -> None:
    window = ("2026-11-29T00:00:00Z", "2027-02-01T00:00:00Z")
    assert days_of({"weekdays": ["mon"], "nth": [-1]}, *window) == ["2026-11-30", "2026-12-28", "2027-01-25"]
    workdays = days_of({"weekdays": ["workday"], "nth": [1, -1]}, *window)
    assert workdays == ["2026-11-30", "2026-12-01", "2026-12-31", "2027-01-01", "2027-01-29"]


def test_a_month_without_a_fifth_one_is_skipped() -> None:
    found = days_of({"weekdays": ["fri"], "nth": [5]}, "2026-11-01T00:00:00Z", "2027-06-01T00:00:00Z")
    assert found == ["2027-01-29", "2027-04-30"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"weekdays": ["fri"]}, "weekdays"),
        ({"weekdays": 1}, "weekdays"),
        ({"weekdays": 1, "nth": [1]}, "weekdays"),
        ({"weekdays": ["fri"], "nth": 1}, "nth"),
        ({"nth": [2]}, "weekdays"),
        ({"weekdays": ["fri"], "nth": [6]}, "nth"),
        ({"weekdays": ["fri"], "nth": [0]}, "nth"),
        ({"weekdays": ["workday"], "nth": [24]}, "nth"),
        ({"weekdays": ["workday", "sat"], "nth": [1]}, "weekdays"),
        ({"weekdays": ["fri"], "nth": [2], "days": [1]}, "days"),
        ({"weekdays": ["fri"], "nth": [2], "unit": "week"}, "nth"),
        ({"weekdays": ["workday"], "unit": "week"}, "weekdays"),
        ({"weekdays": ["workday"], "nth": [23], "every": 12, "start": "2026-02-01"}, "nth"),
    ],
)
def test_what_counts_no_weekdays_is_refused_by_name(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(BadValue) as refused:
        schedule_of({**MONTHLY, **spec})
    assert refused.value.field == f"schedule.{field}"


def test_a_calendar_without_it_is_stored_without_it() -> None:
    assert "nth" not in canonical_spec({**MONTHLY, "days": [1]})
    spec = canonical_spec({**MONTHLY, "weekdays": ["fri", "MON"], "nth": [-1, 2]})
    assert (spec["weekdays"], spec["nth"], spec["days"]) == (["mon", "fri"], [2, -1], [])
    assert canonical_spec(spec) == spec


def test_its_sentence_counts_as_people_do() -> None:
    second = {**MONTHLY, "every": 2, "weekdays": ["fri"], "nth": [2], "start": "2026-12-01"}
    assert describe(schedule_of(second)) == "Every 2 months on the 2nd Friday at 09:00, counted from 2026-12-01 (UTC)"
    days = {**MONTHLY, "weekdays": ["workday"], "nth": [1, 11, -1, -2]}
    assert describe(schedule_of(days)) == (
        "Every month on the 1st working day (Monday to Friday), the 11th working day (Monday to Friday), the 2nd to "
        "last working day (Monday to Friday) and the last working day (Monday to Friday) at 09:00 (UTC)"
    )


def spec_of(dice: Random, start: date) -> dict[str, Any]:
    """A random calendar of months that counts weekdays."""
    weekdays = dice.choice((["workday"], [dice.choice(WEEKDAYS)], ["mon", "wed", "fri"]))
    most = 23 if weekdays == ["workday"] else 5
    nth = [dice.randint(1, most) * dice.choice((1, -1)) for _ in range(dice.randint(1, 5))]
    every = dice.choice((1, 1, 2, 3, 7, 12))
    times = [f"{dice.randrange(24):02d}:{dice.choice((0, 30)):02d}" for _ in range(3)]
    return {"every": every, "weekdays": weekdays, "nth": nth, "start": start.isoformat(), "at": times}


def hold_days_against_the_calendar(seed: int) -> None:
    dice = Random(seed)
    start = date(dice.randrange(1971, 2100), dice.randint(1, 12), dice.randint(1, 28))
    spec = spec_of(dice, start) | {"at": ["00:00"]}
    first = dice.randrange(400)
    begin = (start.toordinal() - 719_163 + first) * DAY
    expected = [
        each.isoformat() for each in (date.fromordinal(start.toordinal() + first + n) for n in range(400))
        if is_meant(spec, each)
    ]  # fmt: skip
    try:
        schedule = schedule_of({**MONTHLY, **spec})
    except BadValue as refused:  # such as the 23rd working day of February, each year
        assert (refused.field, expected) == ("schedule.nth", [])  # noqa: PT017
        return
    found = occurrences(schedule, begin, begin + 400 * DAY)
    assert [format_instant(each)[:10] for each in found] == expected


@settings(RELAXED, max_examples=12)
@given(st.integers(0, 2**60))
def test_the_days_are_those_of_the_calendar(seed: int) -> None:
    hold_days_against_the_calendar(seed)


def hold_against_the_model(seed: int) -> None:
    """Every engine fires when the minute-by-minute model does, most often around a jump of the clocks."""
    dice = Random(seed)
    zone, second = zone_and_moment(dice)
    assume(whole_minutes(zone, second))
    spec = spec_of(dice, datetime.fromtimestamp(second - 86_400 * dice.randrange(3, 90), UTC).date()) | {"every": 1}
    spec["weekdays"], spec["nth"] = dice.choice(((["workday"], [*range(1, 24)]), (list(WEEKDAYS), [1, 2, -1])))
    schedule = schedule_of({**MONTHLY, **spec, "timezone": zone})
    start = second * SECOND
    end = start + dice.choice((3600, 6 * 3600)) * SECOND
    expected: set[int] = set()
    for time in spec["at"]:
        hour, minute = (frozenset([int(part)]) for part in time.split(":"))
        meaning = Meaning(minute, hour, frozenset([0]), lambda day: is_meant(spec, day), wildcard=False)
        expected |= {each * SECOND for each in fires(meaning, zone, second, end // SECOND)}
    assert occurrences(schedule, start, end) == sorted(expected)
    assert expand([Entry(7, "job", schedule, start, end)], start, end).times.tolist() == sorted(expected)
    assert count(schedule, start, end) == len(expected)
    assert latest(schedule, start, end) == max(expected, default=None)


@settings(RELAXED, max_examples=8)
@given(st.integers(0, 2**60))
def test_every_engine_fires_when_the_plain_model_does(seed: int) -> None:
    hold_against_the_model(seed)


@pytest.mark.slow
@settings(RELAXED, max_examples=examples(40))
@given(st.integers(0, 2**60))
def test_days_and_times_forty_times(seed: int) -> None:
    hold_days_against_the_calendar(seed)
    hold_against_the_model(seed)
