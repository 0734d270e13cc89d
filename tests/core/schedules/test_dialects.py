"""Lines of Quartz and Spring, as their documentation means them, beside a plain walk over the calendar."""

from calendar import monthrange
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import from_datetime
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.schedule import ParsedSchedule, in_own_dialect, occurrences, parse_schedule
from tests.support.moments import at

NOW = at("2026-11-28T16:00:00Z")
MON, TUE, WED, THU, FRI, SAT, SUN = range(7)
FIRST, LAST = date(2026, 1, 1), date(2028, 12, 31)


def parsed(dialect: object, expr: str, **more: Any) -> ParsedSchedule:
    spec = {"kind": "cron", "expr": expr, "dialect": dialect, **more}
    return parse_schedule(spec, job_id="a", created_at=NOW)


def refused(dialect: object, expr: str, **more: Any) -> BadValue:
    with pytest.raises(BadValue) as found:
        parsed(dialect, expr, **more)
    return found.value


def length(day: date) -> int:
    return monthrange(day.year, day.month)[1]


def workday(day: date, target: int) -> bool:
    """Whether a day is the weekday nearest to a day of its month, without leaving the month."""
    near = [day.replace(day=n) for n in range(1, length(day) + 1) if day.replace(day=n).weekday() < SAT]
    return day == min(near, key=lambda d: (abs(d.day - target), d.day))


def nth(day: date, weekday: int, which: int) -> bool:
    return day.weekday() == weekday and (day.day - 1) // 7 + 1 == which


def last(day: date, weekday: int) -> bool:
    return day.weekday() == weekday and day.day > length(day) - 7


def every(_: date) -> bool:
    return True


Clock = tuple[int, int, int]
Fact = tuple[str, Iterable[Clock], Callable[[date], bool]]
AT_10_15, NOON, MIDNIGHT, NINE = [(10, 15, 0)], [(12, 0, 0)], [(0, 0, 0)], [(9, 0, 0)]

# The examples of the CronTrigger tutorial, and what its tables say beside them.
QUARTZ: list[Fact] = [
    ("0 0 12 * * ?", NOON, every),
    ("0 15 10 ? * *", AT_10_15, every),
    ("0 15 10 * * ?", AT_10_15, every),
    ("0 15 10 * * ? *", AT_10_15, every),
    ("0 15 10 * * ? 2027", AT_10_15, lambda d: d.year == 2027),
    ("0 15 10 ? * 6L 2026-2027", AT_10_15, lambda d: last(d, FRI) and d.year < 2028),
    ("0 * 14 * * ?", [(14, m, 0) for m in range(60)], every),
    ("0 0/5 14,18 * * ?", [(h, m, 0) for h in (14, 18) for m in range(0, 60, 5)], every),
    ("0 /5 14 * * ?", [(14, m, 0) for m in range(0, 60, 5)], every),
    ("0 0-5 14 * * ?", [(14, m, 0) for m in range(6)], every),
    ("0 10,44 14 ? 3 WED", [(14, 10, 0), (14, 44, 0)], lambda d: d.month == 3 and d.weekday() == WED),
    ("0 15 10 ? * MON-FRI", AT_10_15, lambda d: d.weekday() < SAT),
    ("0 15 10 ? * 2-6", AT_10_15, lambda d: d.weekday() < SAT),
    ("0 15 10 15 * ?", AT_10_15, lambda d: d.day == 15),
    ("0 15 10 L * ?", AT_10_15, lambda d: d.day == length(d)),
    ("0 15 10 L-2 * ?", AT_10_15, lambda d: d.day == length(d) - 2),
    ("0 15 10 LW * ?", AT_10_15, lambda d: workday(d, length(d))),
    ("0 15 10 15W * ?", AT_10_15, lambda d: workday(d, 15)),
    ("0 15 10 1W,15W * ?", AT_10_15, lambda d: workday(d, 1) or workday(d, 15)),
    ("0 15 10 ? * 6L", AT_10_15, lambda d: last(d, FRI)),
    ("0 15 10 ? * FRIL", AT_10_15, lambda d: last(d, FRI)),
    ("0 15 10 ? * L", AT_10_15, lambda d: d.weekday() == SAT),
    ("0 15 10 ? * 6#3", AT_10_15, lambda d: nth(d, FRI, 3)),
    ("0 15 10 ? * 2#1", AT_10_15, lambda d: nth(d, MON, 1)),
    ("0 15 10 ? * 1,7", AT_10_15, lambda d: d.weekday() in (SUN, SAT)),
    ("0 15 10 ? * 1-7/2", AT_10_15, lambda d: d.weekday() in (SUN, TUE, THU, SAT)),
    ("0 15 10 ? * 2/2", AT_10_15, lambda d: d.weekday() in (MON, WED, FRI)),
    ("0 15 10 ? * */3", AT_10_15, lambda d: d.weekday() in (SUN, WED, SAT)),
    ("0 15 10 ? * FRI-MON", AT_10_15, lambda d: d.weekday() in (FRI, SAT, SUN, MON)),
    ("0 15 10 ? * thursday", AT_10_15, lambda d: d.weekday() == THU),
    ("0 0 12 1/5 * ?", NOON, lambda d: (d.day - 1) % 5 == 0),
    ("0 11 11 11 11 ?", [(11, 11, 0)], lambda d: (d.month, d.day) == (11, 11)),
    ("0 15 10 ? NOV-FEB SUN", AT_10_15, lambda d: d.month in (11, 12, 1, 2) and d.weekday() == SUN),
    ("5/20 0 0 1 JAN ? 2026/2", [(0, 0, s) for s in (5, 25, 45)], lambda d: d in (date(2026, 1, 1), date(2028, 1, 1))),
]  # fmt: skip

