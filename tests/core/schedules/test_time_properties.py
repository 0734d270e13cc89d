"""The vectorised engines against the plain model, and against croniter where both agree by rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random

import pytest
from croniter import croniter
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant, from_datetime
from scheduler_service.core.index.expansion import Entry, expand
from scheduler_service.core.schedules.dialects import DIALECTS
from scheduler_service.core.schedules.schedule import Schedule, count, latest, next_after, occurrences, parse_schedule
from scheduler_service.core.schedules.zones import changes_between
from scheduler_service.core.schedules.zones import zone as load_zone
from tests.support.cron_lines import Line, random_line, random_line_of
from tests.support.examples import examples
from tests.support.jumps import YEAR, zone_and_moment
from tests.support.oracle import fires

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


Window = tuple[str, Instant, Instant]
RULES = [(gap, fold) for gap in ("next_valid", "shift", "skip") for fold in ("first", "last", "both")]


@dataclass(frozen=True)
class Case:
    """A random line with its rules in a random window; all of it follows from `seed`."""

    seed: int
    line: Line
    window: Window
    gap: str
    fold: str


@st.composite
def cases(draw: st.DrawFn, near_jumps: float = 0.9, dialects: Sequence[str | None] = (None,)) -> Case:
    """Cases whose windows begin, end or lie around a jump of the zone's clocks, so many of them."""
    return case_of(draw(st.integers(0, 2**60)), near_jumps, draw(st.sampled_from(dialects)))


def case_of(seed: int, near_jumps: float = 0.9, dialect: str | None = None) -> Case:
    """The case of a seed."""
    dice = Random(seed)
    gap, fold = dice.choice(RULES)
    line = random_line(dice, dice.random() < 0.3) if dialect is None else random_line_of(dialect, dice)
    return Case(seed, line, _window(dice, near_jumps), gap, fold)


def _window(dice: Random, near_jumps: float) -> Window:
    name, start = zone_and_moment(dice, near_jumps)
    micros = start * SECOND + dice.choice((0, 0, 0, 1, SECOND // 2))
    length = dice.choice((SECOND, MINUTE, 20 * MINUTE, HOUR, *(hours * HOUR for hours in range(2, 10))))
    return name, micros, micros + length


class _NotCompared(Exception):
    """Model and product, or croniter, need not agree here."""


def _hold_many(number: int, hold: Callable[[Case], None], near_jumps: float, dialects: Sequence[str | None]) -> None:
    """Hold so many new random cases: hypothesis could make none of them smaller, and takes an eighth of the time."""
    dice, held = Random(), 0
    while held < number:
        case = case_of(dice.randrange(2**60), near_jumps, dice.choice(dialects))
        try:
            hold(case)
            held += 1
        except _NotCompared:
            pass
        except Exception as exc:
            exc.add_note(f"{near_jumps=}: {case}")
            raise


def _hold_or_assume(hold: Callable[[Case], None], case: Case) -> None:
    try:
        hold(case)
    except _NotCompared:
        assume(False)


def _parsed(line: Line, zone: str, gap: str, fold: str) -> Schedule:
    spec = {"kind": "cron", "expr": line.text, "timezone": zone, "dst_gap": gap, "dst_fold": fold}
    if line.dialect is not None:
        spec["dialect"] = line.dialect
    try:
        return parse_schedule(spec, job_id="", created_at=0).schedule
    except BadValue as refused:
        if "never happens" in str(refused):
            raise _NotCompared from None
        raise


def _hold_against_the_model(case: Case) -> None:
    zone, start, end = case.window
    # Liberia kept a clock 44 min 30 s behind until 1972: told second by second elsewhere.
    if zone == "Africa/Monrovia" and start <= 3 * YEAR * SECOND:
        raise _NotCompared
    schedule = _parsed(case.line, zone, case.gap, case.fold)
    meaning = replace(case.line.meaning, gap=case.gap, fold=case.fold)
    expected = [s * SECOND for s in fires(meaning, zone, -(-start // SECOND), -(-end // SECOND))]
    assert occurrences(schedule, start, end) == expected
    assert expand([Entry(7, "job", schedule, start, end)], start, end).times.tolist() == expected
    assert count(schedule, start, end) == len(expected)
    assert latest(schedule, start, end) == (expected[-1] if expected else None)
    after = next_after(schedule, start - 1)
    assert after == expected[0] if expected else after is None or after >= end


@pytest.mark.slow
def test_the_random_cases_fire_and_meet_the_jumps_often_enough_to_show_anything() -> None:
    fired = met = 0
    for case in map(case_of, range(400)):
        zone, start, end = case.window
        times = occurrences(_parsed(case.line, zone, case.gap, case.fold), start, end)
        jumps = changes_between(zone, start // SECOND - 2 * 3600, end // SECOND)
        fired += bool(times)
        met += bool(times) and bool(jumps) and not case.line.meaning.wildcard
    assert fired > 110
    assert met > 30


@settings(RELAXED, max_examples=examples(200))
@given(cases())
def test_every_engine_fires_when_the_plain_model_does(case: Case) -> None:
    _hold_or_assume(_hold_against_the_model, case)


@settings(RELAXED, max_examples=examples(60))
@given(cases(dialects=DIALECTS))
def test_a_line_of_quartz_or_spring_fires_when_it_does_there(case: Case) -> None:
    _hold_or_assume(_hold_against_the_model, case)


@pytest.mark.slow
def test_every_engine_fires_when_the_plain_model_does_twenty_thousand_times() -> None:
    _hold_many(20_000, _hold_against_the_model, 0.9, (None, None, *DIALECTS))


def _hold_against_croniter(case: Case) -> None:
    (zone, start, _), line = case.window, case.line
    if not line.plain or "LW" in line.text:
        raise _NotCompared
    schedule = _parsed(line, zone, "next_valid", "first")
    ours: list[Instant] = []
    for _ in range(3):
        found = next_after(schedule, ours[-1] if ours else start)
        if found is None:
            raise _NotCompared
        ours.append(found)
    # By rule both agree only while the zone's clocks do not jump.
    if changes_between(zone, start // SECOND - 2 * 86_400, ours[-1] // SECOND + 2 * 86_400):
        raise _NotCompared
    begin = datetime.fromtimestamp(start // SECOND, UTC).astimezone(load_zone(zone))
    theirs = croniter(line.text, begin)
    assert ours == [from_datetime(theirs.get_next(datetime).astimezone(UTC)) for _ in range(3)]


@settings(RELAXED, max_examples=examples(150))
@given(cases(near_jumps=0))
def test_the_next_runs_are_those_of_croniter_where_no_clock_jumps(case: Case) -> None:
    _hold_or_assume(_hold_against_croniter, case)


@pytest.mark.slow
def test_the_next_runs_are_those_of_croniter_two_thousand_times() -> None:
    _hold_many(2_000, _hold_against_croniter, 0, (None,))
