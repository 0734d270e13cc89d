"""Lines that other suites use (Quartz, Cronos, croner, cron-parser, cronsim), beside a plain walk over the calendar."""

from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import from_datetime
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.contract.job_warnings import job_warnings
from scheduler_service.core.schedules.cron import read_line
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.schedule import ParsedSchedule, occurrences, parse_schedule
from tests.support.moments import at

FIRST, LAST = date(2023, 1, 1), date(2028, 12, 31)
NOW = at("2026-11-28T16:00:00Z")
MON, TUE, WED, THU, FRI, SAT, SUN = range(7)


def parsed(expr: str, **more: str) -> ParsedSchedule:
    return parse_schedule({"kind": "cron", "expr": expr, **more}, job_id="a", created_at=NOW)


def length(day: date) -> int:
    return monthrange(day.year, day.month)[1]


def workday(day: date, target: int) -> bool:
    """Whether a day is the weekday nearest to a day of its month, without leaving the month."""
    if not 1 <= target <= length(day):
        return False
    wanted = day.replace(day=target)
    shift = 0
    if wanted.weekday() == SAT:
        shift = 2 if target == 1 else -1
    elif wanted.weekday() == SUN:
        shift = -2 if target == length(day) else 1
    return day == wanted + timedelta(days=shift)


def nth(day: date, weekday: int, which: int) -> bool:
    return day.weekday() == weekday and (day.day - 1) // 7 + 1 == which


def last(day: date, weekday: int) -> bool:
    return day.weekday() == weekday and day.day > length(day) - 7


CASES: list[tuple[str, Callable[[date], bool]]] = [
    ("0 0 L-3 * *", lambda d: d.day == length(d) - 3),
    ("0 0 l-30 * *", lambda d: d.day == length(d) - 30),
    ("0 0 L-3W * *", lambda d: workday(d, length(d) - 3)),
    ("0 0 L-29W * *", lambda d: workday(d, length(d) - 29)),
    ("0 0 1W,15W * *", lambda d: workday(d, 1) or workday(d, 15)),
    ("0 0 1,15W * *", lambda d: d.day == 1 or workday(d, 15)),
    ("0 0 L,LW * *", lambda d: d.day == length(d) or workday(d, length(d))),
    ("0 0 1,L-1 * *", lambda d: d.day in (1, length(d) - 1)),
    ("0 0 * * 5L", lambda d: last(d, FRI)),
    ("0 0 * * FRIL", lambda d: last(d, FRI)),
    ("0 0 * * LFRI", lambda d: last(d, FRI)),
    ("0 0 * * FridayL", lambda d: last(d, FRI)),
    ("0 0 * * 7L", lambda d: last(d, SUN)),
    ("0 0 * * 1,5L", lambda d: d.weekday() == MON or last(d, FRI)),
    ("0 0 * * 1,5#3", lambda d: d.weekday() == MON or nth(d, FRI, 3)),
    ("0 0 * * 5#1,5L", lambda d: nth(d, FRI, 1) or last(d, FRI)),
    ("0 0 * * mon-wed#2", lambda d: nth(d, MON, 2) or nth(d, TUE, 2) or nth(d, WED, 2)),
    ("0 0 * * thursday", lambda d: d.weekday() == THU),
    ("0 0 * * Monday-Friday", lambda d: d.weekday() < SAT),
    ("0 0 * * saturday#2", lambda d: nth(d, SAT, 2)),
    ("0 0 1 january,September *", lambda d: d.day == 1 and d.month in (1, 9)),
    ("0 0 1 may *", lambda d: d.day == 1 and d.month == 5),
]


@pytest.mark.parametrize(("expr", "meant"), CASES, ids=[expr for expr, _ in CASES])
def test_a_special_day_is_the_one_that_a_walk_over_the_calendar_finds(expr: str, meant: Callable[[date], bool]) -> None:
    start, end = (from_datetime(datetime(d.year, d.month, d.day, tzinfo=UTC)) for d in (FIRST, LAST))
    days = [FIRST + timedelta(days=n) for n in range((LAST - FIRST).days)]
    wanted = [from_datetime(datetime(d.year, d.month, d.day, tzinfo=UTC)) for d in days if meant(d)]
    assert occurrences(parsed(expr).schedule, start, end) == wanted


