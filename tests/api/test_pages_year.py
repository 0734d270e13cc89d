"""The picture of a schedule's year: a day has the colour of its runs, in the schedule's zone."""

from itertools import pairwise

import pytest

from itinerary.protocol.instants import DAY, HOUR, SECOND, parse_instant
from scheduler_service.api.pages.year import YearPicture, year_picture
from scheduler_service.core.schedules.schedule import count, occurrences, parse_schedule
from scheduler_service.core.schedules.stepping import counts_between

NOW = parse_instant("2026-11-29T12:00:00Z")


def picture(**spec: object) -> YearPicture | None:
    return year_picture(parse_schedule(spec, job_id="j", created_at=NOW).schedule, NOW)


def test_days_with_runs_are_coloured_and_told_by_date_and_number() -> None:
    year = picture(kind="cron", expr="0 9,17 24 12 *", timezone="Pacific/Auckland")
    assert year is not None
    assert [(day.text, day.level) for day in year.days if day.level] == [("Thu 24 Dec 2026: 2 runs", 3)]
    assert year.text == "2 runs on 1 day of the coming year."
    assert year.days[0].text == "Mon 30 Nov 2026: no runs"  # it is tomorrow there
    assert (year.days[0].column, year.days[0].line) == (0, 1)
    assert (year.days[-1].column, year.days[-1].line) == (25, 15)
    assert year.months[:2] == (("Dec", 0, 1), ("Jan", 4, 1))
    assert year.months[6] == ("Jun", 26, 1)
    assert year.months[7] == ("Jul", 3, 9)


def test_more_runs_are_darker_and_runs_before_now_do_not_count() -> None:
    year = picture(kind="cron", expr="0 0-11 * * SUN", timezone="UTC")
    assert year is not None
    assert year.days[0].text == "Sun 29 Nov 2026: no runs"
    assert {day.level for day in year.days if day.line in (7, 15)} == {0, 3}
    uneven = picture(kind="cron", expr="0 0-8/2 1 * *", timezone="UTC")
    assert uneven is not None
    assert {day.level for day in uneven.days} == {0, 3}
    twice = picture(kind="interval", every="16h", timezone="UTC")
    assert twice is not None
    assert {(day.text[-6:].strip(), day.level) for day in twice.days} == {("1 run", 1), ("2 runs", 5)}


@pytest.mark.parametrize("expr", ["* * * * * *", "*/5 * * * * *"])
def test_what_runs_too_often_is_not_drawn(expr: str) -> None:
    assert picture(kind="cron", expr=expr, timezone="UTC") is None


def test_an_interval_of_a_second_is_counted_by_arithmetic() -> None:
    year = picture(kind="interval", every="1s", timezone="Europe/Berlin")
    assert year is not None
    assert [day.text for day in year.days if "90000 runs" in day.text] == ["Sun 31 Oct 2027: 90000 runs"]


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "cron", "expr": "*/20 2 * * *", "timezone": "Europe/Berlin"},
        {"kind": "interval", "every": "7h"},
        {"kind": "calendar", "every": 2, "unit": "week", "weekdays": ["mon"], "at": ["09:00"]},
        {"kind": "once", "at": "2026-12-24T10:00:00Z"},
    ],
)
def test_counts_between_edges_are_those_of_the_occurrences(spec: dict[str, object]) -> None:
    schedule = parse_schedule(spec, job_id="j", created_at=NOW).schedule
    edges = [NOW, NOW + HOUR, *(NOW + n * DAY + 7 * SECOND for n in range(1, 200, 3))]
    found = counts_between(schedule, edges, 10**6)
    assert found == [len(occurrences(schedule, a, b)) for a, b in pairwise(edges)]
    assert sum(found) == count(schedule, edges[0], edges[-1])
