"""Cron lines: what is refused and how fast, what is taken with a warning, and what a field means."""

import pytest

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.cron import read_line
from scheduler_service.core.schedules.cron_fields import MAX_ITEMS
from scheduler_service.core.schedules.schedule import ParsedSchedule, parse_schedule, upcoming
from tests.support.moments import at, clocks, cron, texts
from tests.support.work import calls_made

MOST_CALLS = 10_000
MADE = at("2026-11-27T10:00:00Z")


def _parsed(expr: str, timezone: str = "UTC", job_id: str = "", **rules: str) -> ParsedSchedule:
    spec = {"kind": "cron", "expr": expr, "timezone": timezone, **rules}
    return parse_schedule(spec, job_id=job_id, created_at=MADE)


def _refusal(expr: str) -> str:
    with pytest.raises(BadValue) as refused:
        _parsed(expr)
    return refused.value.allowed


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        ("61 * * * *", "minute: 0-59"),
        ("* * * ABC *", "month: 1-12"),
        ("* * 0 * *", "day of month: 1-31"),
        ("* * * * MOONDAY", "day of week: 0-7"),
        ("* * * * * 75", "second: 0-59"),
        ("0 0 1 1 * 0 1969", "year: 1970-2099"),
        ("* * * *", "this has 4"),
        ("@fortnightly", "@daily"),
        ("@every 5m", "interval"),
        ("CRON_TZ=UTC 0 0 * * *", "timezone"),
        ("R * * * *", "differ in every process"),
        ("H * * * *", "job id"),
        ("0 0 31 2 *", "never happens"),
        ("0 0 29 2 * 0 2100", "year: 1970-2099"),
        ("0 0 29 2 * 0 2025,2026,2027", "never happens"),
        ("0 0 * * *,5#3", "every day"),
        ("* " * 4 + "*" * 300, "at most 256"),
        (",".join(["1"] * 70) + " * * * *", "at most 60 items"),
        ("*/" + "9" * 21 + " * * * *", "absurdly large"),
        ("* * * * *\u00a0", "printable ASCII"),
        ("", "give 5 fields"),
    ],
)
def test_a_refusal_names_the_field_and_what_is_allowed(expr: str, said: str) -> None:
    assert said in _refusal(expr)


@pytest.mark.parametrize(
    "expr", ["0 0 31 2 *", "0 0 30 2 * 0", "* * 31 4,6,9,11 *", "0 0 29 2 * 0 2001-2003", "0 0 31 11 *"]
)
def test_a_date_that_never_comes_is_refused_without_a_long_search(expr: str) -> None:
    read_line("0 0 29 2 *", "or", "")  # the calendar's table is made once a process
    for day_match in ("or", "and"):

        def refused(day_match: str = day_match) -> None:
            with pytest.raises(BadValue):
                read_line(expr, day_match, "")

        assert calls_made(refused) < MOST_CALLS


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        ("*/61 * * * *", "the step is larger"),
        ("0 0 1 */13 *", "the step is larger"),
        ("0 22-2 * * *", "wraps past 23 to 0"),
        ("0 0 * * FRI-MON", "wraps"),
        ("0 0 13 * 5", "EITHER"),
        ("0 0 8 * 5#3", "EITHER"),
        ("* * * * * */5", "every 10 seconds"),
        ("* * * * * 0,55", "every 10 seconds"),
    ],
)
def test_what_is_odd_but_meant_is_taken_with_a_warning(expr: str, said: str) -> None:
    assert any(said in warning for warning in _parsed(expr).warnings)


@pytest.mark.parametrize(
    "expr",
    [
        "*/15 * * * *", "0 0 * * MON-SUN", "0 0 1,15 * *", "* * * * * 0,30", "0 2 * * *", "*/59 * * * *",
        "0 0 1 */11 *",
    ],
)  # fmt: skip
def test_an_everyday_line_is_taken_without_a_word(expr: str) -> None:
    assert _parsed(expr).warnings == ()


def test_a_time_that_the_clocks_skip_or_repeat_is_told_with_its_date() -> None:
    skipped, repeated = _parsed("30 2 * * *", "Europe/Berlin").warnings
    assert "skip 02:00 to 03:00 on 2027-03-28" in skipped
    assert "starts at 03:00 instead" in skipped
    assert "02:00 to 03:00 on 2027-10-31" in repeated
    assert "once, the first time" in repeated
    assert _parsed("30 2 * * 1", "Europe/Berlin").warnings == ()
    assert _parsed("30 * * * *", "Europe/Berlin").warnings == ()


def test_the_warning_says_what_the_jobs_own_rules_make_of_it() -> None:
    told = " ".join(_parsed("30 2 * * *", "Europe/Berlin", dst_gap="skip", dst_fold="both").warnings)
    assert "is left out" in told
    assert "starts both times" in told


def test_a_line_with_seconds_keeps_both_passes_unless_told_otherwise() -> None:
    before = at("2025-11-02T04:30:00Z")
    assert clocks(upcoming(cron("0 1 * * * 30", "America/New_York"), before, 2)) == ["05:00", "06:00"]
    once = cron("0 1 * * * 30", "America/New_York", dst_fold="first")
    assert texts(upcoming(once, before, 2)) == ["2025-11-02T05:00:30Z", "2025-11-03T06:00:30Z"]


@pytest.mark.parametrize("expr", ["0 0 1-0 * *", "0 0 5-0/2 * *", "0 0 * 1-0 *", "0 0 3,9-00 * *"])
def test_no_range_ends_at_a_day_or_month_zero(expr: str) -> None:
    with pytest.raises(BadValue, match=r"1-31|1-12"):
        read_line(expr, "or", "")


def test_a_list_has_as_many_items_as_it_says_and_no_more() -> None:
    minutes = [str(n % 60) for n in range(MAX_ITEMS + 1)]
    assert read_line(f"{','.join(minutes[:-1])} 0 * * *", "or", "").pattern.minutes == (1 << 60) - 1
    with pytest.raises(BadValue, match=f"at most {MAX_ITEMS} items"):
        read_line(f"{','.join(minutes)} 0 * * *", "or", "")


def test_a_range_with_equal_bounds_is_that_one_value() -> None:
    assert read_line("5-5 0 * * *", "or", "").pattern.minutes == 1 << 5
    assert read_line("0 0 * * SUN-0", "or", "").pattern.days.weekdays == 1
    assert read_line("0 0 * * 0-7", "or", "").pattern.days.weekdays == 127


def test_the_day_fields_are_both_needed_when_one_of_them_starts_with_a_star() -> None:
    start = at("2024-01-01T00:00:00Z")
    assert texts(upcoming(cron("0 0 */2 * MON"), start, 1)) == ["2024-01-15T00:00:00Z"]
    assert texts(upcoming(cron("0 0 13 * 5", day_match="and"), start, 1)) == ["2024-09-13T00:00:00Z"]


def test_a_hashed_field_is_the_same_for_the_same_job_and_spreads_over_others() -> None:
    line = "H H * * *"
    assert _parsed(line, job_id="a").schedule is _parsed(line, job_id="a").schedule
    assert len({_parsed(line, job_id=f"job{n}").schedule for n in range(50)}) > 40