@pytest.mark.parametrize(
    "expr",
    ["0 0 L-0 * *", "0 0 L-31 * *", "0 0 0W * *", "0 0 32W * *", "0 0 * * 8L", "0 0 * * L", "0 0 * * *,5L",
     "0 0 W * *", "0 0 L-W * *", "0 0 * * 5#6", "0 0 * * 1-5#2/2", "0 L * * *"],
)  # fmt: skip
def test_what_no_suite_understands_is_refused(expr: str) -> None:
    with pytest.raises(BadValue):
        read_line(expr, "or", "")


@pytest.mark.parametrize(
    ("expr", "reading"),
    [
        ("0 */5 * * * *", "*/5 * * * *"), ("0 0 9 * * *", "0 9 * * *"), ("0 15 10 * * *", "15 10 * * *"),
        ("*/30 * * * * *", "* * * * * */30"), ("0 0 9 * * 1-5", "0 9 * * 1-5"), ("5 0 9 * * *", "0 9 * * * 5"),
    ],
)  # fmt: skip
def test_a_line_that_reads_as_seconds_first_elsewhere_is_taken_with_the_other_reading(expr: str, reading: str) -> None:
    told = parsed(expr).warnings
    assert f"seconds are last here; did you mean {reading!r}?" in told[0]


@pytest.mark.parametrize(
    ("expr", "reading"),
    [
        ("0 30 9 * * MON", "30 9 * * mon"), ("0 0 12 * * ?", "0 12 * * *"),
        ("0 0 12 ? * WED 2027", "0 12 * * wed 0 2027"),
        ("0 0 12 * * ? *", "0 12 * * *"), ("0 0 12 L * ?", "0 12 l * *"), ("0 15 10 ? * 6L", "15 10 * * 6l"),
    ],
)  # fmt: skip
def test_a_line_of_quartz_or_spring_is_refused_with_the_line_that_says_the_same_here(expr: str, reading: str) -> None:
    with pytest.raises(BadValue) as refused:
        parsed(expr)
    assert f"did you mean {reading!r}?" in refused.value.allowed
    read_line(reading, "or", "")


@pytest.mark.parametrize(
    "expr", ["* * * * * *", "0 9 * * * 30", "30 9 * * 1 0", "0 12 * * * */10", "0 12 * * * 0,30", "0 0 1 1 * 0 2027"]
)
def test_a_line_with_its_seconds_last_is_not_doubted(expr: str) -> None:
    assert not [text for text in parsed(expr).warnings if "did you mean" in text]


def test_the_days_of_quartz_are_said_to_be_counted_otherwise() -> None:
    assert "in Quartz 1 is Sunday" in parsed("0 0 9 * * 2-6").warnings[0]


@pytest.mark.parametrize(
    "expr",
    ["RRULE:FREQ=DAILY;INTERVAL=2", "FREQ=WEEKLY;BYDAY=MO", "DTSTART:20261101T090000Z RRULE:FREQ=DAILY" + " " * 300],
)
def test_rrule_text_is_refused_with_what_there_is_instead(expr: str) -> None:
    with pytest.raises(BadValue, match="RRULE text is not read here; give a cron line, an interval, or a calendar"):
        parsed(expr)


def test_a_zone_in_the_line_is_still_pointed_to_its_field() -> None:
    with pytest.raises(BadValue, match="put the time zone in the field timezone"):
        parsed("TZ=UTC 0 9 * * *")


@pytest.mark.parametrize(
    ("expr", "values"), [("0 0 * * sat-tue/2", "2,6"), ("0 23-3/2 * * *", "2,23"), ("0 0 20-5/5 * *", "5,20,25,30")]
)
def test_a_wrapping_range_with_a_step_says_what_it_means(expr: str, values: str) -> None:
    assert any(f"with its step means {values}" in text for text in parsed(expr).warnings)


# Jobs that cannot do what was meant


def warned(**body: object) -> tuple[str, ...]:
    given = {"job_id": "a", "task": "t", "schedule": {"kind": "cron", "expr": "* * * * *"}, **body}
    return job_warnings(read_job(given, created_at=NOW)[0], NOW)


