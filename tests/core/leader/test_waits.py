"""What a waiting run waits for, as the leader tells it from memory: limits, holders, slots, those before it."""

from typing import Any

import pytest

from itinerary.protocol.instants import SECOND, format_instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader import iteration, waits
from scheduler_service.core.leader.commands import Reply
from scheduler_service.core.leader.messages import Query
from scheduler_service.core.leader.parts.slots import uses_of
from scheduler_service.core.leader.queries import answer
from scheduler_service.core.leader.results import InboxRead
from scheduler_service.core.limits import Bounds, Limit, Rate
from tests.support.gate import T0, Gate, handed_over, limit, waiting

ACME, OTHER = ("tenant", "acme"), ("tenant", "other")


def gate(**limits: Limit) -> Gate:
    made = Gate()
    made.edit(**limits)
    made.beat()
    return made


def asked(one: Gate, what: str, subject: str) -> Any:
    return answer(one.state, Query(what, subject, "reply"), one.now)[what]


def test_a_full_limit_is_named_with_its_holders_and_what_waits_before_in_the_lane() -> None:
    one = gate(tenant=limit(2, overrides={"acme": 2}))
    runs = [waiting(f"a{n}", ACME, due_at=T0 - (9 - n) * SECOND) for n in range(6)]
    assert one.due(*runs, waiting("b0", OTHER)) == ["a0", "a1", "b0"]
    one.dispatched("a0", "a1", "b0")
    full = {
        "name": "tenant", "key": "acme", "concurrency": 2, "in_flight": 2, "rate": None, "started": None,
        "free_at": None, "lanes": 1, "kept_for": None,
        "held_by": [{"run_id": run_id, "attempt": None, "since": None} for run_id in ("a0", "a1")],
    }  # fmt: skip
    found = asked(one, "waiting", "a4")
    assert [holder["run_id"] for holder in found["limits"][0]["held_by"]] == ["a0", "a1"]
    assert all(holder["since"] is not None for holder in found["limits"][0]["held_by"])
    assert found["limits"][0] | {"held_by": full["held_by"]} == full
    assert (found["before"], found["before_is_exact"], found["free_slots"]) == (2, True, 100)
    assert asked(one, "limit", "tenant/acme") == found["limits"][0], "also for a run that only the database holds"
    assert asked(one, "limit", "tenant/other") is None, "it has room"


def test_a_full_rate_says_when_the_next_start_comes_free() -> None:
    one = gate(stripe=Limit("", Bounds(rate=Rate(1, 10 * SECOND))))
    assert one.due(waiting("a", "stripe"), waiting("b", "stripe")) == ["a"]
    one.dispatched("a")
    (full,) = asked(one, "waiting", "b")["limits"]
    assert (full["started"], full["free_at"]) == (1, None), "nobody knows before its start is reported"
    one.started("a")
    one.step(after=4 * SECOND)
    (full,) = asked(one, "waiting", "b")["limits"]
    assert full["rate"] == {"count": 1, "per": "10s"}
    assert (full["concurrency"], full["held_by"]) == (None, [])
    assert full["free_at"] == format_instant(T0 + 10 * SECOND)


def test_a_queue_s_own_limit_holds_back_runs_without_limits_too() -> None:
    one = gate(of_q=limit(1))
    assert one.due(waiting("a"), waiting("b"), waiting("c")) == ["a"]
    found = asked(one, "waiting", "c")
    assert [full["name"] for full in found["limits"]] == ["queue:q"]
    assert found["before"] == 1


@pytest.mark.parametrize(("slots", "free"), [(None, None), (0, 0)])
def test_a_run_with_limits_waits_for_a_worker_with_a_free_slot(slots: int | None, free: int | None) -> None:
    one = Gate()
    one.edit(stripe=limit(5))
    if slots is not None:
        one.beat(slots=slots)
    assert one.due(waiting("a", "stripe")) == []
    found = asked(one, "waiting", "a")
    assert (found["limits"], found["free_slots"]) == ([], free)


def test_counts_end_at_a_bound_and_other_lanes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "MOST_BEFORE", 3)
    monkeypatch.setattr(waits, "_MOST_HOLDERS", 1)
    one = gate(stripe=limit(2))
    one.due(*(waiting(f"a{n}", "stripe") for n in range(9)), waiting("x", "stripe", queue="r"))
    one.beat("v", queues="r")
    found = asked(one, "waiting", "a8")
    assert (found["before"], found["before_is_exact"]) == (3, False)
    (full,) = found["limits"]
    assert (full["in_flight"], len(full["held_by"]), full["lanes"]) == (2, 1, 2)
    assert (asked(one, "waiting", "a2")["before"], asked(one, "waiting", "a5")["before_is_exact"]) == (0, True)


