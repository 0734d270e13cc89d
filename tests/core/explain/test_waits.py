"""Why a due run waits, as it is told: the limit and who holds it, the rate, the slots, and how many go before."""

from dataclasses import replace
from typing import Any

import pytest

from itinerary.protocol.instants import MINUTE, format_instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.explain.explanation import Verdict
from scheduler_service.core.explain.facts import Live
from scheduler_service.core.explain.run import explain_run
from scheduler_service.core.run_state import RunState
from tests.support.explained import AT, LEADING, NOW, explained_now, facts, run, words

TWO: dict[str, Any] = {
    "name": "tenant", "key": "acme", "concurrency": 2, "in_flight": 2, "rate": None, "started": None, "free_at": None,
    "lanes": 1, "held_by": [
        {"run_id": "A", "attempt": None, "since": "2026-11-27T10:02:00Z"},
        {"run_id": "B_1", "attempt": None, "since": None},
    ],
}  # fmt: skip
RATE: dict[str, Any] = {
    **TWO, "name": "stripe", "key": None, "concurrency": None, "held_by": [], "in_flight": 7,
    "rate": {"count": 90, "per": "10s"}, "started": 90, "free_at": "2026-11-27T12:00:07Z",
}  # fmt: skip
NAMED = run(limits=(LimitUse("tenant", "acme"),))


def waits(limits: list[dict[str, Any]], before: int = 17, of: Any = NAMED, **more: Any) -> tuple[Verdict, str]:
    known = {"limits": limits, "free_slots": 4, "pending": 3, "before": before, "before_is_exact": True, **more}
    return explained_now(of, live=Live(waiting=known))


def test_a_full_limit_is_told_with_its_holders_and_who_waits_before() -> None:
    verdict, said = waits([TWO])
    assert verdict is Verdict.WAITING_FOR_LIMIT
    held = "held by run A since 2026-11-27T10:02:00Z and run B_1"
    assert f"It waits for limit tenant/acme: 2 of 2 in flight, {held}; 17 wait before it." in said


@pytest.mark.parametrize(
    ("full", "said"),
    [
        (RATE, "limit stripe: 90 of 90 starts in 10s; the next may come free at 2026-11-27T12:00:07Z;"),
        ({**RATE, "free_at": None}, "limit stripe: 90 of 90 starts in 10s; the next comes free 10s after a worker"),
        ({**RATE, "started": 95}, "limit stripe: 95 starts in 10s, where 90 are allowed;"),
        ({**TWO, "name": "queue:mail", "key": None}, "It waits for the limit of queue mail: 2 of 2 in flight, held"),
        ({**TWO, "in_flight": 5}, "limit tenant/acme: 5 in flight, where 2 are allowed, held by run A since"),
        ({**TWO, "in_flight": 9, "concurrency": 9}, "9 of 9 in flight, held by run A since 2026-11-27T10:02:00Z, "
         "run B_1 and 7 others;"),
        ({**TWO, "held_by": [{"run_id": "A", "attempt": 1, "since": None}]},
         "held by attempt 1 of run A, which was given up"),
        ({**TWO, "held_by": [{"run_id": "A", "attempt": None, "since": None, "is_being_dispatched": True}]},
         "held by run A (being dispatched) and 1 other;"),
        ({**TWO, "held_by": []}, "limit tenant/acme: 2 of 2 in flight; 17"),
        ({**TWO, "lanes": 3}, "; 17 wait before it, and 2 other lanes take turns with its own."),
    ],
)  # fmt: skip
def test_each_bound_is_told_by_its_numbers(full: dict[str, Any], said: str) -> None:
    assert said in waits([full])[1]


@pytest.mark.parametrize(
    ("before", "exact", "said"),
    [
        (0, True, "none waits before it."),
        (1, True, "1 waits before it."),
        (1_000, False, "more than 1,000 wait before"),
    ],
)
def test_what_waits_before_is_counted_to_a_bound(before: int, exact: bool, said: str) -> None:
    assert said in waits([TWO], before, before_is_exact=exact)[1]


