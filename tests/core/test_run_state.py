"""The transition table, event by event."""

import pytest

from itinerary.protocol.errors import IllegalTransition
from scheduler_service.core.run_state import ACTIVE, FINAL, TRANSITIONS, Event, RunState, is_allowed, next_state


def test_every_state_is_either_final_or_active() -> None:
    assert set(RunState) == FINAL | ACTIVE
    assert not FINAL & ACTIVE


@pytest.mark.parametrize("event", list(Event))
def test_no_event_moves_a_final_run(event: Event) -> None:
    assert not TRANSITIONS[event].sources & FINAL
    with pytest.raises(IllegalTransition):
        next_state("r", RunState.COMPLETED, event)


@pytest.mark.parametrize(
    ("state", "event", "left", "target"),
    [
        ("scheduled", "release", False, "pending"),
        ("retrying", "release", False, "pending"),
        ("pending", "start", False, "running"),
        ("running", "succeed", False, "completed"),
        ("pending", "succeed", False, "completed"),
        ("running", "fail", True, "retrying"),
        ("pending", "fail", True, "retrying"),
        ("running", "fail", False, "failed"),
        ("running", "retry", False, "retrying"),
        ("running", "lose", True, "retrying"),
        ("running", "lose", False, "failed"),
        ("running", "time_out", True, "retrying"),
        ("running", "time_out", False, "failed"),
        ("scheduled", "cancel", False, "cancelled"),
        ("retrying", "cancel", False, "cancelled"),
        ("pending", "cancel", False, "cancelled"),
        ("running", "cancel", False, "cancelled"),
        ("scheduled", "skip", False, "skipped"),
        ("scheduled", "miss", False, "missed"),
        ("pending", "recall", False, "scheduled"),
    ],
)
def test_each_row_of_the_table_leads_where_it_says(state: str, event: str, left: bool, target: str) -> None:
    assert next_state("r", RunState(state), Event(event), attempts_left=left) is RunState(target)


def test_a_recalled_run_waits_as_before_its_dispatch() -> None:
    assert next_state("r", RunState.PENDING, Event.RECALL, attempt=2) is RunState.RETRYING
    assert [state for state in RunState if is_allowed(state, Event.RECALL)] == [RunState.PENDING]


def test_a_pending_run_cannot_be_lost_since_nobody_has_it() -> None:
    assert not is_allowed(RunState.PENDING, Event.LOSE)
    with pytest.raises(IllegalTransition, match="lose"):
        next_state("r", RunState.PENDING, Event.LOSE)
