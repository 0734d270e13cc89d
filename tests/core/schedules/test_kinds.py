"""Each kind of schedule, by the examples of the documents that this product grew from, and at its edges."""

from typing import Any

import pytest

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND
from scheduler_service.core.schedules.schedule import IntervalSchedule, count, latest, next_after, occurrences, upcoming
from tests.support.moments import at, clocks, cron, schedule_of, texts
from tests.support.work import calls_made

MIDNIGHT = at("2026-11-27T00:00:00Z")


def _first(spec: dict[str, Any], number: int) -> list[str]:
    return clocks(upcoming(schedule_of(spec), MIDNIGHT, number))


def test_an_hourly_job_at_17_runs_at_that_minute_of_each_hour() -> None:
    assert _first({"kind": "hourly", "minute": 17}, 3) == ["00:17", "01:17", "02:17"]


def test_every_4th_minute() -> None:
    assert _first({"kind": "interval", "every": "4m"}, 4) == ["00:04", "00:08", "00:12", "00:16"]


def test_every_6th_minute_with_an_offset_of_1() -> None:
    assert _first({"kind": "interval", "every": "6m", "offset": "1m"}, 3) == ["00:07", "00:13", "00:19"]


def test_every_25th_minute_with_an_offset_of_2() -> None:
    found = _first({"kind": "interval", "every": "25m", "offset": "2m"}, 4)
    assert found == ["00:27", "00:52", "01:17", "01:42"]


def test_every_100th_minute_keeps_its_rhythm_over_the_hours() -> None:
    assert _first({"kind": "interval", "every": "100m"}, 3) == ["01:40", "03:20", "05:00"]


def test_an_interval_may_be_of_seconds_and_of_days() -> None:
    seconds = schedule_of({"kind": "interval", "every": "7s"})
    assert count(seconds, MIDNIGHT, MIDNIGHT + MINUTE) == 8
    days = schedule_of({"kind": "interval", "every": "3d"})
    assert texts(upcoming(days, MIDNIGHT, 2)) == ["2026-11-30T00:00:00Z", "2026-12-03T00:00:00Z"]


def test_an_interval_without_an_anchor_counts_from_midnight_of_the_jobs_own_zone() -> None:
    spec = {"kind": "interval", "every": "5h", "timezone": "Asia/Kathmandu"}
    # Midnight in Kathmandu is 18:15 UTC of the day before.
    assert clocks(upcoming(schedule_of(spec), at("2026-11-26T18:15:00Z"), 2)) == ["23:15", "04:15"]


def test_midnight_that_the_clocks_skip_is_the_first_moment_after_it() -> None:
    spec = {"kind": "interval", "every": "1h", "timezone": "America/Sao_Paulo"}
    schedule = schedule_of(spec, created_at="2018-11-04T15:00:00Z")
    assert isinstance(schedule, IntervalSchedule)
    assert texts([schedule.first - HOUR]) == ["2018-11-04T03:00:00Z"]


def test_an_anchor_given_by_the_user_is_itself_an_occurrence() -> None:
    schedule = schedule_of({"kind": "interval", "every": "1h", "anchor": "2026-11-27T05:30:00Z"})
    assert clocks(upcoming(schedule, MIDNIGHT, 2)) == ["05:30", "06:30"]


def test_a_placed_interval_keeps_its_rhythm_through_the_chosen_instant() -> None:
    schedule = schedule_of({"kind": "interval", "every": "1h", "balanced": True})
    assert isinstance(schedule, IntervalSchedule)
    placed = schedule.placed(at("2026-11-27T00:07:30Z"))
    assert texts(upcoming(placed, MIDNIGHT, 2)) == ["2026-11-27T00:07:30Z", "2026-11-27T01:07:30Z"]


def test_a_one_off_fires_once_at_its_very_microsecond() -> None:
    schedule = schedule_of({"kind": "once", "at": "2026-11-27T10:00:00.999+01:00"})
    moment = at("2026-11-27T09:00:00.999Z")
    assert upcoming(schedule, MIDNIGHT, 5) == [moment]
    assert next_after(schedule, moment) is None
    assert occurrences(schedule, moment, moment + 1) == [moment]
    assert latest(schedule, MIDNIGHT, moment) is None


def test_a_calendar_of_months_skips_those_without_the_day() -> None:
    schedule = schedule_of({"kind": "calendar", "unit": "month", "days": [31], "at": ["05:30"]})
    found = [text[:10] for text in texts(upcoming(schedule, at("2027-01-01T00:00:00Z"), 3))]
    assert found == ["2027-01-31", "2027-03-31", "2027-05-31"]


def test_a_calendar_of_fortnights_counts_weeks_from_its_start() -> None:
    spec = {"kind": "calendar", "every": 2, "unit": "week", "weekdays": ["mon", "sun"], "start": "2026-11-25"}
    found = [text[:10] for text in texts(upcoming(schedule_of(spec), MIDNIGHT, 4))]
    assert found == ["2026-11-29", "2026-12-07", "2026-12-13", "2026-12-21"]


def test_a_calendar_with_several_times_on_seconds_fires_at_each() -> None:
    schedule = schedule_of({"kind": "calendar", "at": ["12:00:05", "00:30", "12:00"]})
    assert texts(upcoming(schedule, MIDNIGHT, 3)) == [
        "2026-11-27T00:30:00Z",
        "2026-11-27T12:00:00Z",
        "2026-11-27T12:00:05Z",
    ]


def test_a_calendar_is_met_by_the_clocks_as_a_fixed_cron_line_is() -> None:
    schedule = schedule_of({"kind": "calendar", "at": ["02:15", "02:45"], "timezone": "Europe/Berlin"})
    assert texts(occurrences(schedule, at("2027-03-28T00:00:00Z"), at("2027-03-28T23:00:00Z"))) == [
        "2027-03-28T01:00:00Z"
    ]


