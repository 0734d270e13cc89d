"""Instants and durations against their texts."""

import json
import re
from datetime import date, datetime, time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import (
    DAY,
    LONGEST_DURATION,
    MILLISECOND,
    SECOND,
    format_duration,
    format_instant,
    from_datetime,
    parse_duration,
    parse_instant,
    spelt_out,
    to_datetime,
)
from itinerary.protocol.run_fields import RetryPolicy, retry_body
from scheduler_service.core.contract.fields import read_retry

INSTANTS = st.integers(-62_135_596_800 * SECOND, 253_402_300_799 * SECOND)


@given(INSTANTS)
def test_an_instant_survives_its_text(instant: int) -> None:
    assert parse_instant(format_instant(instant)) == instant
    assert from_datetime(to_datetime(instant)) == instant


WHOLE_RANGE = st.integers(0, LONGEST_DURATION)
WHOLE_MILLISECONDS = st.integers(0, LONGEST_DURATION // MILLISECOND).map(lambda number: number * MILLISECOND)


@given(st.integers(0, 900 * 86_400 * SECOND) | WHOLE_RANGE | WHOLE_MILLISECONDS)
@example(8_506_582_969 * MILLISECOND)
@example(1_000_000_001 * MILLISECOND)
@example(LONGEST_DURATION)
def test_a_duration_survives_its_text(duration: int) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(st.integers(0, 30 * DAY), st.integers(0, 30 * DAY), st.integers(1, 1000), st.floats(1, 100), st.booleans())
@example(SECOND, 1_000_000_001 * MILLISECOND, 3, 2.0, True)
def test_a_retry_policy_survives_its_text(initial: int, most: int, attempts: int, factor: float, jitter: bool) -> None:
    policy = RetryPolicy(attempts, initial, factor, most, jitter)
    assert read_retry(json.loads(json.dumps(retry_body(policy))), "retry") == policy


def test_a_duration_that_the_release_before_stored_is_read() -> None:
    assert parse_duration("1000000001ms") == 1_000_000_001 * MILLISECOND


def test_a_duration_that_no_database_can_keep_is_refused() -> None:
    with pytest.raises(BadValue, match=r"every: .*at most"):
        parse_duration(f"{'9' * 16}s", "every")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("25m", 1500), ("2h", 7200), ("1d", 86400), ("PT25M", 1500), ("P1DT1H", 90000), ("1h30m", 5400)],
)
def test_the_spellings_of_the_contract_are_read(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds * SECOND


@pytest.mark.parametrize("fraction", ["", ".1", ".12", ".123", ".000004", ".999999"])
def test_a_time_in_utc_is_the_same_however_its_zone_is_written(fraction: str) -> None:
    # Those with Z are read by parts, since most times of a second are those of many runs.
    second = "2026-11-27T10:00:00"
    known = parse_instant(f"{second}{fraction}+00:00")
    assert parse_instant(f"{second}{fraction}Z") == parse_instant(f"{second}{fraction}z") == known


@pytest.mark.parametrize("fraction", [".", ".1234567", ".-1", ".\u0661", ",1", "0"])
def test_a_fraction_is_one_to_six_digits_after_a_point(fraction: str) -> None:
    with pytest.raises(BadValue):
        parse_instant(f"2026-11-27T10:00:00{fraction}Z")


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "5 m", "5m5m", "P", "PT", "1h30", "١m", "9" * 30 + "s", 5, None])
def test_what_is_no_duration_is_refused_by_name(text: object) -> None:
    with pytest.raises(BadValue, match=r"every: .*give a duration such as"):
        parse_duration(text, "every")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-01T01:00:00Z", "2026-12-01T01:00:00Z"),
        ("2026-12-01T02:00:00+01:00", "2026-12-01T01:00:00Z"),
        ("2026-12-01T01:00:00.250000Z", "2026-12-01T01:00:00.25Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_times_are_told_in_utc_with_trailing_zeros_cut(text: str, expected: str) -> None:
    assert format_instant(parse_instant(text)) == expected


@pytest.mark.parametrize(
    "text", ["2026-12-01", "2026-12-01T01:00:00", "2026-13-01T01:00:00Z", "2026-02-30T00:00:00Z", "now", "", 5, None]
)
def test_what_is_no_instant_is_refused_by_name(text: object) -> None:
    with pytest.raises(BadValue, match="run_at"):
        parse_instant(text, "run_at")


DIGITS = st.text("0123456789", min_size=1, max_size=9)
OFFSETS = st.sampled_from(["", "Z", "z", "+00:00", "-05:30", "+23:59", "-00:00", "+24:00", "+01:00:30", "+01", "Z0"])
CLOCKS = st.builds(time.isoformat, st.times(), st.sampled_from(["seconds", "minutes"])) | st.builds(
    "{}:{}".format, DIGITS, DIGITS
)
FRACTIONS = st.just("") | st.builds("{}{}".format, st.sampled_from(".,"), DIGITS)
READ_BY_3_10 = re.compile(r"\d{4}-\d\d-\d\d.\d\d:\d\d(:\d\d)?([.]\d{6})?([+-]\d\d:\d\d(:\d\d([.]\d{6})?)?)?", re.ASCII)


def what_python_reads(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


@given(st.dates(), st.sampled_from("T t"), CLOCKS, FRACTIONS, OFFSETS)
@example(date(2026, 12, 1), "T", "12:00:00", ".5", "Z")
@example(date(2026, 12, 1), "T", "12:00", "", "Z")
@example(date(2026, 12, 1), "T", "12:00:00", ",1234567", "-05:30")
def test_a_time_is_spelt_out_as_python_3_10_reads_it_and_stays_the_same(
    day: date, mark: str, clock: str, fraction: str, offset: str
) -> None:
    text = f"{day.isoformat()}{mark}{clock}{fraction}{offset}"
    read = what_python_reads(text)
    assert what_python_reads(spelt_out(text)) == read
    assert what_python_reads(spelt_out(day.isoformat())) == what_python_reads(day.isoformat())
    if read is not None and offset != "+01":
        assert READ_BY_3_10.fullmatch(spelt_out(text))


@given(st.datetimes(), FRACTIONS.filter(lambda text: len(text) <= 7 and "," not in text), OFFSETS)
def test_an_instant_is_what_python_reads(moment: datetime, fraction: str, offset: str) -> None:
    text = f"{moment.replace(microsecond=0).isoformat()}{fraction}{offset}"
    expected = what_python_reads(text.replace("z", "Z"))
    if expected is None or expected.tzinfo is None or len(offset) not in (1, 6):
        with pytest.raises(BadValue):
            parse_instant(text)
    else:
        assert parse_instant(text) == from_datetime(expected)


def test_a_naive_datetime_names_no_instant() -> None:
    with pytest.raises(ValueError, match="zone"):
        from_datetime(datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("text", "in_range"),
    [
        ("0001-01-01T00:00:00Z", True),
        ("0001-01-01T00:01:00+00:01", True),
        ("0001-01-01T00:00:00+00:01", False),
        ("9999-12-31T23:59:59.999999Z", True),
        ("9999-12-31T23:58:59.999999-00:01", True),
        ("9999-12-31T23:59:00-00:01", False),
    ],
)
def test_a_time_whose_offset_leads_out_of_the_years_is_refused(text: str, in_range: bool) -> None:
    if in_range:
        assert parse_instant(format_instant(parse_instant(text))) == parse_instant(text)
    else:
        with pytest.raises(BadValue, match="years 1 to 9999"):
            parse_instant(text)