# The examples of the reference documentation on cron expressions, and the rules of CronExpression.parse.
SPRING: list[Fact] = [
    ("0 0 * * * *", [(h, 0, 0) for h in range(24)], every),
    ("*/10 30 8 * * *", [(8, 30, s) for s in range(0, 60, 10)], every),
    ("0 0 8-10 * * *", [(h, 0, 0) for h in (8, 9, 10)], every),
    ("0 0 6,19 * * *", [(6, 0, 0), (19, 0, 0)], every),
    ("0 0/30 8-10 * * *", [(h, m, 0) for h in (8, 9, 10) for m in (0, 30)], every),
    ("0 0 9-17 * * MON-FRI", [(h, 0, 0) for h in range(9, 18)], lambda d: d.weekday() < SAT),
    ("0 0 0 25 DEC ?", MIDNIGHT, lambda d: (d.month, d.day) == (12, 25)),
    ("0 0 0 L * *", MIDNIGHT, lambda d: d.day == length(d)),
    ("0 0 0 L-3 * *", MIDNIGHT, lambda d: d.day == length(d) - 3),
    ("0 0 0 * * 5L", MIDNIGHT, lambda d: last(d, FRI)),
    ("0 0 0 * * THUL", MIDNIGHT, lambda d: last(d, THU)),
    ("0 0 0 1W * *", MIDNIGHT, lambda d: workday(d, 1)),
    ("0 0 0 LW * *", MIDNIGHT, lambda d: workday(d, length(d))),
    ("0 0 0 ? * 5#2", MIDNIGHT, lambda d: nth(d, FRI, 2)),
    ("0 0 0 ? * MON#1", MIDNIGHT, lambda d: nth(d, MON, 1)),
    ("0 0 9 * * 0", NINE, lambda d: d.weekday() == SUN),
    ("0 0 9 * * 7", NINE, lambda d: d.weekday() == SUN),
    ("0 0 9 * * 7L", NINE, lambda d: last(d, SUN)),
    ("0 0 9 * * 0#2", NINE, lambda d: nth(d, SUN, 2)),
    ("0 0 9 * * FRI-SUN", NINE, lambda d: d.weekday() in (FRI, SAT, SUN)),
    ("0 0 9 * * 5-7", NINE, lambda d: d.weekday() in (FRI, SAT, SUN)),
    ("0 0 9 * * SUN-TUE", NINE, lambda d: d.weekday() in (SUN, MON, TUE)),
    ("0 0 9 * * 0-7", NINE, every),
    ("0 0 9 * * 1-7/2", NINE, lambda d: d.weekday() in (MON, WED, FRI, SUN)),
    ("0 0 9 * * 6-6", NINE, lambda d: d.weekday() == SAT),
    ("0 0 0 13 * FRI", MIDNIGHT, lambda d: d.day == 13 and d.weekday() == FRI),
    ("0 0 9 1-7 * 1", NINE, lambda d: nth(d, MON, 1)),
    ("@hourly", [(h, 0, 0) for h in range(24)], every),
    ("@daily", MIDNIGHT, every),
    ("@midnight", MIDNIGHT, every),
    ("@weekly", MIDNIGHT, lambda d: d.weekday() == SUN),
    ("@monthly", MIDNIGHT, lambda d: d.day == 1),
    ("@yearly", MIDNIGHT, lambda d: (d.month, d.day) == (1, 1)),
    ("@annually", MIDNIGHT, lambda d: (d.month, d.day) == (1, 1)),
]


