"""Gaps and folds, rule by rule, and the zones' changes against the zone files themselves."""

from itertools import pairwise

import pytest

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Instant
from scheduler_service.core.index.expansion import Entry, expand
from scheduler_service.core.schedules.clock_rules import FIXED, timeline
from scheduler_service.core.schedules.schedule import Schedule, occurrences
from scheduler_service.core.schedules.zones import changes_between, instants_of
from tests.support.moments import at, cron, texts
from tests.support.tz_files import listed_changes, zone_names

OFFSET_OF_OLD = ("1971-06-01T10:00:00Z", "1971-06-01T13:00:00Z")
SPRING = ("2027-03-27T23:00:00Z", "2027-03-28T22:00:00Z")
AUTUMN = ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")


def _on(day: tuple[str, str], expr: str, **rules: str) -> list[str]:
    found = occurrences(cron(expr, "Europe/Berlin", **rules), at(day[0]), at(day[1]))
    return [text[11:16] for text in texts(found)]


@pytest.mark.parametrize(("gap", "expected"), [("next_valid", ["01:00"]), ("shift", ["01:15", "01:45"]), ("skip", [])])
def test_times_inside_the_spring_gap_follow_the_jobs_rule(gap: str, expected: list[str]) -> None:
    assert _on(SPRING, "15,45 2 * * *", dst_gap=gap) == expected


def test_several_times_inside_a_gap_and_one_at_its_end_are_one_run() -> None:
    assert _on(SPRING, "0,20,40 2,3 * * *") == ["01:00", "01:20", "01:40"]


@pytest.mark.parametrize(
    ("fold", "expected"), [("first", ["00:30"]), ("last", ["01:30"]), ("both", ["00:30", "01:30"])]
)
def test_a_repeated_time_runs_in_the_passes_that_the_job_names(fold: str, expected: list[str]) -> None:
    assert _on(AUTUMN, "30 2 * * *", dst_fold=fold) == expected


@pytest.mark.parametrize(("day", "runs"), [(SPRING, 23), (AUTUMN, 25)])
def test_a_wildcard_job_follows_elapsed_time(day: tuple[str, str], runs: int) -> None:
    assert len(_on(day, "0 * * * *")) == runs
    assert len(_on(day, "*/30 0-23 * * *")) == 2 * runs


def test_a_day_that_the_zone_skipped_owes_nothing() -> None:
    apia = cron("0 12 * * *", "Pacific/Apia")
    found = texts(occurrences(apia, at("2011-12-29T00:00:00Z"), at("2012-01-01T00:00:00Z")))
    # The 29th at UTC-10, then the 31st at UTC+14: there was no 30th.
    assert found == ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"]


def test_a_zone_whose_offset_was_no_whole_minute_is_told_to_the_second() -> None:
    liberia = cron("0 12 * * *", "Africa/Monrovia")
    found = occurrences(liberia, at("1972-01-05T00:00:00Z"), at("1972-01-09T00:00:00Z"))
    assert texts(found) == [
        "1972-01-05T12:44:30Z",
        "1972-01-06T12:44:30Z",
        "1972-01-07T12:00:00Z",
        "1972-01-08T12:00:00Z",
    ]


def test_a_wall_time_has_one_instant_or_two_or_none() -> None:
    def instants(text: str) -> list[str]:
        return texts(s * 1_000_000 for s in instants_of("Europe/Berlin", at(text) // 1_000_000))

    assert instants("2026-06-01T12:00:00Z") == ["2026-06-01T10:00:00Z"]
    assert instants("2026-10-25T02:30:00Z") == ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
    assert instants("2027-03-28T02:30:00Z") == []


def _hold_against_its_file(name: str) -> None:
    first, last = -10 * 31_556_952, 67 * 31_556_952
    listed = [row for row in listed_changes(name) if first <= row[0] < last]
    # What a file leaves to the rule in its last line, it does not list.
    end = listed[-1][0] + 1 if listed else first
    assert [(c.at, c.before, c.after) for c in changes_between(name, first, end)] == listed


@pytest.mark.parametrize("name", ["Europe/Berlin", "Africa/Casablanca", "Asia/Gaza", "Pacific/Apia", "America/Nuuk"])
def test_the_changes_of_a_zone_are_those_in_its_file(name: str) -> None:
    _hold_against_its_file(name)


@pytest.mark.slow
def test_the_changes_of_every_zone_are_those_in_its_file() -> None:
    for name in zone_names():
        _hold_against_its_file(name)


@pytest.mark.slow
def test_no_zone_changes_twice_within_six_days_so_that_sampling_misses_none() -> None:
    for name in zone_names():
        moments = [row[0] for row in listed_changes(name) if row[0] > -10 * 31_556_952]
        assert all(b - a > 6 * 86_400 for a, b in pairwise(moments)), name


GAP_END = at("2027-03-28T01:00:00Z")
HALF_PAST_TWO = cron("30 2 * * *", "Europe/Berlin")


def alone_and_together(schedule: Schedule, start: Instant, end: Instant) -> list[Instant]:
    """The occurrences, by the engine for one schedule; the one for many must say the same."""
    alone = occurrences(schedule, start, end)
    assert expand([Entry(0, "a", schedule, 0, end + DAY)], start, end).times.tolist() == alone
    return alone


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, SECOND, [GAP_END]), (-HOUR, 0, []), (SECOND, HOUR, [])],
    ids=["begins at it", "ends at it", "begins after it"],
)
def test_what_a_gap_owes_lies_in_exactly_one_window(start: int, end: int, expected: list[Instant]) -> None:
    assert alone_and_together(HALF_PAST_TWO, GAP_END + start, GAP_END + end) == expected
    line = timeline("Europe/Berlin", FIXED, (GAP_END + start) // SECOND, (GAP_END + end) // SECOND)
    assert [caught_up.at * SECOND for caught_up in line.catch_ups] == expected


@pytest.mark.parametrize("expr", ["30 1 * * *", "30 2 * * *", "15 1,2 * * *"])
def test_a_gap_of_two_hours_owes_one_run_for_either_hour(expr: str) -> None:
    troll = cron(expr, "Antarctica/Troll")  # from 01:00 to 03:00
    assert alone_and_together(troll, GAP_END - HOUR, GAP_END + 2 * HOUR) == [GAP_END]


@pytest.mark.parametrize("day", ["1972-01-07T00:00:00Z", "1971-06-01T10:00:00Z"])
def test_both_engines_tell_a_zone_whose_offset_is_no_whole_minute_alike(day: str) -> None:
    start, end = at(day), at(day) + 3 * HOUR
    for expr in ("*/20 * * * *", "7 11 * * *", "15,45 0 * * *"):
        alone_and_together(cron(expr, "Africa/Monrovia"), start, end)  # 00:44:30 behind until 1972
    assert all(time % MINUTE for time in occurrences(cron("*/20 * * * *", "Africa/Monrovia"), *map(at, OFFSET_OF_OLD)))