@pytest.mark.parametrize("run_id", ["nobody", "a"])
def test_of_a_run_that_is_unknown_or_in_flight_nothing_is_said(run_id: str) -> None:
    one = gate(stripe=limit(1))
    one.due(waiting("a", "stripe"))
    one.dispatched("a")
    assert asked(one, "waiting", run_id) is None


def test_a_run_whose_dispatch_is_unanswered_does_not_wait_for_itself() -> None:
    one = gate(stripe=limit(1))
    assert one.due(waiting("a", "stripe")) == ["a"]
    assert asked(one, "waiting", "a")["limits"] == []
    assert asked(one, "waiting", "a")["is_being_dispatched"]


def test_a_run_whose_dispatch_was_refused_does_not_wait_for_the_slot_that_it_keeps_until_its_row_is_read() -> None:
    one = gate(stripe=limit(1))
    one.due(waiting("a", "stripe"), waiting("b", "stripe"))
    one.refused("a")
    found = asked(one, "waiting", "a")
    assert (found["limits"], found["is_being_dispatched"]) == ([], True)
    found = asked(one, "waiting", "b")
    assert ([full["name"] for full in found["limits"]], found["is_being_dispatched"]) == (["stripe"], False)


def test_of_two_runs_between_which_a_slot_is_handed_over_only_the_one_that_ends_is_named() -> None:
    one = gate(stripe=limit(1))
    one.due(*(waiting(run_id, "stripe") for run_id in "abc"))
    one.go("a")
    one.ended("a")
    assert [given.run_id for given in handed_over(one.applies[-1])] == ["b"]
    (full,) = asked(one, "waiting", "c")["limits"]
    assert (full["in_flight"], [holder["run_id"] for holder in full["held_by"]]) == (1, ["a"])
    one.committed()
    (full,) = asked(one, "waiting", "c")["limits"]
    assert (full["in_flight"], [holder["run_id"] for holder in full["held_by"]]) == (1, ["b"])


def test_a_holder_that_an_edit_of_its_job_dropped_is_named_while_its_dispatch_is_under_way() -> None:
    one = gate(stripe=limit(1))
    one.due(waiting("job_2026-11-30T10:00:00Z", "stripe"), waiting("next", "stripe"))
    one.state.runs.drop("job_2026-11-30T10:00:00Z")
    (full,) = asked(one, "waiting", "next")["limits"]
    holder = {"run_id": "job_2026-11-30T10:00:00Z", "attempt": None, "since": None, "is_being_dispatched": True}
    assert full["held_by"] == [holder]


def test_an_attempt_that_was_given_up_and_still_runs_is_named_as_such() -> None:
    one = gate(stripe=limit(1))
    one.state.slots.keep("gone~2", uses_of("q", (LimitUse("stripe"),)), "w", one.now)
    assert one.due(waiting("a", "stripe")) == []
    (full,) = asked(one, "waiting", "a")["limits"]
    assert full["held_by"] == [{"run_id": "gone", "attempt": 2, "since": None}]


def test_what_is_kept_for_a_run_that_was_passed_over_is_told_to_both() -> None:
    one = gate(a=limit(1), b=limit(1))
    assert one.due(waiting("a0", "a")) == ["a0"]
    one.due(waiting("both", "a", "b"))
    one.go("a0")
    for _ in range(4):
        one.step(after=10 * SECOND)
        one.beat(running=["a0"])
    assert one.due(waiting("b0", "b")) == []
    (full,) = asked(one, "waiting", "b0")["limits"]
    assert (full["name"], full["in_flight"], full["held_by"], full["kept_for"]) == ("b", 0, [], "both")
    assert asked(one, "limit", "b")["kept_for"] == "both"
    found = asked(one, "waiting", "both")
    assert [(full["name"], full["kept_for"]) for full in found["limits"]] == [("a", None)]
    assert (found["is_kept_for"], asked(one, "waiting", "b0")["is_kept_for"]) == (True, False)


def test_a_query_that_cannot_be_answered_stops_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    one = gate()
    monkeypatch.setattr(iteration, "answer", fails)
    one.step(InboxRead((Query("waiting", "a", "reply"),), "1-0"))
    (reply,) = (command for command in one.commands if isinstance(command, Reply))
    assert (reply.reply_to, reply.body, type(reply.failure)) == ("reply", {"failed": True}, ZeroDivisionError)
    assert one.due(waiting("a")) == ["a"]
