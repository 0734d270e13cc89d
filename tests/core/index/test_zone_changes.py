"""Which schedules other zone rules move, against the schedules' own times by each set of rules."""

import random

import pytest

from itinerary.protocol.instants import DAY, SECOND, Instant
from scheduler_service.core.index.zone_changes import Difference, Eras, differences
from scheduler_service.core.schedules.kinds import OwnSchedule as Schedule
from scheduler_service.core.schedules.schedule import UnionSchedule, occurrences, parse_schedule
from scheduler_service.core.schedules.zone_eras import ALWAYS, Era, put_in_force
from scheduler_service.core.schedules.zone_sets import ZoneSet, installed_set
from tests.support.cron_lines import random_line
from tests.support.moments import at
from tests.support.tz_files import zone_file_of

NOW = at("2026-11-29T12:00:00Z")
END = NOW + 730 * DAY
ZONE = "America/Winnipeg"
HALF = "Asia/Kolkata"
MARCH = at("2027-03-14T08:00:00Z") // SECOND
OLD: Eras = (Era(ALWAYS, installed_set()),)


def changed(**files: bytes) -> Eras:
    """The rules of today until now, and then those with these zones otherwise."""
    named = {"winnipeg": ZONE, "kolkata": HALF}
    new = ZoneSet("2027a", {**installed_set().files, **{named[name]: file for name, file in files.items()}})
    return (*OLD, Era(NOW // SECOND, new))


def cron(expr: str, zone: str = ZONE, **fields: str) -> Schedule:
    spec = {"kind": "cron", "expr": expr, "timezone": zone, **fields}
    return parse_schedule(spec, job_id="a", created_at=NOW).schedule


def by_rules(schedule: Schedule, eras: Eras, end: Instant = END) -> list[Instant]:
    put_in_force(eras)
    try:
        return occurrences(schedule, NOW, end)
    finally:
        put_in_force(())


def expected(schedule: Schedule, new: Eras, end: Instant = END) -> Difference | None:
    before, after = set(by_rules(schedule, OLD, end)), set(by_rules(schedule, new, end))
    gone, fresh = min(before - after, default=None), min(after - before, default=None)
    return None if gone is None and fresh is None else Difference(gone, fresh)


NEW = changed(winnipeg=zone_file_of(-5 * 3600, (MARCH, -6 * 3600)), kolkata=zone_file_of(6 * 3600))


def test_only_jobs_whose_times_change_are_found_each_with_its_first_instants() -> None:
    daily, yearly, monthly, hourly = map(cron, ("0 9 * * *", "0 9 1 7 *", "30 6 15 * *", "*/10 * * * *"))
    elsewhere = cron("0 9 * * *", "Europe/Berlin")
    half = cron("*/20 * * * *", HALF)
    once = parse_schedule({"kind": "once", "at": "2027-01-01T00:00:00Z"}, job_id="a", created_at=NOW).schedule
    result = differences([daily, yearly, monthly, hourly, elsewhere, half, once, daily], OLD, NEW, NOW, END)
    assert result.zones.keys() == {ZONE, HALF}
    assert result.found.keys() == {daily, yearly, monthly, half}
    assert result.found[daily] == Difference(at("2027-03-14T14:00:00Z"), at("2027-03-14T15:00:00Z"))
    assert result.found[yearly] == Difference(at("2027-07-01T14:00:00Z"), at("2027-07-01T15:00:00Z"))
    assert result.found[monthly].at == at("2027-03-15T11:30:00Z")
    assert result.unchecked == frozenset()


def test_a_member_of_a_union_that_changes_changes_the_union() -> None:
    union = UnionSchedule((cron("0 9 * * *", "Europe/Berlin"), cron("0 9 * * *")))
    assert differences([union], OLD, NEW, NOW, END).found[union].at == at("2027-03-14T14:00:00Z")


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "rrule", "rrule": "FREQ=WEEKLY;BYDAY=MO", "dtstart": "2026-11-30T09:00:00"},
        {"kind": "interval", "every": "90m", "window": {"from": "09:00", "until": "17:00", "days": "mon-fri"}},
        {"kind": "calendar", "every": 1, "unit": "day", "at": ["09:00"]},
    ],
)
def test_each_kind_that_goes_by_a_clock_is_compared(spec: dict[str, object]) -> None:
    schedule = parse_schedule({**spec, "timezone": ZONE}, job_id="a", created_at=NOW).schedule
    end = NOW + 200 * DAY
    assert differences([schedule], OLD, NEW, NOW, end).found.get(schedule) == expected(schedule, NEW, end) is not None


def test_equal_rules_and_rules_that_differ_after_the_window_change_nothing() -> None:
    same = ZoneSet("2027a", {**installed_set().files})
    assert differences([cron("0 9 * * *")], OLD, (*OLD, Era(NOW // SECOND, same)), NOW, END).zones == {}
    assert differences([cron("0 9 * * *")], OLD, NEW, NOW, NOW + 30 * DAY).found == {}


@pytest.mark.slow
def test_random_schedules_differ_where_their_own_times_do() -> None:
    dice = random.Random(7)
    schedules = list(dict.fromkeys(cron(random_line(dice, False).text, dice.choice((ZONE, HALF))) for _ in range(40)))
    end = NOW + 200 * DAY
    result = differences(schedules, OLD, NEW, NOW, end)
    assert {one: expected(one, NEW, end) for one in schedules} == {one: result.found.get(one) for one in schedules}
    assert 10 < len(result.found) < len(schedules)


def test_what_would_take_too_long_is_named_and_not_passed_over() -> None:
    often = [cron(f"* {hour} * * * *") for hour in (7, 8)]
    result = differences(often, OLD, NEW, NOW, END, most=0)
    assert (len(result.found), len(result.unchecked)) == (0, 2)
    assert differences(often, OLD, NEW, NOW, END).found.keys() == set(often)
