"""Many jobs in one window: order, bounds, versions, failures, and agreement with one job at a time."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Instant
from scheduler_service.core.index.expansion import Entry, ScheduleTable, expand, expand_table
from scheduler_service.core.schedules.schedule import IntervalSchedule, Schedule, occurrences, parse_schedule
from scheduler_service.core.schedules.zones import changes_between
from tests.support.cron_lines import random_line
from tests.support.examples import examples
from tests.support.moments import at, clocks, cron, schedule_of
from tests.support.tz_files import zone_names

START = at("2026-11-27T10:00:00Z")
ZONES = zone_names()


def _entries(*schedules: Schedule, start: Instant = START - DAY, end: Instant = START + 30 * DAY) -> list[Entry]:
    return [Entry(n, f"job{n}", schedule, start, end) for n, schedule in enumerate(schedules)]


def test_runs_come_out_by_time_and_at_one_time_by_job_id() -> None:
    every_10 = cron("*/10 * * * *")
    entries = [Entry(0, "b", every_10, 0, START + DAY), Entry(1, "a", every_10, 0, START + DAY)]
    found = expand(entries, START, START + 20 * MINUTE)
    assert clocks(found.times.tolist()) == ["10:00", "10:00", "10:10", "10:10"]
    assert found.ordinals.tolist() == [1, 0, 1, 0]


def test_a_window_includes_its_start_and_excludes_its_end() -> None:
    found = expand(_entries(cron("* * * * *")), START, START + MINUTE)
    assert found.times.tolist() == [START]
    assert expand(_entries(cron("* * * * *")), START + 1, START + MINUTE).times.size == 0


def test_every_kind_is_merged_into_one_order() -> None:
    entries = _entries(
        cron("*/2 * * * *"),
        cron("* * * * * 30"),
        schedule_of({"kind": "interval", "every": "45s", "anchor": "2026-11-27T10:00:00Z"}),
        schedule_of({"kind": "once", "at": "2026-11-27T10:01:00.5Z"}),
        schedule_of({"kind": "calendar", "at": ["10:01", "11:17"]}),
        schedule_of({"kind": "hourly", "minute": 1}),
    )
    found = expand(entries, START, START + 2 * MINUTE)
    seconds = [(time - START) / SECOND for time in found.times.tolist()]
    assert list(zip(seconds, found.ordinals.tolist(), strict=True)) == [
        (0, 0), (0, 2), (30, 1), (45, 2), (60, 4), (60, 5), (60.5, 3), (90, 1), (90, 2),
    ]  # fmt: skip


def test_a_version_holds_from_its_start_until_the_next_one() -> None:
    change = START + 5 * MINUTE
    entries = [
        Entry(0, "job", cron("* * * * *"), START - DAY, change),
        Entry(0, "job", cron("*/5 * * * *"), change, START + DAY),
    ]
    found = expand(entries, START, START + 11 * MINUTE)
    assert clocks(found.times.tolist()) == ["10:00", "10:01", "10:02", "10:03", "10:04", "10:05", "10:10"]


def test_a_malformed_job_is_reported_and_the_others_run() -> None:
    good = cron("* * * * *")
    entries = [*_entries(good, good), Entry(7, "broken", "* * * * *", 0, START + DAY)]  # type: ignore[arg-type]
    found = expand(entries, START, START + MINUTE)
    assert found.ordinals.tolist() == [0, 1]
    ((ordinal, reason),) = found.failures
    assert ordinal == 7
    assert reason


def test_no_jobs_and_empty_windows_give_no_runs() -> None:
    assert expand([], START, START + HOUR).times.size == 0
    assert expand(_entries(cron("* * * * *")), START, START).times.size == 0


def test_equal_schedules_share_one_row() -> None:
    entries = _entries(*[cron("*/5 * * * *", "Europe/Berlin") for _ in range(100)])
    assert ScheduleTable.of(entries).rows.hours.size == 1


def test_a_roster_serves_window_after_window() -> None:
    table = ScheduleTable.of(_entries(cron("0 0 * * *"), cron("30 2 * * *", "Europe/Berlin"), cron("* * * * * */20")))
    whole = expand_table(table, START, START + 48 * HOUR)
    for hour in range(48):
        window = (START + hour * HOUR, START + (hour + 1) * HOUR)
        within = (whole.times >= window[0]) & (whole.times < window[1])
        assert expand_table(table, *window).times.tolist() == whole.times[within].tolist()


def test_zones_at_rest_and_a_zone_in_its_gap_are_expanded_side_by_side() -> None:
    gap = at("2027-03-28T01:00:00Z")
    entries = _entries(
        cron("30 2 * * *", "Europe/Berlin"),
        cron("30 2 * * * 15,45", "Europe/Berlin"),
        cron("0 1 * * *", "UTC"),
        cron("45 6 * * *", "Asia/Kathmandu"),
        end=gap + DAY,
    )
    found = expand(entries, gap - HOUR, gap + HOUR)
    assert clocks(found.times.tolist()) == ["01:00"] * 4
    assert found.ordinals.tolist() == [0, 1, 2, 3]


def _spec(dice: random.Random, zone: str) -> dict[str, Any]:
    rules = {
        "dst_gap": dice.choice(("next_valid", "shift", "skip")),
        "dst_fold": dice.choice(("first", "last", "both")),
    }
    match dice.randrange(10):
        case 0:
            return {"kind": "hourly", "minute": dice.randrange(60), "timezone": zone}
        case 1:
            every = dice.choice(("7s", "61s", "25m", "100m", "1d"))
            return {"kind": "interval", "every": every, "offset": "2s", "timezone": zone}
        case 2:
            times = [f"{dice.randrange(4):02d}:{dice.randrange(60):02d}" for _ in range(2)]
            unit = dice.choice(("day", "week", "month"))
            return {"kind": "calendar", "every": dice.randint(1, 3), "unit": unit, "at": times, "timezone": zone}
        case 3:
            opens, until = (f"{dice.randrange(24):02d}:{dice.choice((0, 30)):02d}" for _ in range(2))
            window = {"from": opens, "until": until, "days": dice.choice(("sun-sat", "fri-mon"))}
            return {"kind": "interval", "every": dice.choice(("61s", "25m", "1h")), "window": window, "timezone": zone}
        case 4:
            return {"kind": "any", "of": _members(dice, zone)}
        case _:
            line = "0 0 31 2 *"
            while "31 2" in line or "30 2" in line:
                line = random_line(dice, dice.random() < 0.3).text
            return {"kind": "cron", "expr": line, "timezone": zone, **rules}


def _members(dice: random.Random, zone: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < 3:
        member = _spec(dice, dice.choice((zone, "UTC")))
        found += [member] if member["kind"] != "any" else []
    return found


def _schedules(dice: random.Random, zone: str, start: Instant) -> list[Schedule]:

    found: list[Schedule] = []
    while len(found) < 12:
        name = dice.choice((zone, zone, "UTC", dice.choice(ZONES)))
        try:
            found.append(parse_schedule(_spec(dice, name), job_id="job", created_at=start - 3 * DAY).schedule)
        except BadValue:
            continue
    return found


def _hold_many_against_one_by_one(seed: int) -> None:
    dice = random.Random(seed)
    zone, year = dice.choice(ZONES), dice.randrange(130)
    jumps = changes_between(zone, year * 31_556_952, (year + 1) * 31_556_952)
    begun = dice.choice(jumps).at - dice.randrange(5 * 3600) if jumps else year * 31_556_952
    start = begun * SECOND + dice.choice((0, 0, 1, 500_000))
    end = start + dice.choice((SECOND, MINUTE, 90 * SECOND, HOUR, 3 * HOUR, DAY, 7 * DAY))
    entries = [
        Entry(n, f"job{dice.randrange(90)}", schedule, start + dice.choice((0, 0, HOUR)), end - dice.choice((0, 0, 1)))
        for n, schedule in enumerate(_schedules(dice, zone, start))
    ]
    found = expand(entries, start, end)
    one_by_one = sorted(
        (time, entry.job_id, entry.ordinal)
        for entry in entries
        for time in occurrences(entry.schedule, entry.start, entry.end)
    )
    assert not found.failures
    assert found.times.tolist() == [run[0] for run in one_by_one]
    ids = {entry.ordinal: entry.job_id for entry in entries}
    assert [ids[n] for n in found.ordinals.tolist()] == [run[1] for run in one_by_one]
    pairs = sorted(zip(found.times.tolist(), found.ordinals.tolist(), strict=True))
    assert pairs == sorted((run[0], run[2]) for run in one_by_one)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**48))
def test_many_jobs_together_fire_as_each_of_them_alone(seed: int) -> None:
    _hold_many_against_one_by_one(seed)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**48))
def test_many_jobs_together_fire_as_each_of_them_alone_three_hundred_times(seed: int) -> None:
    _hold_many_against_one_by_one(seed)


def test_intervals_before_their_first_instant_are_silent() -> None:
    schedule = IntervalSchedule(every=MINUTE, first=START + 5 * MINUTE, zone="UTC")
    found = expand(_entries(schedule), START, START + 8 * MINUTE)
    assert clocks(found.times.tolist()) == ["10:05", "10:06", "10:07"]


def test_a_calendar_of_several_hours_owes_one_run_for_all_its_times_in_a_gap() -> None:
    gap = at("2027-03-28T01:00:00Z")
    times = ["02:15", "02:45", "03:00", "04:00", "02:30:20"]
    calendar = schedule_of({"kind": "calendar", "at": times, "timezone": "Europe/Berlin"})
    entries = _entries(calendar, cron("0 * * * *"), end=gap + DAY)
    found = expand(entries, gap - HOUR, gap + 2 * HOUR)
    assert list(zip(clocks(found.times.tolist()), found.ordinals.tolist(), strict=True)) == [
        ("00:00", 1), ("01:00", 0), ("01:00", 1), ("02:00", 0), ("02:00", 1),
    ]  # fmt: skip


def test_a_calendar_begins_at_its_start_and_not_before_it_that_day() -> None:
    calendar = schedule_of({"kind": "calendar", "at": ["09:00", "12:00"], "start": "2026-11-27T10:30"})
    found = expand(_entries(calendar), START - 5 * HOUR, START + DAY)
    assert clocks(found.times.tolist()) == ["12:00", "09:00"]