@pytest.mark.parametrize(
    ("dialect", "expr", "clocks", "meant"),
    [("quartz", *fact) for fact in QUARTZ] + [("spring", *fact) for fact in SPRING],
)
def test_a_line_means_what_it_means_in_its_program(
    dialect: str, expr: str, clocks: Iterable[Clock], meant: Callable[[date], bool]
) -> None:
    times = list(clocks)
    # A line of many times a day says the same in half a year as in three.
    end = LAST if len(times) < 4 else FIRST + timedelta(days=180)
    days = [FIRST + timedelta(days=n) for n in range((end - FIRST).days) if meant(FIRST + timedelta(days=n))]
    wanted = [from_datetime(datetime(d.year, d.month, d.day, *time, tzinfo=UTC)) for d in days for time in times]
    start, after = (from_datetime(datetime(d.year, d.month, d.day, tzinfo=UTC)) for d in (FIRST, end))
    found = parsed(dialect, expr)
    assert found.warnings == () or any("wraps" in text or "10 seconds" in text for text in found.warnings)
    assert occurrences(found.schedule, start, after) == wanted
    # What is exported, or read by another program, is the same in this service's own dialect.
    own = in_own_dialect(found.spec)
    assert "dialect" not in own
    assert parse_schedule(own, job_id="a", created_at=NOW).schedule == found.schedule


@pytest.mark.parametrize(
    ("dialect", "expr", "advice"),
    [
        (
            "quartz",
            "0 12 * * ?",
            "this has 5; for a line of this service's own dialect omit dialect (in an edit: null)",
        ),
        ("quartz", "@daily", "a line of Quartz has 6 fields (second, minute, hour"),
        ("quartz", "0 0 12 * * *", "Quartz wants ? in one of the two day fields"),
        ("quartz", "0 0 12 ? * ?", "Quartz wants ? in one of the two day fields"),
        ("quartz", "0 0 12 13 * FRI", "Quartz wants ? in one of the two day fields"),
        ("quartz", "0 0 12 ? * 0", "'0' is not understood as day of week of Quartz: 1-7 (1 is Sunday)"),
        ("quartz", "0 0 12 ? * 8", "1-7 (1 is Sunday)"),
        ("quartz", "0 0 12 ? * 0L", "1-7 (1 is Sunday)"),
        ("quartz", "0 0 12 ? * 6#6", "1-7 (1 is Sunday)"),
        ("quartz", "0 0 12 ? * L6", "1-7 (1 is Sunday)"),
        ("quartz", "0 0 12 ? * FRI-MON/2", "1-7 (1 is Sunday)"),
        ("quartz", "0 0 12 ? * 2,?", "1-7 (1 is Sunday)"),
        ("quartz", "0 ? 12 ? * 2", "? may only stand for the day of month or the day of week"),
        ("quartz", "0 0 12 ? * 2 ?", "? may only stand for"),
        ("quartz", "0 0 12 ? * 2 1969", "year: 1970-2099"),
        ("quartz", "0 0 H * * ?", "Quartz has no H"),
        ("quartz", "61 0 12 * * ?", "second: 0-59"),
        ("quartz", "0 0 12 31 2 ?", "this date never happens"),
        ("spring", "0 0 12 * * ? 2027", "a line of Spring has 6 fields"),
        ("spring", "0 9 * * *", "this has 5"),
        ("spring", "@every 5m", "interval"),
        ("spring", "0 0 9 * * 8", "0-7 (0 and 7 are Sunday)"),
        ("spring", "0 0 9 * * L", "0-7 (0 and 7 are Sunday)"),
        ("spring", "0 0 9 * * 5-2", "0-7 (0 and 7 are Sunday)"),
        ("spring", "0 0 9 * * */2", "steps in a range"),
        ("spring", "0 0 9 * * 1/2", "steps in a range"),
        ("spring", "0 0 9 H * *", "Spring has no H"),
        ("spring", "0 0 24 * * *", "hour: 0-23"),
    ],
)
def test_what_that_program_would_not_read_so_is_refused_with_what_it_would(
    dialect: str, expr: str, advice: str
) -> None:
    found = refused(dialect, expr)
    assert (found.field, found.value) == ("schedule.expr", expr)
    assert advice in found.allowed
    assert "did you mean" not in found.allowed


@pytest.mark.parametrize("given", ["Quartz", "unix", "", 1, ["quartz"], True])
def test_an_unknown_dialect_is_refused_by_name(given: object) -> None:
    found = refused(given, "0 0 9 * * ?")
    assert found.field == "schedule.dialect"
    assert "quartz, spring" in found.allowed