@pytest.mark.parametrize(
    "body",
    [
        {"schedule": {"kind": "once", "at": "2020-01-01T00:00:00Z"}},
        {"schedule": {"kind": "cron", "expr": "0 0 1 1 * 0 1980"}},
        {"schedule": {"kind": "cron", "expr": "* * * * * 0 1970-2025"}},
        {"end_at": "2025-01-01T00:00:00Z"},
        {"start_at": "2027-01-01T00:00:10Z", "end_at": "2027-01-01T00:00:50Z"},
    ],
)
def test_a_job_that_will_never_run_is_said_to(body: dict[str, object]) -> None:
    (told,) = warned(**body)
    assert told.startswith("there will be no run")


@pytest.mark.parametrize(
    "body",
    [
        {}, {"schedule": {"kind": "once", "at": "2027-01-01T00:00:00Z"}}, {"end_at": "2099-01-01T00:00:00Z"},
        {"schedule": {"kind": "interval", "every": "1h", "balanced": True}}, {"misfire": {"grace": "1s"}},
        {"start_at": "2027-01-01T00:00:00Z", "end_at": "2027-01-01T00:00:50Z"},
    ],
)  # fmt: skip
def test_a_job_that_will_run_is_not_warned_about(body: dict[str, object]) -> None:
    assert warned(**body) == ()


@pytest.mark.parametrize("policy", ["skip", "fire_once", "fire_all"])
def test_a_grace_that_no_leader_can_hold_is_warned_about(policy: str) -> None:
    (told,) = warned(misfire={"policy": policy, "grace": "0.1s"})
    assert told.startswith("misfire.grace 100ms is shorter than a leader can hold")
    assert policy in told


@pytest.mark.parametrize("rules", [{"dst_gap": "shift"}, {"dst_fold": "last"}, {"dst_gap": "skip", "dst_fold": "both"}])
def test_clock_rules_on_a_wildcard_line_are_said_to_have_no_effect(rules: dict[str, str]) -> None:
    told = parsed("*/20 3 * * *", **rules).warnings
    assert any("dst_gap and dst_fold have no effect" in text for text in told)
    assert not any("no effect" in text for text in parsed("0 3 * * *", **rules).warnings)
    assert not any("no effect" in text for text in parsed("*/20 3 * * *").warnings)


def test_a_wildcard_line_whose_whole_day_is_skipped_is_warned_about() -> None:
    (told,) = parsed("*/20 3 * * *", timezone="Europe/Athens").warnings
    assert told == "the clocks skip 03:00 to 04:00 on 2027-03-28 in Europe/Athens: the job does not run on that day"
    assert parsed("*/20 3,4 * * *", timezone="Europe/Athens").warnings == ()
    assert parsed("*/20 * * * *", timezone="Europe/Athens").warnings == ()


# Sentences


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        ("0 0 * * 1#1,3#2", "At 00:00, on the first Monday of the month or the second Wednesday of the month (UTC)"),
        ("0 0 * * 1#1,1#3", "At 00:00, on the first Monday of the month or the third Monday of the month (UTC)"),
        ("0 4 * * fri#2,fri#4", "At 04:00, on the second Friday of the month or the fourth Friday of the month (UTC)"),
        ("0 0 * * 5#1,L5", "At 00:00, on the first Friday of the month or the last Friday of the month (UTC)"),
        ("0 9-11,14-16 * * *", "At minute 0 of hour 9 to 11 and 14 to 16, every day (UTC)"),
        ("0 0 * * 0-7", "At 00:00, every day (UTC)"),
        ("0 0 * * 1-1", "At 00:00, on Monday (UTC)"),
        ("0 0 1,L * *", "At 00:00, on day 1 of the month or the last day of the month (UTC)"),
        ("0,0 0,0 * * *", "At 00:00, every day (UTC)"),
        ("0 0 L-1 * *", "At 00:00, on 1 day before the last day of the month (UTC)"),
        ("0 0 * * thursday", "At 00:00, only on Thursday (UTC)"),
    ],
)
def test_a_line_is_told_as_it_is_meant(expr: str, words: str) -> None:
    assert describe(parsed(expr).schedule) == words
