"""Reported failures at the days when clocks change, each replayed to its right outcome."""

from itertools import pairwise

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND
from scheduler_service.core.schedules.preview import preview
from scheduler_service.core.schedules.schedule import next_after, parse_schedule, upcoming
from tests.support.moments import at, schedule_of, texts
from tests.support.replay import cron, starts_of, world_at
from tests.support.work import calls_made


@pytest.mark.slow
def test_the_week_after_the_clocks_went_back_a_weekly_job_runs_once_at_its_wall_time() -> None:
    """B01, celery/celery#1604."""
    world = world_at("2013-10-21T11:59:00+02:00", HOUR)
    world.job("report", cron("0 12 * * 1", "Europe/Amsterdam"))
    world.advance(7 * DAY + 3 * HOUR)
    assert starts_of(world, "report") == ["2013-10-21T10:00:00Z", "2013-10-28T11:00:00Z"]


def test_on_the_spring_day_an_afternoon_job_keeps_its_wall_time() -> None:
    """B03, celery/django-celery-beat#134, celery/celery#9653."""
    world = world_at("2025-03-08T16:00:00-05:00", HOUR)
    world.job("report", cron("4 16 * * *", "America/New_York"))
    world.advance(2 * DAY + HOUR)
    assert starts_of(world, "report") == ["2025-03-08T21:04:00Z", "2025-03-09T20:04:00Z", "2025-03-10T20:04:00Z"]


def test_an_every_minute_job_runs_each_minute_of_the_repeated_hour() -> None:
    """B04, celery/celery#6438."""
    world = world_at("2020-10-25T02:58:30+02:00", MINUTE)
    world.job("often", cron("* * * * *", "Europe/Paris"))
    world.advance(62 * MINUTE)
    starts = [at(text) for text in starts_of(world, "often")]
    assert [later - earlier for earlier, later in pairwise(starts)] == [MINUTE] * 61
    repeated = at("2020-10-25T02:00:00+01:00")
    assert sum(repeated <= start < repeated + HOUR for start in starts) == 60


@pytest.mark.slow
def test_a_leader_that_starts_in_the_repeated_hour_goes_on_with_each_job_s_own_schedule() -> None:
    """B05, celery/django-celery-beat#604, celery/django-celery-beat#285."""
    world = world_at("2022-11-06T08:14:59Z")
    world.job("rhythm", {"kind": "interval", "every": "5m", "timezone": "America/Los_Angeles"})
    world.job("fixed", cron("17 1 * * *", "America/Los_Angeles"))
    world.advance(SECOND)
    assert starts_of(world, "rhythm") == ["2022-11-06T08:15:00Z"]  # 01:15, the first time
    world.lead()
    world.advance(50 * MINUTE)
    world.lead(wait=15 * MINUTE)  # 01:20, the second time
    world.advance(10 * MINUTE)
    between = [f"2022-11-06T08:{minute:02}:00Z" for minute in range(15, 60, 5)]
    assert starts_of(world, "rhythm")[:10] == [*between, "2022-11-06T09:00:00Z"]
    assert starts_of(world, "rhythm")[-2:] == ["2022-11-06T09:25:00Z", "2022-11-06T09:30:00Z"]
    assert starts_of(world, "fixed") == ["2022-11-06T08:17:00Z"]


def test_a_job_that_is_resumed_just_after_the_spring_change_runs_next_at_its_wall_time() -> None:
    """B06, celery/celery#7381."""
    world = world_at("2022-03-26T09:00:00+01:00", MINUTE)
    world.job("report", cron("30 11 * * *", "Europe/Madrid"))
    world.pause("report")
    world.lead(wait=at("2022-03-27T10:00:00+02:00") - world.now)
    world.resume("report")
    world.advance(2 * HOUR)
    assert starts_of(world, "report") == ["2022-03-27T09:30:00Z"]


