"""The vectorised engines against the plain model, and against croniter where both agree by rule."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scheduler_service.core.errors import BadValue
from scheduler_service.core.expansion import Entry, expand
from scheduler_service.core.instants import HOUR, MINUTE, SECOND, Instant, from_datetime
from scheduler_service.core.schedule import Schedule, count, latest, next_after, occurrences, parse_schedule
from scheduler_service.core.zones import changes_between
from tests.support.cron_lines import Line, lines
from tests.support.oracle import fires
from tests.support.tz_files import zone_names

ZONES = zone_names()
YEAR = 31_556_952
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


@st.composite
def windows(draw: st.DrawFn) -> tuple[str, Instant, Instant]:
    """A zone and a window, mostly one that begins, ends or lies around a jump of the zone's clocks."""
    name = draw(st.sampled_from(ZONES))
    year = draw(st.integers(0, 129))
    jumps = changes_between(name, year * YEAR, (year + 1) * YEAR)
    far_from_jumps = draw(st.integers(0, 9)) == 0
    if jumps and not far_from_jumps:
        jump = jumps[draw(st.integers(0, len(jumps) - 1))]
        start = jump.at + draw(st.integers(-4 * 60, 3 * 60)) * 60
    else:
        start = year * YEAR + draw(st.integers(0, YEAR))
    micros = start * SECOND + draw(st.sampled_from((0, 0, 0, 1, SECOND // 2)))
    length = draw(st.sampled_from((SECOND, MINUTE, 20 * MINUTE, HOUR, 100 * MINUTE, 5 * HOUR)))
    return name, micros, micros + length


def _parsed(line: Line, zone: str, gap: str, fold: str) -> Schedule:
    spec = {"kind": "cron", "expr": line.text, "timezone": zone, "dst_gap": gap, "dst_fold": fold}
    try:
        return parse_schedule(spec, job_id="", made_at=0).schedule
    except BadValue as refused:
        assume("never happens" not in str(refused))
        raise


def _whole_minutes(zone: str, start: Instant) -> bool:
    around = changes_between(zone, start // SECOND - 4 * 86_400, start // SECOND + 4 * 86_400)
    return all(n % 60 == 0 for change in around for n in (change.at, change.before, change.after))


def _hold_against_the_model(line: Line, window: tuple[str, Instant, Instant], gap: str, fold: str) -> None:
    zone, start, end = window
    # Liberia kept a clock 44 min 30 s behind until 1972: told second by second elsewhere.
    assume(zone != "Africa/Monrovia" or start > 3 * YEAR * SECOND)
    schedule = _parsed(line, zone, gap, fold)
    meaning = replace(line.meaning, gap=gap, fold=fold)
    expected = [s * SECOND for s in fires(meaning, zone, -(-start // SECOND), -(-end // SECOND))]
    assert occurrences(schedule, start, end) == expected
    assert expand([Entry(7, "job", schedule, start, end)], start, end).times.tolist() == expected
    assert count(schedule, start, end) == len(expected)
    assert latest(schedule, start, end) == (expected[-1] if expected else None)
    after = next_after(schedule, start - 1)
    assert after == expected[0] if expected else after is None or after >= end


RULES = (st.sampled_from(("next_valid", "shift", "skip")), st.sampled_from(("first", "last", "both")))


@settings(RELAXED, max_examples=250)
@given(lines(), windows(), *RULES)
def test_every_engine_fires_when_the_plain_model_does(
    line: Line, window: tuple[str, Instant, Instant], gap: str, fold: str
) -> None:
    _hold_against_the_model(line, window, gap, fold)


@pytest.mark.slow
@pytest.mark.timeout(240)
@settings(RELAXED, max_examples=20_000)
@given(lines(), windows(), *RULES)
def test_every_engine_fires_when_the_plain_model_does_twenty_thousand_times(
    line: Line, window: tuple[str, Instant, Instant], gap: str, fold: str
) -> None:
    _hold_against_the_model(line, window, gap, fold)


def _hold_against_croniter(line: Line, window: tuple[str, Instant, Instant]) -> None:
    zone, start, _ = window
    assume(line.plain and "LW" not in line.text)
    schedule = _parsed(line, zone, "next_valid", "first")
    ours: list[Instant] = []
    for _ in range(3):
        found = next_after(schedule, ours[-1] if ours else start)
        assume(found is not None)
        assert found is not None
        ours.append(found)
    # By rule both agree only while the zone's clocks do not jump.
    assume(not changes_between(zone, start // SECOND - 2 * 86_400, ours[-1] // SECOND + 2 * 86_400))
    begin = datetime.fromtimestamp(start // SECOND, UTC).astimezone(ZoneInfo(zone))
    theirs = croniter(line.text, begin)
    assert ours == [from_datetime(theirs.get_next(datetime).astimezone(UTC)) for _ in range(3)]


@settings(RELAXED, max_examples=150)
@given(lines(), windows())
def test_the_next_runs_are_those_of_croniter_where_no_clock_jumps(
    line: Line, window: tuple[str, Instant, Instant]
) -> None:
    _hold_against_croniter(line, window)


@pytest.mark.slow
@settings(RELAXED, max_examples=2_000)
@given(lines(), windows())
def test_the_next_runs_are_those_of_croniter_two_thousand_times(
    line: Line, window: tuple[str, Instant, Instant]
) -> None:
    _hold_against_croniter(line, window)
