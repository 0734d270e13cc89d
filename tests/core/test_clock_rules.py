"""Gaps and folds, rule by rule, and the zones' changes against the zone files themselves."""

from itertools import pairwise

import pytest

from scheduler_service.core.schedule import occurrences
from scheduler_service.core.zones import changes_between, instants_of
from tests.support.moments import at, cron, texts
from tests.support.tz_files import listed_changes, zone_names

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
@pytest.mark.timeout(240)
def test_the_changes_of_every_zone_are_those_in_its_file() -> None:
    for name in zone_names():
        _hold_against_its_file(name)


@pytest.mark.slow
def test_no_zone_changes_twice_within_six_days_so_that_sampling_misses_none() -> None:
    for name in zone_names():
        moments = [row[0] for row in listed_changes(name) if row[0] > -10 * 31_556_952]
        assert all(b - a > 6 * 86_400 for a, b in pairwise(moments)), name