def test_the_next_run_of_an_hour_list_always_lies_later_over_the_autumn_change() -> None:
    """B07, apache/airflow#35272."""
    schedule = schedule_of(cron("0,15,30,45 6-22 * * *", "Europe/Brussels"))
    now = at("2023-10-28T22:45:00+02:00")
    found = []
    for _ in range(70):
        after = next_after(schedule, now)
        assert after is not None
        assert after > now
        found.append(after)
        now = after
    assert found[0] == at("2023-10-29T06:00:00+01:00")
    assert found == upcoming(schedule, at("2023-10-28T22:45:00+02:00"), 70)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("expr", "starts"),
    [
        ("20 */4 * * *", ["2023-03-12T08:20:00Z", "2023-03-12T11:20:00Z", "2023-03-12T15:20:00Z"]),
        ("0 */2 * * *", ["2023-03-12T06:00:00Z", "2023-03-12T08:00:00Z", "2023-03-12T11:00:00Z",
                         "2023-03-12T13:00:00Z", "2023-03-12T15:00:00Z"]),
    ],
)  # fmt: skip
def test_every_fourth_hour_over_the_spring_change_is_planned_forward_and_the_loop_lives(
    expr: str, starts: list[str]
) -> None:
    """B08, apache/airflow#30088, apache/airflow#30195."""
    world = world_at("2023-03-11T20:30:00-08:00", MINUTE)
    world.job("sync", cron(expr, "America/Los_Angeles"))
    world.advance(at("2023-03-12T09:00:00-07:00") - world.now)
    assert starts_of(world, "sync") == starts


def test_an_hour_range_keeps_its_wall_hours_on_the_first_day_of_summer_time() -> None:
    """B09, apache/airflow#7999."""
    schedule = schedule_of(cron("0 7-8 * * *", "America/Los_Angeles"))
    found = upcoming(schedule, at("2020-03-07T08:00:00-08:00"), 2)
    assert found == [at("2020-03-08T07:00:00-07:00"), at("2020-03-08T08:00:00-07:00")]


def test_a_seven_day_interval_counts_elapsed_time_and_its_writer_is_offered_the_calendar() -> None:
    """B11, agronholm/apscheduler#372."""
    spec = {"kind": "interval", "every": "7d", "anchor": "2019-03-26T16:00:00+01:00", "timezone": "Europe/Brussels"}
    parsed = parse_schedule(spec, job_id="weekly", created_at=at("2019-03-26T09:00:00Z"))
    (first, second) = preview(parsed.schedule, at("2019-03-26T15:00:00Z") - 1, 2)
    assert (first.local, second.local, second.offset) == ("2019-03-26T16:00:00", "2019-04-02T17:00:00", "+02:00")
    (warning,) = parsed.warnings
    assert "elapsed time" in warning
    assert "calendar" in warning
    weekly = {"kind": "calendar", "unit": "week", "weekdays": ["tue"], "at": ["16:00"], "timezone": "Europe/Brussels"}
    (kept,) = preview(schedule_of(weekly, created_at="2019-03-26T09:00:00Z"), at("2019-03-27T00:00:00Z"), 1)
    assert kept.local == "2019-04-02T16:00:00"


def test_a_date_whose_only_hour_is_skipped_is_answered_at_once_and_one_that_never_comes_is_refused() -> None:
    """B12, kelektiv/node-cron#919, harrisiirak/cron-parser#100."""

    def ask() -> None:
        schedule = schedule_of(cron("0 1 30 3 *", "Europe/Lisbon"), created_at="2025-03-29T12:00:00Z")
        found = next_after(schedule, at("2025-03-29T12:00:00Z"))
        assert found == at("2025-03-30T02:00:00+01:00")
        with pytest.raises(BadValue):
            schedule_of(cron("0 1 31 2 *", "Europe/Lisbon"))

    assert calls_made(ask) < 50_000


def test_a_job_whose_wall_time_is_skipped_has_one_run_that_day_in_each_of_its_years() -> None:
    """B12, kelektiv/node-cron#919, harrisiirak/cron-parser#100."""
    schedule = schedule_of(cron("0 1 30 3 *", "Europe/Lisbon"))
    assert texts(upcoming(schedule, at("2024-01-01T00:00:00Z"), 3)) == [
        "2024-03-30T01:00:00Z", "2025-03-30T01:00:00Z", "2026-03-30T00:00:00Z",
    ]  # fmt: skip
