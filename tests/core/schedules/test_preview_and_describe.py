"""What a person is shown of a schedule: the next occurrences, the sentence, the counts to come."""

from typing import Any

import pytest

from itinerary.protocol.instants import DAY, HOUR, MINUTE
from scheduler_service.core.index.expansion import Entry, expand
from scheduler_service.core.index.forecast import forecast
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.jitter import jitter_of
from scheduler_service.core.schedules.preview import preview
from tests.support.moments import at, cron, schedule_of


def test_an_occurrence_is_shown_in_utc_and_as_the_zones_clocks_read() -> None:
    (found,) = preview(cron("30 9 * * *", "Asia/Kathmandu"), at("2026-11-27T00:00:00Z"), 1)
    assert found.at == at("2026-11-27T03:45:00Z")
    assert (found.local, found.offset, found.dst) == ("2026-11-27T09:30:00", "+05:45", None)


def test_a_run_moved_out_of_a_gap_says_where_to() -> None:
    schedule = cron("30 2 * * *", "Europe/Berlin")
    notes = [found.dst for found in preview(schedule, at("2027-03-27T00:00:00Z"), 3)]
    assert notes == [None, "gap: moved to 03:00", None]
    (shifted,) = preview(cron("30 2 * * *", "Europe/Berlin", dst_gap="shift"), at("2027-03-27T12:00:00Z"), 1)
    assert shifted.dst == "gap: moved to 03:30"


def test_a_run_that_is_due_at_the_end_of_the_gap_anyway_was_not_moved() -> None:
    (found,) = preview(cron("0 2,3 * * *", "Europe/Berlin"), at("2027-03-28T00:30:00Z"), 1)
    assert (found.at, found.dst) == (at("2027-03-28T01:00:00Z"), None)


def test_a_run_in_a_repeated_hour_says_which_pass() -> None:
    notes = [o.dst for o in preview(cron("30 * * * *", "Europe/Berlin"), at("2026-10-24T23:00:00Z"), 4)]
    assert notes == [None, "fold: first pass", "fold: second pass", None]
    (once,) = preview(cron("30 2 * * *", "Europe/Berlin"), at("2026-10-24T12:00:00Z"), 1)
    assert (once.offset, once.dst) == ("+02:00", "fold: first pass")


def test_there_are_fewer_where_the_schedule_ends() -> None:
    schedule, start = cron("0 * * * *"), at("2026-11-27T10:00:00Z")
    assert len(preview(schedule, start, 10, end_at=start + 3 * HOUR)) == 2
    assert preview(schedule_of({"kind": "once", "at": "2026-11-27T10:00:00Z"}), start, 10) == []


def test_a_thousand_occurrences_of_each_second_are_one_walk() -> None:
    found = preview(cron("* * * * * *"), at("2026-11-27T10:00:00Z"), 1000)
    assert found[-1].at - found[0].at == 999_000_000


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"kind": "cron", "expr": "*/5 * * * *"}, "Every 5 minutes (UTC)"),
        ({"kind": "cron", "expr": "30 2 * * 1-5", "timezone": "Europe/Berlin"},
         "At 02:30, Monday through Friday (Europe/Berlin)"),
        ({"kind": "cron", "expr": "@daily"}, "At 00:00 (UTC)"),
        ({"kind": "cron", "expr": "0 0 LW * *"}, "At 00:00, on the last weekday of the month (UTC)"),
        ({"kind": "cron", "expr": "0 18 * * L5"}, "At 18:00, on the last Friday of the month (UTC)"),
        ({"kind": "cron", "expr": "0 0 13 * 5"}, "At 00:00, on day 13 of the month or on Friday (UTC)"),
        ({"kind": "cron", "expr": "0 0 13 * 5", "day_match": "and"},
         "At 00:00, on day 13 of the month that is also Friday (UTC)"),
        ({"kind": "cron", "expr": "0 0 8 * 5#3"},
         "At 00:00, on day 8 of the month or on the third Friday of the month (UTC)"),
        ({"kind": "cron", "expr": "*/61 * * * *"}, "At minute 0 of every hour, every day (UTC)"),
        ({"kind": "cron", "expr": "*/25 9-17 * * *"}, "At minute 0, 25 and 50 of hour 9 to 17, every day (UTC)"),
        ({"kind": "cron", "expr": "0 12 * * * 15"}, "At 12:00:15 (UTC)"),
        ({"kind": "cron", "expr": "8 1,4 * * *"}, "At 01:08 and 04:08 (UTC)"),
        ({"kind": "cron", "expr": "8 1,4 * * * 15"}, "At 01:08:15 and 04:08:15, every day (UTC)"),
        ({"kind": "cron", "expr": "0 0 1 1 * 0 2027-2030"},
         "At 00:00, on day 1 of the month, in January, in 2027 to 2030 (UTC)"),
        ({"kind": "hourly", "minute": 17}, "At 17 minutes past every hour (UTC)"),
        ({"kind": "interval", "every": "25m", "offset": "2m"}, "Every 25 minutes, counted from 2026-11-27T00:27:00Z"),
        ({"kind": "interval", "every": "1d", "anchor": "2026-11-27T05:00:00Z"},
         "Every day, counted from 2026-11-27T05:00:00Z"),
        ({"kind": "interval", "every": "90m"}, "Every 1 hour 30 minutes, counted from 2026-11-27T01:30:00Z"),
        ({"kind": "calendar", "unit": "month", "days": [1, -1], "at": ["05:30"]},
         "Every month on day 1 and the last day at 05:30 (UTC)"),
        ({"kind": "calendar", "every": 2, "unit": "week", "weekdays": ["thu", "mon"]},
         "Every 2 weeks on Monday and Thursday at 00:00, counted from 2026-11-27 (UTC)"),
        ({"kind": "once", "at": "2026-12-01T10:00:00Z"}, "Once, at 2026-12-01T10:00:00Z"),
    ],
)  # fmt: skip
def test_a_schedule_is_said_in_plain_words(spec: dict[str, Any], words: str) -> None:
    assert describe(schedule_of(spec)) == words


def test_a_hashed_line_is_said_by_what_it_stands_for() -> None:
    assert describe(schedule_of({"kind": "cron", "expr": "H 3 * * *"})).startswith("At 03:")


def test_a_forecast_counts_the_runs_of_each_minute_and_slot_to_come() -> None:
    start = at("2026-11-27T10:05:00Z")
    entries = [
        Entry(0, "often", cron("*/5 * * * *"), 0, start + DAY),
        Entry(1, "hourly", cron("30 * * * *"), 0, start + DAY),
    ]
    found = forecast(entries, start, start + HOUR)
    assert found.slots.start == at("2026-11-27T10:00:00Z")
    assert found.slots.counts == (2, 3, 4, 3, 1)
    assert (found.minutes.start, found.minutes.width, len(found.minutes.counts)) == (start, MINUTE, 60)
    assert found.minutes.counts[25] == 2
    assert sum(found.minutes.counts) == expand(entries, start, start + HOUR).times.size


def test_jitter_is_stable_for_an_occurrence_and_spread_over_many() -> None:
    scheduled_at = at("2026-11-27T10:00:00Z")
    assert jitter_of("job", scheduled_at, MINUTE) == jitter_of("job", scheduled_at, MINUTE)
    delays = [jitter_of(f"job{n}", scheduled_at, MINUTE) for n in range(2_000)]
    assert all(0 <= delay < MINUTE for delay in delays)
    assert abs(sum(delays) / len(delays) - MINUTE / 2) < MINUTE / 20
    assert jitter_of("job", scheduled_at, 0) == 0
