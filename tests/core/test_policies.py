"""The menus of lateness, overlap and retries, rule by rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.protocol.instants import MINUTE, SECOND
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.model import ActiveRun, Misfire, MisfirePolicy, Overlap, RunKind
from scheduler_service.core.policies import (
    Admission,
    after_failure,
    backoff,
    could_go_since,
    decide_overlap,
    judge_lateness,
    next_attempt,
)
from scheduler_service.core.run_state import Event, RunState

NOW = 1_000 * MINUTE
THREE_HOURS_OF_MINUTES = [NOW - n * MINUTE for n in range(180, 0, -1)]


def misfire(policy: str, grace: int = 30 * SECOND, most: int = 100) -> Misfire:
    return Misfire(MisfirePolicy(policy), grace, most)


def running(attempt: int = 1, most: int = 1) -> ActiveRun:
    return ActiveRun(
        run_id="r", kind=RunKind.OCCURRENCE, job_id="j", job_version=1, queue="default", priority=5, scheduled_at=0,
        due_at=0, state=RunState.RUNNING, attempt=attempt, retry=RetryPolicy(max_attempts=most, jitter=False),
    )  # fmt: skip


def test_fire_once_after_an_outage_runs_the_newest_and_misses_the_rest() -> None:
    judged = judge_lateness(misfire("fire_once"), THREE_HOURS_OF_MINUTES, 180, NOW)
    assert judged.keep == (179,)
    assert judged.missed == 179
    assert judged.reason is not None
    assert "30s" in judged.reason


def test_fire_once_runs_no_late_one_where_a_newer_one_is_on_time() -> None:
    judged = judge_lateness(misfire("fire_once"), [NOW - 5 * MINUTE, NOW - SECOND], 2, NOW)
    assert judged.keep == (1,)
    assert judged.missed == 1


def test_fire_all_runs_the_newest_up_to_its_cap_and_records_what_the_cap_left_out() -> None:
    judged = judge_lateness(misfire("fire_all", most=10), THREE_HOURS_OF_MINUTES, 180, NOW)
    assert judged.keep == tuple(range(170, 180))
    assert judged.missed == 170


def test_skip_misses_everything_late() -> None:
    judged = judge_lateness(misfire("skip"), [*THREE_HOURS_OF_MINUTES, NOW], 181, NOW)
    assert judged.keep == (180,)
    assert judged.missed == 180


@given(
    st.sampled_from(list(MisfirePolicy)),
    st.lists(st.integers(0, 600), max_size=40).map(sorted),
    st.integers(0, 300),
    st.integers(1, 20),
)
def test_every_owed_occurrence_runs_or_is_missed_and_what_is_within_the_grace_runs(
    policy: MisfirePolicy, ages: list[int], grace: int, most: int
) -> None:
    due = [NOW - age * SECOND for age in reversed(ages)]
    judged = judge_lateness(Misfire(policy, grace * SECOND, most), due, len(due), NOW)
    assert len(judged.keep) + judged.missed == len(due)
    on_time = {i for i, d in enumerate(due) if NOW - d <= grace * SECOND}
    assert on_time <= set(judged.keep)
    assert (judged.reason is None) == (judged.missed == 0)


@pytest.mark.parametrize(
    ("policy", "live", "held", "expected"),
    [
        ("skip", 0, 0, "go"),
        ("skip", 1, 0, "skip"),
        ("allow", 3, 0, "go"),
        ("queue", 1, 0, "hold"),
        ("queue", 1, 1, "skip"),
        ("queue", 0, 1, "skip"),
        ("queue_all", 1, 7, "hold"),
        ("cancel_running", 1, 0, "cancel_others"),
        ("cancel_running", 0, 0, "go"),
    ],
)
def test_overlap_decides_by_what_is_live_and_what_waits(policy: str, live: int, held: int, expected: str) -> None:
    assert decide_overlap(Overlap(policy), live, held) is Admission(expected)


@pytest.mark.parametrize(
    ("overlap", "state", "since"),
    [
        (None, RunState.SCHEDULED, NOW), (Overlap.ALLOW, RunState.PENDING, NOW),
        (Overlap.QUEUE_ALL, RunState.SCHEDULED, None), (Overlap.QUEUE_ALL, RunState.PENDING, NOW + MINUTE),
        (Overlap.QUEUE_ALL, RunState.RETRYING, NOW),
    ],
)  # fmt: skip
def test_what_was_asked_for_to_go_behind_others_is_late_only_once_it_is_released(
    overlap: Overlap | None, state: RunState, since: int | None
) -> None:
    dispatched_at = NOW + MINUTE if state is RunState.PENDING else None
    run = running(1, most=2)._replace(state=state, overlap=overlap, due_at=NOW, pending_at=dispatched_at)
    assert could_go_since(run) == since


def test_the_pause_doubles_up_to_its_cap() -> None:
    retry = RetryPolicy(max_attempts=9, initial=5 * SECOND, factor=2, max=60 * SECOND, jitter=False)
    assert [backoff(retry, "r", n) // SECOND for n in range(1, 7)] == [5, 10, 20, 40, 60, 60]


def test_a_very_late_attempt_does_not_overflow() -> None:
    assert backoff(RetryPolicy(max_attempts=1000, factor=100), "r", 1000) <= RetryPolicy().max


@given(st.text(min_size=1, max_size=20), st.integers(1, 50))
def test_jitter_stays_in_the_upper_half_and_is_the_same_for_every_leader(run_id: str, attempt: int) -> None:
    retry = RetryPolicy(max_attempts=99)
    full = backoff(RetryPolicy(max_attempts=99, jitter=False), run_id, attempt)
    assert full // 2 <= backoff(retry, run_id, attempt) <= full
    assert backoff(retry, run_id, attempt) == backoff(retry, run_id, attempt)


def test_a_failure_with_attempts_left_is_tried_again_and_without_is_the_end() -> None:
    assert after_failure(running(1, most=2), Event.FAIL, NOW) == (RunState.RETRYING, NOW + 5 * SECOND)
    assert after_failure(running(2, most=2), Event.FAIL, NOW) == (RunState.FAILED, None)
    assert after_failure(running(1, most=1), Event.LOSE, NOW) == (RunState.FAILED, None)


def test_the_next_attempt_keeps_nothing_of_the_one_before() -> None:
    """Its `seq` above all: no message of it exists, and a worker's report of that number is of the attempt before."""
    ended = running(1, most=2)._replace(seq=7, pending_at=1, published_at=2, started_at=3, worker="w")
    fresh = running(2, most=2)._replace(state=RunState.RETRYING, due_at=NOW)
    assert next_attempt(ended, NOW) == fresh
    assert (fresh.seq, fresh.worker, fresh.published_at) == (0, None, None)
