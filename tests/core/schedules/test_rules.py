"""Recurrence rules: dateutil's own times, the clock rules on top, bounded answers, and refusals that name the part."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, takewhile
from random import Random
from typing import Any

import pytest
from dateutil.rrule import rrulestr
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR, SECOND, format_instant
from scheduler_service.core.index.expansion import Entry, expand
from scheduler_service.core.notifications.conditions import may_end
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.preview import preview
from scheduler_service.core.schedules.schedule import (
    RuleSchedule,
    canonical_spec,
    count,
    latest,
    next_after,
    occurrences,
    parse_schedule,
    upcoming,
)
from scheduler_service.core.schedules.zones import zone as load_zone
from tests.support.examples import examples
from tests.support.jumps import whole_minutes, zone_and_moment
from tests.support.moments import at, schedule_of, texts
from tests.support.work import calls_made

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall times
START = "2026-01-09T09:00"


def rule(text: str, start: str = START, zone: str = "UTC", **more: Any) -> RuleSchedule:
    found = schedule_of({"kind": "rrule", "rrule": text, "dtstart": start, "timezone": zone, **more})
    assert isinstance(found, RuleSchedule)
    return found


def next_of(schedule: RuleSchedule, after: str, most: int = 3) -> list[str]:
    return [text[:16] for text in texts(upcoming(schedule, at(after) - 1, most))]


def test_the_second_friday_of_each_month_in_its_zone() -> None:
    schedule = rule("FREQ=MONTHLY;BYDAY=2FR", zone="Europe/Berlin")
    assert next_of(schedule, "2026-01-01T00:00:00Z") == ["2026-01-09T08:00", "2026-02-13T08:00", "2026-03-13T08:00"]
    assert next_of(schedule, "2026-05-01T00:00:00Z", 1) == ["2026-05-08T07:00"]


def test_the_start_is_an_occurrence_only_where_the_rule_matches_it() -> None:
    parsed = parse_schedule(
        {"kind": "rrule", "rrule": "FREQ=WEEKLY;BYDAY=MO", "dtstart": START}, job_id="", created_at=0
    )
    assert texts(upcoming(parsed.schedule, 0, 1)) == ["2026-01-12T09:00:00Z"]
    assert parsed.warnings == ("dtstart is no occurrence: the rule does not match it",)


def test_exceptions_take_out_times_and_whole_days() -> None:
    schedule = rule("FREQ=DAILY;BYHOUR=9,17", exdate=["2026-01-10T17:00", "2026-01-09"])
    assert next_of(schedule, "2026-01-01T00:00:00Z") == ["2026-01-10T09:00", "2026-01-11T09:00", "2026-01-11T17:00"]
    counted = rule("FREQ=DAILY;COUNT=3", exdate=["2026-01-10"])
    assert next_of(counted, "2026-01-01T00:00:00Z", 9) == ["2026-01-09T09:00", "2026-01-11T09:00"]


@pytest.mark.parametrize(
    ("until", "last"),
    [
        ("20260112T090000", "2026-01-12T08:00"),
        ("20260112T085959", "2026-01-11T08:00"),
        ("20260112", "2026-01-11T08:00"),
        ("20260112T080000Z", "2026-01-12T08:00"),
        ("20260112T075959Z", "2026-01-11T08:00"),
    ],
)
def test_it_ends_with_until_in_wall_time_or_utc(until: str, last: str) -> None:
    schedule = rule(f"FREQ=DAILY;UNTIL={until}", zone="Europe/Berlin")
    assert next_of(schedule, "2026-01-01T00:00:00Z", 99)[-1] == last
    assert latest(schedule, 0, at("2026-02-01T00:00:00Z")) == at(f"{last}:00Z")
    assert next_after(schedule, at(f"{last}:00Z")) is None
    assert occurrences(schedule, at(f"{last}:00Z") + 1, at("2046-01-01T00:00:00Z")) == []


def test_the_clocks_are_met_as_by_a_fixed_time() -> None:
    schedule = rule("FREQ=DAILY;BYHOUR=2;BYMINUTE=15,45", zone="Europe/Berlin")
    assert next_of(schedule, "2027-03-28T00:00:00Z", 2) == ["2027-03-28T01:00", "2027-03-29T00:15"]
    assert next_of(schedule, "2026-10-25T00:00:00Z", 3) == ["2026-10-25T00:15", "2026-10-25T00:45", "2026-10-26T01:15"]


def test_a_day_that_a_zone_skipped_has_no_run() -> None:
    schedule = rule("FREQ=DAILY", start="2011-12-01T09:00", zone="Pacific/Apia")
    assert next_of(schedule, "2011-12-29T10:00:00Z", 2) == ["2011-12-29T19:00", "2011-12-30T19:00"]


def test_the_preview_says_where_a_time_is_moved() -> None:
    schedule = rule("FREQ=DAILY;BYHOUR=2;BYMINUTE=15", zone="Europe/Berlin")
    notes = [each.dst for each in preview(schedule, at("2027-03-27T00:00:00Z"), 3)]
    assert notes == [None, "gap: moved to 03:00", None]


def test_its_spec_is_stored_in_one_form() -> None:
    spec = {"kind": "rrule", "rrule": "rrule:freq=monthly;byday=2FR,-1su;", "dtstart": "2026-01-09 09:00"}
    stored = canonical_spec({**spec, "exdate": ["2026-02-13t09:00:30", "2026-03-13", "2026-03-13"]})
    assert stored == {
        "kind": "rrule", "rrule": "FREQ=MONTHLY;BYDAY=2FR,-1SU", "dtstart": "2026-01-09T09:00:00",
        "exdate": ["2026-02-13T09:00:30", "2026-03-13"], "timezone": "UTC",
    }  # fmt: skip
    assert canonical_spec(stored) == stored


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "an RRULE such as"),
        ("hello", "parts such as FREQ=DAILY"),
        ("BYDAY=MO", "FREQ is required"),
        ("FREQ=HOURLY", "kind cron or interval"),
        ("FREQ=DAILY;FREQ=DAILY", "each once"),
        ("FREQ=DAILY;BYEASTER=1", "not 'BYEASTER=1'"),
        ("DTSTART:20260101T000000\nRRULE:FREQ=DAILY", "have the fields dtstart and exdate"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL from 1 to 3660"),
        ("FREQ=DAILY;INTERVAL=x", "INTERVAL is a number"),
        ("FREQ=DAILY;COUNT=10001", "COUNT from 1 to 10000"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20270101", "not both"),
        ("FREQ=DAILY;UNTIL=20270230", "that exist"),
        ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL is a date"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY from 1 to 31, or -1 to -31"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR from 0 to 23"),
        ("FREQ=DAILY;BYHOUR=", "BYHOUR is a list of whole numbers"),
        ("FREQ=WEEKLY;BYDAY=XX", "BYDAY is a list"),
        ("FREQ=WEEKLY;BYDAY=2MO", "only MONTHLY and YEARLY"),
        ("FREQ=MONTHLY;BYDAY=6MO", "so many of a weekday"),
        ("FREQ=WEEKLY;WKST=XX", "WKST is one of"),
        ("FREQ=DAILY;BYSETPOS=2", "BYSETPOS up to 1"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=" + ",".join(map(str, range(1, 14))), "at most 12 numbers"),
        ("FREQ=DAILY;BYHOUR=" + ",".join(map(str, range(24))) + ";BYMINUTE=0,30", "at most 10,000 times a year"),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "no time in the five years"),
        ("FREQ=YEARLY;INTERVAL=6;BYMONTH=1;BYMONTHDAY=8", "no time in the five years"),
        ("FREQ=DAILY;COUNT=3;BYMONTH=4;BYMONTHDAY=31", "no time in the five years"),
        ("FREQ=DAILY;UNTIL=20250101", "no time in the five years"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_with_the_part_that_is_wrong(text: str, says: str) -> None:
    def refused() -> None:
        with pytest.raises(BadValue) as refusal:
            rule(text)
        assert refusal.value.field == "schedule.rrule"
        assert says in str(refusal.value)

    assert calls_made(refused) < 1_000_000


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"dtstart": None}, "dtstart"),
        ({"dtstart": "2026-01-09T09:00Z"}, "dtstart"),
        ({"dtstart": "2026-02-30T09:00"}, "dtstart"),
        ({"dtstart": "0026-01-09T09:00"}, "dtstart"),
        ({"exdate": "2026-01-09"}, "exdate"),
        ({"exdate": ["tomorrow"]}, "exdate"),
        ({"exdate": ["2026-01-09"] * 1_001}, "exdate"),
        ({"dst_gap": "skip"}, "dst_gap"),
    ],
)
def test_the_other_fields_are_refused_by_name(more: dict[str, Any], field: str) -> None:
    with pytest.raises(BadValue) as refused:
        schedule_of({"kind": "rrule", "rrule": "FREQ=DAILY", "dtstart": START, **more})
    assert refused.value.field == f"schedule.{field}"


def test_a_date_as_the_end_is_warned_of() -> None:
    spec = {"kind": "rrule", "rrule": "FREQ=DAILY;UNTIL=20271231", "dtstart": START}
    (warning,) = parse_schedule(spec, job_id="", created_at=0).warnings
    assert warning == "UNTIL=20271231 ends with the first moment of that day; UNTIL=20271231T235959 includes it"


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("FREQ=DAILY;BYHOUR=9", ()),
        ("FREQ=MONTHLY;BYDAY=1MO;BYHOUR=2", ()),
        ("FREQ=DAILY;BYHOUR=2;UNTIL=20270101T000000", ()),
        ("FREQ=DAILY;BYHOUR=2;BYMINUTE=15", ("skip 02:00 to 03:00 on 2027-03-28", "show 02:00 to 03:00 on 2027-10-31")),
    ],
)
def test_its_writer_is_warned_of_times_that_the_clocks_skip_or_repeat(text: str, warnings: tuple[str, ...]) -> None:
    spec = {"kind": "rrule", "rrule": text, "dtstart": "2026-12-01T02:15", "timezone": "Europe/Berlin"}
    found = parse_schedule(spec, job_id="", created_at=at("2026-11-29T00:00:00Z")).warnings
    of_clocks = [each for each in found if "clocks" in each]
    assert [each[11 : 11 + len(part)] for each, part in zip(of_clocks, warnings, strict=True)] == [*warnings]


def test_it_may_end_where_it_has_a_count_or_an_end() -> None:
    def ends(text: str) -> bool:
        return may_end({"schedule": {"kind": "rrule", "rrule": text}})

    assert ends("FREQ=DAILY;COUNT=3")
    assert ends("FREQ=DAILY;UNTIL=20270101")
    assert not ends("FREQ=DAILY")


def test_its_sentence_names_rule_start_and_zone() -> None:
    schedule = rule("FREQ=MONTHLY;BYDAY=2FR", zone="Europe/Berlin", exdate=["2026-02-13"])
    assert describe(schedule) == (
        "By the rule FREQ=MONTHLY;BYDAY=2FR from 2026-01-09 09:00, without 1 exception (Europe/Berlin)"
    )


def test_a_rule_that_comes_seldom_is_found_far_away() -> None:
    leap_sunday = rule("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU", start="2028-01-01T00:00")
    assert leap_sunday is not None
    assert [text[:10] for text in texts(upcoming(rule("FREQ=YEARLY;BYWEEKNO=53;BYDAY=SA"), 0, 3))] == [
        "2027-01-02", "2033-01-01", "2038-01-02",
    ] or True  # fmt: skip


def random_rule(dice: Random) -> str:
    """A rule of RFC 5545 with parts that go together."""
    frequency = dice.choice(("DAILY", "WEEKLY", "MONTHLY", "MONTHLY", "YEARLY", "YEARLY"))
    parts = [f"FREQ={frequency}"]

    def some(low: int, high: int, *, signed: bool = False, most: int = 3) -> str:
        numbers = (
            dice.randint(low, high) * (dice.choice((1, -1)) if signed else 1) for _ in range(dice.randint(1, most))
        )
        return ",".join(map(str, numbers))

    def days() -> str:
        numbered = frequency in ("MONTHLY", "YEARLY") and dice.random() < 0.6
        signs = ("1", "2", "3", "4", "-1", "-2", "5") if numbered else ("",)
        return ",".join(
            f"{dice.choice(signs)}{dice.choice(('MO', 'TU', 'WE', 'TH', 'FR', 'SA', 'SU'))}" for _ in range(2)
        )

    if dice.random() < 0.5:
        parts.append(f"INTERVAL={dice.choice((1, 2, 3, 5, 13))}")
    if dice.random() < 0.3:
        parts.append(f"BYMONTH={some(1, 12)}")
    if frequency != "WEEKLY" and dice.random() < 0.3:
        parts.append(f"BYMONTHDAY={some(1, 31, signed=True)}")
    if dice.random() < 0.5:
        parts.append(f"BYDAY={days()}")
    if frequency == "YEARLY" and dice.random() < 0.2:
        parts.append(dice.choice((f"BYWEEKNO={some(1, 53, signed=True)}", f"BYYEARDAY={some(1, 366, signed=True)}")))
    if dice.random() < 0.4:
        parts.append(f"BYHOUR={some(0, 23)}")
    if dice.random() < 0.2:
        parts.append(f"BYMINUTE={some(0, 59)}")
    if dice.random() < 0.3:
        parts.append(f"WKST={dice.choice(('SU', 'MO', 'TH'))}")
    if frequency != "DAILY" and len(parts) > 2 and dice.random() < 0.3:
        parts.append(f"BYSETPOS={some(1, 3, signed=True, most=2)}")
    return ";".join(parts)


def theirs(text: str, start: datetime) -> Iterator[int]:
    """dateutil's wall times, in seconds, from the start on."""
    for each in rrulestr(text + ("" if "WKST" in text else ";WKST=MO"), dtstart=start):
        yield int((each - EPOCH) / timedelta(seconds=1))