def test_what_is_kept_for_a_run_that_was_passed_over_is_told() -> None:
    kept = {**TWO, "in_flight": 1, "held_by": TWO["held_by"][:1], "kept_for": "C"}
    said = waits([kept])[1]
    assert "1 of 2 in flight, held by run A since 2026-11-27T10:02:00Z; what is free is kept for run C, which" in said
    rated = {**RATE, "started": 89, "free_at": None, "kept_for": "C"}
    assert "stripe: 89 of 90 starts in 10s; what is free is kept for run C, which was passed over" in waits([rated])[1]
    assert "What comes free is kept for it until it goes." in waits([TWO], is_kept_for=True)[1]


def test_all_limits_without_room_are_told() -> None:
    said = waits([TWO, RATE])[1]
    assert said.index("tenant/acme") < said.index("limit stripe")
    assert said.count("wait before it") == 1


def test_a_run_with_limits_waits_for_a_free_slot_and_others_for_room() -> None:
    verdict, said = waits([], free_slots=0)
    assert verdict is Verdict.WAITING_FOR_WORKER
    assert "no slot free: a run with limits is dispatched when one is; 17 wait before it." in said
    verdict, said = waits([], free_slots=None)
    assert verdict is Verdict.NO_WORKER
    assert "No live worker listens on queue default" in said
    assert "itinerary worker --app MODULE:APP -Q default" in said
    verdict, said = waits([], of=run(), free_slots=None)
    assert verdict is Verdict.WAITING
    assert "3 runs of queue default are dispatched and not started." in said
    assert "It is dispatched when there is room; 17 wait before it." in said


def test_a_run_that_is_being_dispatched_waits_for_no_slot() -> None:
    verdict, said = waits([], free_slots=0, is_being_dispatched=True)
    assert verdict is Verdict.WAITING
    assert "The leader is dispatching it." in said
    assert "slot" not in said


def test_a_retry_waits_for_limits_as_well() -> None:
    verdict, said = waits([TWO], of=replace(NAMED, state=RunState.RETRYING, attempt=2))
    assert (verdict, "tenant/acme" in said) == (Verdict.WAITING_FOR_LIMIT, True)


def test_a_run_that_the_leader_has_not_read_yet_names_full_limits_or_says_so() -> None:
    verdict, said = explained_now(NAMED, live=Live(waiting={"limits": [TWO]}))
    assert verdict is Verdict.WAITING_FOR_LIMIT
    assert "held by run A" in said
    assert "before it" not in said
    verdict, said = explained_now(NAMED, live=Live(waiting={"limits": []}))
    assert verdict is Verdict.WAITING
    assert "The leader does not hold it in memory: it reads due runs by priority and due time" in said


def test_without_an_answer_the_limits_of_the_row_are_named_and_no_holder() -> None:
    verdict, said = explained_now(NAMED)
    assert verdict is Verdict.WAITING
    assert "It counts for limit tenant/acme. The leader does not answer, so what holds it is unknown." in said


def test_what_holds_a_run_earlier_or_before_its_time_is_told_alone() -> None:
    verdict, said = waits([TWO], of=replace(NAMED, due_at=NOW + MINUTE))
    assert (verdict, "tenant" in said) == (Verdict.NOT_YET_DUE, False)
    ended = replace(LEADING, ended_at=NOW - MINUTE)
    assert explained_now(NAMED, terms=(ended,), live=Live(waiting={"limits": [TWO]}))[0] is Verdict.NO_LEADER


def test_a_recall_is_told_with_its_reason() -> None:
    reason = "recalled: runs of a better priority waited"
    said = words(explain_run(run(reason=reason), facts(recalled_at=AT + MINUTE)))
    at = format_instant(AT + MINUTE)
    assert f"Its message was taken back from queue default at {at}: runs of a better priority waited." in said
    ended = run(RunState.COMPLETED, reason=None, worker="w", finished_at=NOW)
    assert f"taken back from queue default at {at}." in words(explain_run(ended, facts(recalled_at=AT + MINUTE)))
