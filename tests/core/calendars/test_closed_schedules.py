"""Schedules closed by calendars, against a plain model minute by minute; stepping and index agree."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Instant
from scheduler_service.core.calendars.closing import closed, closing_of, none_to_come
from scheduler_service.core.calendars.model import Compiled, JobCalendars, NamedDays, NamedSpan, Weekly
from scheduler_service.core.index.expansion import Entry, expand
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import (
    ClosedSchedule,
    Schedule,
    count,
    latest,
    next_after,
    occurrences,
    parse_schedule,
    upcoming,
)
from tests.support.calendar_model import is_closed, is_closed_day, moved, random_calendar, random_calendars
from tests.support.cron_lines import random_line
from tests.support.examples import examples
from tests.support.jumps import whole_minutes, zone_and_moment
from tests.support.moments import at, cron, schedule_of, texts
from tests.support.oracle import fires

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)
HOLIDAY = Compiled("UTC", (NamedDays(20_786, 20_786, "Friday"),))  # 2026-11-29 is day 20,786
SUNDAY = at("2026-11-29T00:00:00Z")


def closed_by(own: Any, exclude: dict[str, Compiled], only: dict[str, Compiled] | None = None, **more: Any) -> Any:
    calendars = JobCalendars(tuple(exclude), tuple(only or {}), **more)
    return closed(own, closing_of(calendars, {**exclude, **(only or {})}))


def assert_all_agree(schedule: ClosedSchedule, expected: list[Instant], start: Instant, end: Instant) -> None:
    """Every way to ask for occurrences gives these in [start, end)."""
    assert occurrences(schedule, start, end) == expected
    assert count(schedule, start, end) == len(expected)
    assert latest(schedule, start, end) == (expected[-1] if expected else None)
    assert upcoming(schedule, start - 1, len(expected) + 1, end_at=end) == expected
    assert next_after(schedule, start - 1, end_at=end) == (expected[0] if expected else None)
    plain = Entry(0, "a", schedule.own, start, end)
    found = expand([Entry(1, "b", schedule, start - DAY, end + DAY), plain], start, end)
    assert found.failures == ()
    assert found.times[found.ordinals == 1].tolist() == expected


def a_case(seed: int) -> None:
    dice = Random(seed)
    zone, second = zone_and_moment(dice)
    if not whole_minutes(zone, second):
        return
    line = random_line(dice, dice.random() < 0.2)
    gap, fold = dice.choice(("next_valid", "shift", "skip")), dice.choice(("first", "last", "both"))
    spec = {"kind": "cron", "expr": line.text, "timezone": zone, "dst_gap": gap, "dst_fold": fold}
    try:
        own = parse_schedule(spec, job_id="", created_at=0).schedule
    except Exception:  # noqa: BLE001 - the line never comes, or a wildcard line has no rules
        return
    start = second * SECOND
    end = start + dice.choice((MINUTE, 20 * MINUTE, HOUR, 9 * HOUR))
    when = dice.choice(("skip", "next_day", "previous_day"))
    names = [f"c{n}" for n in range(dice.randint(1, 3))]
    homes = [zone if when != "skip" or dice.random() < 0.5 else zone_and_moment(dice)[0] for _ in names]
    if not all(whole_minutes(home, second) for home in homes):
        return
    of = {
        name: random_calendar(dice, home, start, whole=when != "skip") for name, home in zip(names, homes, strict=True)
    }
    calendars = random_calendars(dice, names, when)
    meaning = replace(line.meaning, gap=gap, fold=fold)
    if when != "skip":
        on_day = moved(meaning.on_day, lambda day: is_closed_day(calendars, of, day), when == "previous_day")
        meaning = replace(meaning, on_day=on_day)
    found = [instant * SECOND for instant in fires(meaning, zone, start // SECOND, end // SECOND)]
    expected = [instant for instant in found if when != "skip" or not is_closed(calendars, of, instant)]
    assert_all_agree(closed(own, closing_of(calendars, of)), expected, start, end)


@settings(RELAXED, max_examples=examples(25))
@given(st.integers(0, 2**60))
def test_cron_lines_with_calendars_fire_as_the_minute_walk_says(seed: int) -> None:
    a_case(seed)


SPECS: list[dict[str, Any]] = [
    {"kind": "interval", "every": "7m"},
    {"kind": "interval", "every": "45s", "offset": "11s"},
    {"kind": "interval", "every": "13m", "window": {"from": "22:00", "until": "06:00"}, "timezone": "Europe/Berlin"},
    {"kind": "hourly", "minute": 17, "timezone": "Asia/Kolkata"},
    {"kind": "calendar", "unit": "day", "every": 2, "at": ["01:30", "02:30"], "timezone": "America/New_York"},
    {"kind": "solar", "event": "sunset", "latitude": 52.5, "longitude": 13.4, "timezone": "Europe/Berlin"},
    {"kind": "any", "of": [{"kind": "interval", "every": "1h"}, {"kind": "cron", "expr": "*/30 * * * *"}]},
]


@settings(RELAXED, max_examples=examples(20))
@given(st.integers(0, 2**60), st.sampled_from(SPECS))
def test_every_kind_leaves_out_what_the_plain_model_closes(seed: int, spec: dict[str, Any]) -> None:
    dice = Random(seed)
    zone, second = zone_and_moment(dice)
    assume(whole_minutes(zone, second) and second > 3 * 86_400)
    start = second * SECOND
    end = start + dice.choice((HOUR, DAY))
    names = ["a", "b"][: dice.randint(1, 2)]
    of = {name: random_calendar(dice, zone, start, whole=False) for name in names}
    calendars = random_calendars(dice, names, "skip")
    own: Any = schedule_of(spec, created_at="1970-01-01T00:00:00Z")
    expected = [instant for instant in occurrences(own, start, end) if not is_closed(calendars, of, instant)]
    assert_all_agree(closed(own, closing_of(calendars, of)), expected, start, end)


def test_a_day_of_the_calendar_is_a_day_of_its_own_zone() -> None:
    eve = Compiled("Europe/Berlin", (NamedDays(20_811, 20_811),))  # 2026-12-24
    job = closed_by(cron("0 * * * *", "America/New_York"), {"eve": eve})
    found = occurrences(job, at("2026-12-23T22:00:00Z"), at("2026-12-25T00:00:00Z"))
    assert texts(found) == ["2026-12-23T22:00:00Z", "2026-12-24T23:00:00Z"]


def test_only_opens_in_any_of_its_calendars_and_exclude_wins() -> None:
    office = Compiled("UTC", weekly=(Weekly(0b0111110, 9 * 3600, 17 * 3600),))
    night = Compiled("UTC", weekly=(Weekly(0b1111111, 22 * 3600, 2 * 3600),))
    lunch = Compiled("UTC", spans=(NamedSpan(at("2026-11-30T12:00:00Z"), at("2026-11-30T13:00:00Z")),))
    job = closed_by(cron("0 * * * *"), {"lunch": lunch}, {"office": office, "night": night})
    hours = [text[11:13] for text in texts(occurrences(job, SUNDAY + DAY, SUNDAY + 2 * DAY))]
    assert hours == ["00", "01", "09", "10", "11", "13", "14", "15", "16", "22", "23"]


@pytest.mark.parametrize("when", ["next_day", "previous_day", "skip"])
def test_a_moved_day_meets_the_day_that_is_meant_itself(when: Any) -> None:
    job = closed_by(cron("0 9 * * *"), {"h": HOLIDAY}, when_excluded=when)
    found = occurrences(job, SUNDAY - DAY, SUNDAY + 3 * DAY)
    assert [text[5:10] for text in texts(found)] == ["11-28", "11-30", "12-01"], "equal instants are one run"


@pytest.mark.parametrize(("when", "expected"), [("next_day", "11-30"), ("previous_day", "11-28"), ("skip", "")])
def test_a_closed_day_moves_to_the_open_one_next_to_it(when: Any, expected: str) -> None:
    job = closed_by(cron("0 9 29 11 *"), {"h": HOLIDAY}, when_excluded=when)
    found = texts(occurrences(job, SUNDAY - 9 * DAY, SUNDAY + 9 * DAY))
    assert "".join(text[5:10] for text in found) == expected


@pytest.mark.parametrize(("length", "moves"), [(31, True), (32, False)])
def test_a_day_moves_by_31_days_at_most(length: int, moves: bool) -> None:
    first = 20_786
    days = Compiled("UTC", (NamedDays(first, first + length - 1),))
    job = closed_by(cron("0 9 29 11 *"), {"d": days}, when_excluded="next_day")
    found = occurrences(job, SUNDAY, SUNDAY + 60 * DAY)
    assert found == ([SUNDAY + length * DAY + 9 * HOUR] if moves else [])


EVERYTHING = Compiled("UTC", weekly=(Weekly(0b1111111),))


@pytest.mark.parametrize(
    "own",
    [
        cron("* * * * * *"), cron("0 0 1 1 *"), schedule_of({"kind": "interval", "every": "1s"}),
        schedule_of({"kind": "once", "at": "2027-01-01T00:00:00Z"}),
    ],
    ids=["each second", "yearly", "interval", "once"],
)  # fmt: skip
def test_a_search_that_finds_nothing_ends(own: Schedule) -> None:
    assert next_after(closed_by(own, {"all": EVERYTHING}), SUNDAY) is None
    assert next_after(closed_by(own, {}, {"none": Compiled("UTC")}), SUNDAY) is None


@pytest.mark.parametrize(
    ("own", "calendars", "compiled", "refused"),
    [
        (cron("* * * * *"), JobCalendars(("c",)), EVERYTHING, True),
        (cron("* * * * *"), JobCalendars((), ("c",)), EVERYTHING, False),
        (cron("0 9 * * *"), JobCalendars(("c",), (), "next_day"), EVERYTHING, True),
        (cron("0 9 * * *"), None, EVERYTHING, False),
        (schedule_of({"kind": "once", "at": "2026-01-01T00:00:00Z"}), JobCalendars(("c",)), HOLIDAY, False),
        (schedule_of({"kind": "once", "at": "2026-11-29T08:00:00Z"}), JobCalendars(("c",)), HOLIDAY, True),
        (schedule_of({"kind": "interval", "every": "1h", "balanced": True}), JobCalendars(("c",)), EVERYTHING, False),
    ],
)  # fmt: skip
def test_a_job_whose_calendars_leave_it_nothing_is_refused(
    own: Schedule, calendars: JobCalendars | None, compiled: Compiled, refused: bool
) -> None:
    error = none_to_come(Job("a", "t", own, {}, calendars=calendars), {"c": compiled}, SUNDAY)
    assert (error is not None) is refused
    if error is not None:
        assert (error.field, error.value) == ("calendars", "c")


def test_a_search_through_short_closed_stretches_expands_many_at_once() -> None:
    middles = tuple(Weekly(0b1111111, hour * 3600 + 900, hour * 3600 + 2700) for hour in range(24))
    assert next_after(closed_by(cron("30 * * * *"), {"middles": Compiled("UTC", weekly=middles)}), SUNDAY) is None


def test_a_gap_of_less_than_five_years_is_searched_through() -> None:
    days = Compiled("UTC", (NamedDays(20_786, 20_786 + 4 * 365),))
    job = closed_by(cron("* * * * *"), {"d": days})
    assert texts([next_after(job, SUNDAY) or 0]) == ["2030-11-29T00:00:00Z"]
    assert latest(job, SUNDAY - HOUR, SUNDAY + 3 * 365 * DAY) == SUNDAY - MINUTE


def test_entries_closed_alike_share_their_verdict_and_others_have_none() -> None:
    own = cron("*/20 * * * *")
    noon = Compiled("UTC", spans=(NamedSpan(SUNDAY, SUNDAY + 30 * MINUTE),))
    open_, shut = closed_by(own, {"h": Compiled("UTC")}), closed_by(own, {"h": HOLIDAY})
    part = closed_by(own, {"noon": noon})
    entries = [Entry(n, f"j{n}", s, 0, 2**62) for n, s in enumerate([own, shut, part, open_, shut, part])]
    found = expand(entries, SUNDAY, SUNDAY + HOUR)
    by_job = {n: found.times[found.ordinals == n].tolist() for n in range(6)}
    every = [SUNDAY, SUNDAY + 20 * MINUTE, SUNDAY + 40 * MINUTE]
    assert by_job == {0: every, 1: [], 2: every[2:], 3: every, 4: [], 5: every[2:]}
    assert bool(np.all(np.diff(found.times) >= 0))