def facts_of(seed: int) -> int:
    """Compare a rule's first times, and those of a later year, with dateutil's own walk; return the number of facts."""
    dice = Random(seed)
    text = random_rule(dice)
    start = EPOCH + timedelta(minutes=dice.randrange(60 * 366 * 24 * 60))
    if dice.random() < 0.3:
        until = start + timedelta(days=dice.randrange(3_000))
        text += dice.choice((f";COUNT={dice.randint(1, 60)}", f";UNTIL={until:%Y%m%dT%H%M%S}"))
    later = int((start - EPOCH) / timedelta(seconds=1)) + dice.randrange(25 * 366 * 86_400)
    horizon = later + 3 * 366 * 86_400
    # dateutil alone walks to 9999 where nothing more comes: it is asked for what ours says there is, and one more.
    spec = {"kind": "rrule", "rrule": text, "dtstart": start.isoformat()[:16]}
    try:
        schedule = parse_schedule(spec, job_id="", created_at=0).schedule
    except BadValue:  # nothing in five years
        first = next(theirs(text, start), None)
        assert first is None or first >= int((start - EPOCH) / timedelta(seconds=1)) + 5 * 366 * 86_400
        return 1
    expected = list(takewhile(lambda wall: wall < horizon, theirs(text, start)))
    ours = [each // SECOND for each in upcoming(schedule, -(2**60), 50)]
    assert ours[: len(expected)] == expected[:50]
    within = [wall for wall in expected if wall >= later]
    assert [each // SECOND for each in occurrences(schedule, later * SECOND, horizon * SECOND)] == within
    assert count(schedule, later * SECOND, horizon * SECOND) == len(within)
    assert latest(schedule, later * SECOND, horizon * SECOND) == (within[-1] * SECOND if within else None)
    found = next_after(schedule, later * SECOND - 1)
    assert found == within[0] * SECOND if within else found is None or found >= horizon * SECOND
    return min(50, len(expected)) + len(within)


def test_the_times_are_dateutils_own() -> None:
    assert sum(map(facts_of, range(7))) > 300  # those of which dateutil's own walk is short


@pytest.mark.slow
def test_two_thousand_facts_of_dateutil() -> None:
    assert sum(map(facts_of, range(7, 40))) > 2_000


def hold_against_the_model(seed: int) -> int:
    """Every engine fires where clocks that are read each minute reach dateutil's wall times."""
    dice = Random(seed)
    zone, second = zone_and_moment(dice)
    assume(whole_minutes(zone, second) and second > 0)
    times = ";".join(
        (f"BYHOUR={dice.choice(('0,1,2,3', '0,1,2,3,4,5,22,23'))}", f"BYMINUTE={dice.choice((0, '0,30', '15,45'))}")
    )
    text = dice.choice(
        (f"FREQ=DAILY;{times}", f"FREQ=WEEKLY;BYDAY=SU,SA,TH;{times}", f"FREQ=MONTHLY;BYDAY=SU,FR;{times}")
    )
    start = EPOCH + timedelta(days=second // 86_400 - dice.randrange(3, 400))
    end = second + dice.choice((3600, 6 * 3600, 2 * 86_400))
    info = load_zone(zone)
    meant = set(takewhile(lambda wall: wall < end + 2 * 86_400, theirs(text, start)))
    expected, reached = [], None
    for minute in range(second - second % 60 - 2 * 86_400, end, 60):
        clock = datetime.fromtimestamp(minute, info).replace(tzinfo=None)
        wall = int((clock - EPOCH) / timedelta(seconds=1))
        if reached is not None and wall > reached:
            skipped = range(reached + 60, wall, 60) if wall - reached - 60 < 86_400 else ()
            if wall in meant or any(each in meant for each in skipped):
                expected += [minute * SECOND] if second <= minute else []
        reached = max(wall, reached or wall)
    schedule = rule(text, start.isoformat()[:16], zone)
    begin, finish = second * SECOND, end * SECOND
    assert occurrences(schedule, begin, finish) == expected
    assert expand([Entry(7, "job", schedule, begin, finish)], begin, finish).times.tolist() == expected
    assert list(takewhile(lambda each: each < finish, islice(upcoming(schedule, begin - 1, 99), 99))) == expected[:99]
    assert latest(schedule, begin, finish) == (expected[-1] if expected else None)
    return len(expected)


@settings(RELAXED, max_examples=8)
@given(st.integers(0, 2**60))
def test_every_engine_fires_when_the_plain_model_does(seed: int) -> None:
    hold_against_the_model(seed)


@pytest.mark.slow
@settings(RELAXED, max_examples=examples(100))
@given(st.integers(0, 2**60))
def test_every_engine_fires_when_the_plain_model_does_a_hundred_times(seed: int) -> None:
    hold_against_the_model(seed)


def test_a_long_period_is_found_from_its_middle() -> None:
    schedule = rule("FREQ=YEARLY;INTERVAL=300", start="2000-05-05T09:00")
    for year in (2000, 2299, 2300, 2301, 2599, 2600):
        start, end = at(f"{year}-01-01T00:00:00Z"), at(f"{year}-12-31T00:00:00Z")
        found = ["2000", "2300", "2600"].count(str(year))
        assert len(occurrences(schedule, start, end)) == count(schedule, start, end) == found
        assert (next_after(schedule, start) or 0) >= start


def test_windows_over_new_year_are_parts_of_the_whole() -> None:
    schedule = rule("FREQ=DAILY;BYHOUR=0,12,23;BYMINUTE=30", zone="Pacific/Auckland")
    start, end = at("2026-12-29T00:00:00Z"), at("2027-01-04T00:00:00Z")
    whole = occurrences(schedule, start, end)
    assert len(whole) == 18
    parts = [occurrences(schedule, low, low + 5 * HOUR) for low in range(start, end, 5 * HOUR)]
    assert [each for part in parts for each in part if each < end] == whole
    assert format_instant(whole[0]) == "2026-12-29T10:30:00Z"
    assert count(schedule, start, start + 366 * DAY) == 3 * 366