def test_only_cron_lines_have_a_dialect() -> None:
    with pytest.raises(BadValue, match=r"schedule\.dialect"):
        parse_schedule({"kind": "hourly", "minute": 5, "dialect": "spring"}, job_id="a", created_at=NOW)


@pytest.mark.parametrize(
    ("expr", "dialects"),
    [
        ("0 0 12 * * ?", '"quartz" or "spring"'),
        ("0 15 10 ? * 6L", '"quartz" or "spring"'),
        ("0 0 12 ? * L", '"quartz"'),
        ("0 0 12 ? * WED 2027", '"quartz"'),
        ("0 30 9 * * MON", '"spring"'),
    ],
)
def test_without_the_field_a_line_is_refused_with_the_dialects_that_read_it(expr: str, dialects: str) -> None:
    assert f"give the field dialect: {dialects}; " in refused(None, expr).allowed
    for dialect in ("quartz", "spring"):
        if f'"{dialect}"' in dialects:
            parsed(dialect, expr)
        else:
            refused(dialect, expr)


def test_without_the_field_a_line_that_is_valid_here_keeps_its_meaning_and_names_the_field() -> None:
    ours = parsed(None, "0 0 9 * * *")
    assert ours.warnings[0] == (
        "seconds are last here; did you mean '0 9 * * *'? "
        'For a line of another program give the field dialect: "spring"'
    )
    assert occurrences(ours.schedule, at("2026-12-01T00:00:00Z"), at("2026-12-02T00:00:00Z")) == []
    assert parsed("spring", "0 0 9 * * *").warnings == ()


def test_the_stored_spec_keeps_the_line_as_it_was_written_and_names_the_dialect_only_where_it_is_given() -> None:
    assert parsed("quartz", " 0 15  10 ? * FRI#3 2027 ").spec == {
        "kind": "cron", "expr": "0 15 10 ? * FRI#3 2027", "dialect": "quartz", "timezone": "UTC", "day_match": "or",
        "dst_gap": "next_valid", "dst_fold": "first",
    }  # fmt: skip
    assert "dialect" not in parsed(None, "0 9 * * *").spec


@pytest.mark.parametrize(
    ("dialect", "expr", "fold"),
    [
        ("quartz", "0 30 2 * * ? 2027", "first"), ("quartz", "00 30 2 * * ?", "first"),
        ("spring", "0 30 2 * * *", "first"), ("quartz", "5 30 2 * * ?", "both"), ("spring", "*/20 30 2 * * *", "both"),
    ],
)  # fmt: skip
def test_a_line_names_seconds_where_they_are_not_0(dialect: str, expr: str, fold: str) -> None:
    assert parsed(dialect, expr).spec["dst_fold"] == fold
    assert not any("no effect" in text for text in parsed(dialect, expr).warnings)


def test_spring_joins_its_day_fields_by_and_alone() -> None:
    assert parsed("spring", "0 0 0 13 * FRI").spec["day_match"] == "and"
    found = refused("spring", "0 0 0 13 * FRI", day_match="or")
    assert (found.field, found.value) == ("schedule.day_match", "or")
    # Where one field is open, both ways of joining say the same: an edit may leave what was stored.
    assert parsed("spring", "0 0 0 13 * ?", day_match="or").spec["day_match"] == "or"


@pytest.mark.parametrize(
    ("dialect", "expr", "words"),
    [
        ("quartz", "0 15 10 ? * 6L", "At 10:15, on the last Friday of the month (UTC)"),
        ("quartz", "0 15 10 ? * 2-6", "At 10:15, Monday through Friday (UTC)"),
        ("quartz", "0 15 10 ? * 6#3 2027-2028", "At 10:15, on the third Friday of the month, in 2027 to 2028 (UTC)"),
        ("spring", "0 0 0 13 * FRI", "At 00:00, on day 13 of the month that is also Friday (UTC)"),
        ("spring", "5 0 9 * * *", "At 09:00:05 (UTC)"),
    ],
)
def test_a_line_is_told_as_it_is_meant_in_its_program(dialect: str, expr: str, words: str) -> None:
    assert describe(parsed(dialect, expr).schedule) == words


def test_equal_times_of_different_dialects_are_one_schedule_for_the_index() -> None:
    ours = parsed(None, "0 9 * * 1-5").schedule
    assert parsed("quartz", "0 0 9 ? * 2-6").schedule == ours == parsed("spring", "0 0 9 * * MON-FRI").schedule
