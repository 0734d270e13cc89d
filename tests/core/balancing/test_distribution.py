"""The score and the words for it: one place, and what it must never do."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from itinerary.protocol.instants import HOUR
from scheduler_service.core.balancing.distribution import Distribution, distribution_body, score_of, suggestion
from scheduler_service.core.balancing.slot_balancer import slot_key
from tests.support.balanced import NOW
from tests.support.examples import examples

LOADS = st.lists(st.integers(0, 50), min_size=96, max_size=96).map(tuple)
BASE = slot_key(NOW)
RELAXED = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck), database=None)


def seen(*slots: int, balanced: int = 0) -> Distribution:
    return Distribution(BASE, slots + (0,) * (96 - len(slots)), 3, balanced)


@RELAXED
@given(LOADS)
def test_the_score_is_between_0_and_1_and_1_where_all_slots_hold_the_same(loads: tuple[int, ...]) -> None:
    assert 0 < score_of(loads) <= 1
    assert score_of((loads[0],) * 96) == 1


def test_the_formula_is_the_mean_over_the_peak_and_a_single_run_is_even() -> None:
    assert score_of((4,) * 48 + (2,) * 48) == 3 / 4
    assert score_of((1, *[0] * 95)) == 1 == score_of((0,) * 96)
    assert score_of((10, *[0] * 95)) == 1 / 10


@RELAXED
@given(LOADS)
def test_adding_a_run_to_the_heaviest_slot_never_raises_it(loads: tuple[int, ...]) -> None:
    heaviest = loads.index(max(loads))
    more = tuple(load + (n == heaviest) for n, load in enumerate(loads))
    assert score_of(more) <= score_of(loads)


@RELAXED
@given(LOADS)
def test_moving_a_run_from_the_heaviest_to_the_lightest_slot_never_lowers_it(loads: tuple[int, ...]) -> None:
    if max(loads) == 0:
        return
    moved = list(loads)
    moved[loads.index(max(loads))] -= 1
    moved[loads.index(min(loads))] += 1
    if max(loads) - min(loads) > 1:
        assert score_of(tuple(moved)) >= score_of(loads)


@RELAXED
@given(LOADS, st.integers(0, 95), st.integers(0, 95))
def test_with_the_same_runs_it_falls_as_the_peak_grows(loads: tuple[int, ...], one: int, other: int) -> None:
    moved = list(loads)
    taken = moved[one]
    moved[one] = 0
    moved[other] += taken
    if max(moved) > max(loads):
        assert score_of(tuple(moved)) < score_of(loads)


def test_hours_are_those_of_the_day_in_utc_wherever_the_window_begins() -> None:
    body = distribution_body(seen(1, 2, 3, 4, 5))
    hours = {entry["hour"]: entry["job_count"] for entry in body["hourly_distribution"]}
    assert sorted(hours) == list(range(24))
    assert (hours[10], hours[11], hours[9]) == (10, 5, 0)
    assert (body["peak_hour"], body["peak_count"], body["total_jobs"]) == (10, 10, 3)
    assert (body["window_hours"], body["slot_minutes"]) == (24, 15)
    assert body["slot_distribution"][1] == {"at": "2026-11-30T10:15:00Z", "job_count": 2}


def test_the_hour_that_the_window_begins_in_has_its_rest_of_tomorrow() -> None:
    split = Distribution(slot_key(NOW + HOUR // 2), (1,) * 96, 1, 0)
    assert split.hours == (4,) * 24


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (seen(), "Nothing is scheduled"),
        (seen(1, 1), "is even"),
        (seen(*[3] * 50), "is acceptable"),
        (seen(0, 9, balanced=2), "9 runs in the quarter of an hour from 10:15 UTC, 0.1 in the mean; consider"),
        (seen(0, 9), '"balanced": true'),
    ],
)
def test_the_suggestion_says_what_to_do(shown: Distribution, said: str) -> None:
    assert said in suggestion(shown)
