"""Unions of schedules: each time once in every engine, members with zones and hashes of their own, and refusals."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR
from scheduler_service.core.index.expansion import Entry, ScheduleTable, expand, expand_table
from scheduler_service.core.notifications.conditions import may_end
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.preview import preview
from scheduler_service.core.schedules.schedule import (
    UnionSchedule,
    canonical_spec,
    count,
    latest,
    next_after,
    occurrences,
    parse_schedule,
    upcoming,
)
from tests.support.moments import at, clocks, schedule_of, texts

START = at("2026-11-27T00:00:00Z")  # a Friday
CRON = {"kind": "cron", "expr": "0 9 * * *"}
SECONDS = {"kind": "cron", "expr": "0 9 * * * 0,30"}
HOURS = {"kind": "interval", "every": "3h"}
ONCE = {"kind": "once", "at": "2026-11-27T09:00:00Z"}
WINDOW = {"kind": "interval", "every": "1h", "window": {"from": "08:00", "until": "10:00"}}
BEGUN = {"kind": "calendar", "unit": "day", "at": ["03:00", "09:00", "09:30"], "start": "2026-11-27T08:00"}
SUN = {"kind": "solar", "event": "solar_noon", "latitude": 0, "longitude": 0}


def any_of(*members: dict[str, Any]) -> Any:
    return schedule_of({"kind": "any", "of": list(members)}, created_at="2026-11-26T10:00:00Z")


ALL = any_of(CRON, {**CRON, "timezone": "Europe/Berlin"}, SECONDS, HOURS, ONCE, WINDOW, BEGUN, SUN)


def test_equal_times_are_one_time_in_every_engine() -> None:
    expected = sorted({each for member in ALL.of for each in occurrences(member, START, START + DAY)})
    assert clocks(expected) == [
        "00:00", "03:00", "06:00", "08:00", "09:00", "09:00", "09:30", "11:47", "12:00", "15:00", "18:00", "21:00",
    ]  # fmt: skip
    assert occurrences(ALL, START, START + DAY) == expected
    assert count(ALL, START, START + DAY) == len(expected)
    assert latest(ALL, START, START + DAY) == expected[-1]
    assert upcoming(ALL, START - 1, len(expected)) == expected
    assert next_after(ALL, expected[3]) == expected[4]
    schedules = [ALL, schedule_of(CRON), ALL]
    entries = [Entry(n, f"job{n}", each, START - DAY, START + 2 * DAY) for n, each in enumerate(schedules)]
    found = expand(entries, START, START + DAY)
    pairs = list(zip(found.times.tolist(), found.ordinals.tolist(), strict=True))
    nine = at("2026-11-27T09:00:00Z")
    assert pairs == sorted([(each, n) for each in expected for n in (0, 2)] + [(nine, 1)])
    assert not found.failures


def test_a_member_that_begins_later_is_silent_until_then_and_silences_no_other() -> None:
    union = any_of(HOURS, {**BEGUN, "at": ["04:00", "09:00", "09:30"]})
    expected = ["00:00", "03:00", "06:00", "09:00", "09:30"]
    assert clocks(occurrences(union, START, START + 10 * HOUR)) == expected
    assert clocks(expand([Entry(0, "a", union, 0, 2**62)], START, START + 10 * HOUR).times.tolist()) == expected


def test_before_all_of_its_members_begin_a_union_is_silent() -> None:
    union = any_of({**BEGUN, "start": "2027-01-01"}, {**BEGUN, "start": "2027-02-01"})
    assert occurrences(union, START, START + DAY) == []
    assert count(union, START, START + DAY) == 0
    assert expand([Entry(0, "a", union, 0, 2**62)], START, START + DAY).failures == ()


def test_lines_that_meet_on_a_minute_are_one_run() -> None:
    union = any_of(CRON, {"kind": "hourly", "minute": 0})
    found = expand([Entry(0, "a", union, 0, 2**62)], START + 8 * HOUR, START + 11 * HOUR)
    assert clocks(found.times.tolist()) == ["08:00", "09:00", "10:00"]


def test_a_table_that_changed_still_has_each_time_once() -> None:
    def entries(*unions: Any) -> list[Entry]:
        return [Entry(n, f"job{n}", union, START - DAY, START + 2 * DAY) for n, union in enumerate(unions)]

    other = any_of(WINDOW, SUN, ONCE, SECONDS)
    before, fresh = ScheduleTable.of(entries(ALL, any_of(CRON, HOURS), ALL)), ScheduleTable.of(entries(ALL, other)[1:])
    after = before.changed(np.asarray([0, -1, 2], dtype=np.int32), fresh)
    whole = ScheduleTable.of(entries(ALL, other, ALL))
    found, expected = (expand_table(table, START, START + DAY) for table in (after, whole))
    assert found.times.tolist() == expected.times.tolist()
    assert found.ordinals.tolist() == expected.ordinals.tolist()


def test_members_have_zones_of_their_own_and_the_union_is_shown_in_the_one_that_all_have() -> None:
    berlin = {**CRON, "timezone": "Europe/Berlin"}
    assert [each.local for each in preview(any_of(berlin, {**HOURS, "timezone": "Europe/Berlin"}), START, 1)]
    union = any_of(berlin, CRON)
    shown = preview(union, START, 2)
    assert [(each.local, each.offset) for each in shown] == [
        ("2026-11-27T08:00:00", "+00:00"), ("2026-11-27T09:00:00", "+00:00"),
    ]  # fmt: skip


def test_the_preview_notes_what_the_clocks_do_to_the_member_that_fires() -> None:
    fixed = {"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin"}
    union = any_of(fixed, {"kind": "hourly", "minute": 17})
    gap = at("2027-03-28T00:30:00Z")
    assert [each.dst for each in preview(union, gap, 2)] == ["gap: moved to 03:00", None]


def test_a_hash_is_spread_by_job_and_member() -> None:
    hashed = {"kind": "any", "of": [{"kind": "cron", "expr": "H H * * *"}] * 3}
    stored = canonical_spec(hashed, job_id="job")
    lines = [member["expr"] for member in stored["of"]]
    assert len(set(lines)) == 3
    assert not any("H" in line for line in lines)
    parsed = parse_schedule(hashed, job_id="job", created_at=0)
    assert parsed.spec == stored
    assert canonical_spec(stored, job_id="job") == stored
    as_stored = parse_schedule(stored, job_id="", created_at=0).schedule
    assert upcoming(parsed.schedule, START, 9) == upcoming(as_stored, START, 9)
    with pytest.raises(BadValue, match=r"schedule\.of\.0\.expr"):
        parse_schedule(hashed, job_id="", created_at=0)


def test_an_interval_without_an_anchor_counts_from_the_job() -> None:
    union = schedule_of({"kind": "any", "of": [{"kind": "interval", "every": "25m", "offset": "2m"}]})
    assert clocks(upcoming(union, START, 2)) == ["00:27", "00:52"]


def test_warnings_name_their_member() -> None:
    fast = {"kind": "any", "of": [CRON, {"kind": "interval", "every": "5s"}]}
    assert parse_schedule(fast, job_id="", created_at=0).warnings == (
        "of.1: this runs more often than every 10 seconds",
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "of"),
        ({"of": []}, "of"),
        ({"of": [CRON] * 21}, "of"),
        ({"of": {"kind": "cron"}}, "of"),
        ({"of": ["0 9 * * *"]}, "of.0"),
        ({"of": [CRON, {"kind": "any", "of": [CRON]}]}, "of.1.kind"),
        ({"of": [CRON, {**HOURS, "balanced": True}]}, "of.1.balanced"),
        ({"of": [CRON, {"kind": "cron", "expr": "0 0 31 2 *"}]}, "of.1.expr"),
        ({"of": [CRON], "timezone": "UTC"}, "timezone"),
        ({"of": [{"kind": "moon"}]}, "of.0.kind"),
    ],
)
def test_what_cannot_be_a_union_is_refused_by_name(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(BadValue) as refused:
        schedule_of({"kind": "any", **spec})
    assert refused.value.field == f"schedule.{field}"


def test_it_ends_only_where_every_member_does() -> None:
    year = {"kind": "cron", "expr": "0 0 1 1 * 0 2027"}
    assert may_end({"schedule": {"kind": "any", "of": [ONCE, year]}})
    assert not may_end({"schedule": {"kind": "any", "of": [ONCE, CRON]}})
    ended = any_of(ONCE, year)
    assert texts(upcoming(ended, START, 9)) == ["2026-11-27T09:00:00Z", "2027-01-01T00:00:00Z"]


def test_its_sentence_joins_those_of_its_members() -> None:
    assert describe(any_of(CRON, HOURS)) == ("At 09:00 (UTC); or every 3 hours, counted from 2026-11-26T03:00:00Z")


def test_many_windows_have_the_times_of_one() -> None:
    dice = Random(5)
    days = (START - 3 * DAY, START + 40 * DAY)
    whole = occurrences(ALL, *days)
    for _ in range(20):
        low = dice.randrange(*days)
        high = dice.randrange(low, days[1])
        assert occurrences(ALL, low, high) == [each for each in whole if low <= each < high]
        assert latest(ALL, low, high) == max((each for each in whole if low <= each < high), default=None)


def test_a_member_whose_zone_is_gone_is_reported_and_the_others_run() -> None:
    window = any_of(WINDOW, HOURS).of[0]
    union = UnionSchedule((replace(window, zone="Mars/Olympus"), *any_of(HOURS).of))
    entries = [
        Entry(0, "a", union, START, START + DAY),
        Entry(1, "b", replace(window, zone="Mars/X"), START, START + DAY),
    ]
    found = expand(entries, START, START + 4 * HOUR)
    assert (clocks(found.times.tolist()), found.ordinals.tolist()) == (["00:00", "03:00"], [0, 0])
    assert [ordinal for ordinal, _ in found.failures] == [0, 1]