def test_start_at_is_included_and_end_at_is_not() -> None:
    schedule = cron("0 * * * *")
    start, end = MIDNIGHT + 2 * HOUR, MIDNIGHT + 4 * HOUR
    assert next_after(schedule, MIDNIGHT, start_at=start) == start
    assert upcoming(schedule, MIDNIGHT, 9, start_at=start, end_at=end) == [start, start + HOUR]
    assert next_after(schedule, end - HOUR, end_at=end) is None


def test_the_next_run_is_strictly_after_the_instant_asked_about() -> None:
    schedule = cron("0 * * * *")
    assert next_after(schedule, MIDNIGHT) == MIDNIGHT + HOUR
    assert next_after(schedule, MIDNIGHT - 1) == MIDNIGHT


def test_the_rarest_dates_are_found_and_those_of_the_past_are_not() -> None:
    assert texts(upcoming(cron("0 0 29 2 1", day_match="and"), at("2044-03-01T00:00:00Z"), 2)) == [
        "2072-02-29T00:00:00Z",
        "2112-02-29T00:00:00Z",
    ]
    assert next_after(cron("0 0 1 1 * 0 2020"), MIDNIGHT) is None


@pytest.mark.parametrize(
    ("expr", "found"), [("* * 29 2 * *", "2104-02-29T00:00:00Z"), ("* * 29 2 * 7,9", "2104-02-29T00:00:07Z")]
)
def test_a_rare_day_of_many_times_is_found_in_few_chunks(expr: str, found: str) -> None:
    schedule, before = cron(expr), at("2096-03-01T00:00:00Z")
    next_after(schedule, before)  # which builds the tables that stay
    assert calls_made(lambda: next_after(schedule, before)) < 2_000
    assert texts(upcoming(schedule, before, 1)) == [found]
    of_the_day = occurrences(schedule, at("2104-02-28T00:00:00Z"), at("2104-03-01T00:00:00Z"))
    assert upcoming(schedule, before, len(of_the_day)) == of_the_day


@pytest.mark.slow
def test_runs_of_a_day_are_counted_without_being_walked_one_by_one() -> None:
    every_second = cron("* * * * * *")
    assert count(every_second, MIDNIGHT, MIDNIGHT + 30 * DAY) == 30 * 86_400
    assert latest(every_second, MIDNIGHT, MIDNIGHT + 30 * DAY) == MIDNIGHT + 30 * DAY - SECOND
    assert latest(cron("0 0 29 2 *"), MIDNIGHT, MIDNIGHT + 365 * DAY) is None


def test_the_ends_of_time_are_empty_and_no_error() -> None:
    yearly = cron("0 0 1 1 *", "America/New_York")
    assert texts(upcoming(yearly, at("0001-01-01T00:00:00Z"), 1)) == ["0002-01-01T04:56:02Z"]
    assert upcoming(yearly, at("9998-12-31T23:59:59Z"), 5) == []
    hourly = schedule_of({"kind": "interval", "every": "1h"})
    assert len(upcoming(hourly, at("9998-12-31T22:30:00Z"), 5)) == 1


def test_equal_schedules_are_one_object_so_that_a_million_jobs_stay_small() -> None:
    first, second = cron("*/5 * * * *", "Europe/Berlin"), cron("*/5 * * * *", "Europe/Berlin")
    assert first is second
    assert hash(first) == hash(second)


def test_a_one_off_is_still_to_come_the_microsecond_before_it() -> None:
    schedule = schedule_of({"kind": "once", "at": "2026-11-27T09:00:00Z"})
    moment = at("2026-11-27T09:00:00Z")
    assert upcoming(schedule, moment - 1, 2) == [moment]
    assert latest(schedule, moment, moment + 1) == moment


def test_an_interval_has_no_occurrence_before_its_first() -> None:
    schedule = schedule_of({"kind": "interval", "every": "1h", "anchor": "2026-11-27T05:30:00Z"})
    assert isinstance(schedule, IntervalSchedule)
    first, long_before = schedule.first, schedule.first - 5 * HOUR
    assert latest(schedule, long_before, first) is None
    assert occurrences(schedule, long_before, first) == []
    assert next_after(schedule, long_before) == first
    assert latest(schedule, long_before, first + 1) == first
    assert count(schedule, first, first + HOUR) == 1
    assert next_after(schedule, first - 1) == first


def test_a_calendar_has_no_occurrence_before_its_start_however_one_asks() -> None:
    schedule = schedule_of({"kind": "calendar", "at": ["08:00", "20:00"], "start": "2026-11-25T12:00"})
    before, after = at("2026-11-20T00:00:00Z"), at("2026-11-26T12:00:00Z")
    expected = ["2026-11-25T20:00:00Z", "2026-11-26T08:00:00Z"]
    assert texts(upcoming(schedule, before, 2)) == expected
    assert texts(occurrences(schedule, before, after)) == expected
    assert count(schedule, before, after) == 2
    assert latest(schedule, before, at(expected[0])) is None


def test_what_the_clocks_skip_and_what_stands_where_they_go_on_are_one_run() -> None:
    schedule = schedule_of({"kind": "calendar", "at": ["02:30", "03:00", "03:30"], "timezone": "Europe/Berlin"})
    assert texts(occurrences(schedule, at("2027-03-28T00:00:00Z"), at("2027-03-28T23:00:00Z"))) == [
        "2027-03-28T01:00:00Z",
        "2027-03-28T01:30:00Z",
    ]
