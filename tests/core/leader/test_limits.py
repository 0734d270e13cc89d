"""Slots of limits: who takes one, what frees it and what does not, and which run goes next."""

from dataclasses import replace

import pytest

from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import HOUR, MILLISECOND, SECOND
from itinerary.protocol.limits import LimitUse
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.leader.commands import TakeClaims
from scheduler_service.core.leader.iteration import next_wake
from scheduler_service.core.leader.lanes import Lane
from scheduler_service.core.leader.limit_use import usage_of_limits
from scheduler_service.core.leader.messages import Failed, Started
from scheduler_service.core.leader.parts.dispatches import Dispatches
from scheduler_service.core.leader.parts.hand_overs import HandOvers
from scheduler_service.core.leader.parts.unstarted import Unstarted
from scheduler_service.core.leader.results import ClaimsDeferred, ClaimsRecalled, ClaimsTaken
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.limits import Bounds, Limit, Rate
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import RunState
from scheduler_service.loops.write_groups import are_few
from tests.support.gate import T0, Gate, handed_over, limit, waiting

ACME, OTHER = ("tenant", "acme"), ("tenant", "other")


def gate(**limits: int) -> Gate:
    """A leader with these limits and a worker that has slots enough."""
    made = Gate()
    made.edit(**{name: limit(number) for name, number in limits.items()})
    made.beat()
    return made


def test_no_more_runs_of_a_limit_go_than_it_has_slots_and_others_go_on() -> None:
    one = gate(stripe=2)
    runs = [waiting(f"s{n}", "stripe") for n in range(4)]
    assert one.due(*runs, waiting("free")) == ["free", "s0", "s1"]
    assert one.step() == []


def test_each_key_has_slots_of_its_own_and_an_override_replaces_them() -> None:
    one = Gate()
    one.edit(tenant=limit(1, overrides={"acme": 3}))
    one.beat()
    runs = [waiting(f"{key}{n}", ("tenant", key)) for key in ("acme", "other") for n in range(4)]
    assert sorted(one.due(*runs)) == ["acme0", "acme1", "acme2", "other0"]


def test_a_slot_is_free_when_the_end_is_committed_and_not_before() -> None:
    one = gate(stripe=1)
    assert one.due(waiting("a", "stripe"), waiting("b", "stripe")) == ["a"]
    one.go("a")
    assert one.ended("a") == []
    assert one.step(after=SECOND) == []
    assert one.committed() == ["b"]


def test_an_end_for_whose_slot_runs_wait_is_written_at_once_and_others_are_not() -> None:
    one = gate(stripe=1)
    one.due(waiting("a", "stripe"), waiting("free"))
    one.dispatched("a", "free")
    one.started("a", "free")
    one.applies.clear()
    one.ended("free")
    assert are_few(list(one.applies))
    one.due(waiting("b", "stripe"))
    one.applies.clear()
    one.ended("a")
    assert one.applies
    assert not are_few(list(one.applies))


def test_the_next_run_is_dispatched_in_the_transaction_of_the_end_and_counts_once() -> None:
    one = gate(stripe=2, tenant=1)
    ends, nexts = ("a", "b"), ("c", "d", "e")
    one.due(*(waiting(run_id, "stripe") for run_id in (*ends, *nexts)))
    for run_id in ends:
        one.go(run_id)
    one.applies.clear()
    assert one.ended("a") == [], "no transaction of its own"
    [write] = one.applies
    assert [dispatch.run_id for dispatch in handed_over(write)] == ["c"]
    assert write.then[0].control == one.version
    assert one.state.slots.count(LimitUse("stripe")) == 3
    assert usage_of_limits(one.state, one.now)["stripe"].in_flight[None] == 2
    assert one.step(after=SECOND) == [], "neither of both is free"
    assert one.ended("b") == []
    assert [[dispatch.run_id for dispatch in handed_over(write)] for write in one.applies] == [["c"], ["d"]]
    assert one.committed() == ["c", "d"]
    assert one.state.slots.count(LimitUse("stripe")) == 2
    assert one.step(after=SECOND) == []


def test_slots_are_handed_over_for_all_limits_of_a_run_and_of_all_keys_together() -> None:
    one = Gate()
    one.edit(a=limit(1), b=limit(1), tenant=replace(limit(2), per_key=False))
    one.beat()
    one.due(waiting("0", "a", ("tenant", "x")), waiting("1", "b", ("tenant", "y")))
    assert one.due(waiting("2", "a", "b", ("tenant", "z")), waiting("3", ("tenant", "x"))) == []
    one.go("0")
    one.go("1")
    assert one.ended("0", "1") == []
    assert sorted(one.committed()) == ["2", "3"]
    assert one.due(waiting("4", ("tenant", "z"))) == []


def test_a_slot_of_a_queue_s_own_limit_is_handed_over_too() -> None:
    one = gate(of_q=2)
    assert one.due(*(waiting(f"r{n}") for n in range(4))) == ["r0", "r1"]
    one.go("r0")
    one.go("r1")
    assert one.ended("r0") == []
    assert one.state.hand_overs.paired("queue:q") == 1
    assert one.committed() == ["r2"]
    assert one.state.hand_overs == HandOvers(), "nothing of it stays"


def test_no_slot_is_handed_over_while_another_dispatch_of_the_queue_is_under_way() -> None:
    one = gate(stripe=1)
    one.due(waiting("a", "stripe"), waiting("b", "stripe"))
    one.go("a")
    assert one.due(waiting("free")) == ["free"]
    one.applies.clear()
    assert one.ended("a") == []
    assert [handed_over(write) for write in one.applies] == [[]], "its number is greater, its message might be first"
    assert one.committed() == ["b"]


def test_the_end_of_a_run_frees_a_slot_for_a_run_of_another_queue_too() -> None:
    one = gate(stripe=1)
    one.beat(queues="qp")
    one.due(waiting("a", "stripe"))
    one.due(waiting("b", "stripe", queue="p"), waiting("c", "stripe"))
    one.go("a")
    one.ended("a")
    assert [order.queue for order in one.applies[-1].then] == ["p"]
    assert one.committed() == ["b"]


def test_an_end_that_the_database_refuses_frees_nothing_before_the_row_says_so() -> None:
    one = gate(stripe=1)
    one.due(waiting("a", "stripe"), waiting("b", "stripe"))
    one.go("a")
    one.ended("a")
    assert one.committed("a") == []
    assert one.reads[-2:] == ["a", "b"], "b was to be dispatched with the end"
    assert [*one.row("a", RunState.RUNNING), *one.row("b", RunState.SCHEDULED), *one.step(after=SECOND)] == []
    one.ended("a")
    one.committed("a")
    assert one.row("b", RunState.SCHEDULED) == []
    assert [*one.row("a", RunState.COMPLETED), *one.step(after=SECOND)] == ["b"]


@pytest.mark.parametrize(("found", "chosen"), [(RunState.PENDING, []), (RunState.SCHEDULED, ["a", "b"])])
def test_a_refused_dispatch_frees_nothing_before_the_row_is_read(found: RunState, chosen: list[str]) -> None:
    one = gate(stripe=1)
    assert one.due(waiting("a", "stripe"), waiting("b", "stripe")) == ["a"]
    assert one.refused("a") == []
    assert one.reads[-1:] == ["a"]
    assert one.step(after=SECOND) == []
    # A row that waits still is tried again a moment later; whoever is first by then goes, but only one.
    assert [*one.row("a", found), *one.step(after=SECOND)] in ([], ["a"], ["b"])
    assert one.state.slots.count(LimitUse("stripe")) == 1
    assert bool(chosen) == (found is RunState.SCHEDULED)


def test_a_dispatch_without_an_answer_keeps_its_slot() -> None:
    one = gate(stripe=1)
    one.due(waiting("a", "stripe"), waiting("b", "stripe"))
    assert one.step(after=60 * SECOND) == []


def test_an_edit_that_drops_a_run_frees_nothing_while_its_dispatch_is_under_way() -> None:
    one = gate(stripe=1)
    one.due(waiting("a", "stripe"), waiting("b", "stripe"))
    one.state.runs.drop("a")
    assert one.edit(stripe=limit(1)) == []
    assert one.dispatched("a") == []
    assert one.row("a", RunState.PENDING) == []


def test_a_retry_gives_its_slot_back_and_takes_its_turn_again() -> None:
    one = gate(stripe=1)
    one.due(waiting("a", "stripe"), waiting("b", "stripe"))
    one.go("a")
    assert one.row("a", RunState.RETRYING, attempt=2, due_at=one.now + 600 * SECOND) == ["b"]


def test_an_end_that_is_committed_late_frees_no_slot_of_the_next_attempt() -> None:
    one = gate(stripe=1)
    one.due(waiting("a", "stripe", retry=RetryPolicy(max_attempts=2)), waiting("b", "stripe"))
    one.go("a")
    one.applies.clear()
    one.hear(Failed("a", 1, "w", one.now, one.now, {}, None))
    assert one.applies
    assert not handed_over(one.applies[-1]), "a may take its slot again before its end is committed"
    one.row("a", RunState.RUNNING, attempt=2)
    assert one.committed() == []


def test_all_limits_of_a_run_are_taken_together_or_none() -> None:
    one = gate(a=1, b=1)
    assert one.due(waiting("0", "a", "b"), waiting("b1", "b"), waiting("a1", "a")) == ["0"]
    one.go("0")
    one.ended("0")
    assert sorted(one.committed()) == ["a1", "b1"]
    one.due(waiting("both", "a", "b"))
    one.go("a1")
    one.ended("a1")
    assert one.committed() == []
    assert one.state.slots.count(LimitUse("a")) == 0, "it holds nothing of what it waits with"
    one.go("b1")
    one.ended("b1")
    assert one.committed() == ["both"]


def test_a_run_that_waits_for_another_limit_lets_those_behind_it_pass() -> None:
    one = gate(a=1, b=1)
    assert one.due(waiting("b1", "b"), waiting("a1", "a")) == ["a1", "b1"]
    one.due(waiting("ab", "a", "b"), waiting("z", "a"))
    one.go("a1")
    one.ended("a1")
    assert one.committed() == ["z"]


def test_raising_a_limit_lets_waiting_runs_go_and_lowering_none_until_there_is_room() -> None:
    one = gate(stripe=1)
    one.due(*(waiting(f"s{n}", "stripe") for n in range(5)))
    assert one.edit(stripe=limit(3)) == ["s1", "s2"]
    for run_id in ("s0", "s1", "s2"):
        one.go(run_id)
    assert one.edit(stripe=limit(1)) == []
    one.ended("s0", "s1")
    assert one.committed() == []
    one.ended("s2")
    assert one.committed() == ["s3"]
    assert one.edit() == ["s4"], "a limit that is gone holds nobody"


def test_a_limit_that_is_defined_counts_what_is_in_flight_already() -> None:
    one = gate()
    one.due(waiting("a", "stripe"), waiting("q1"))
    assert one.edit(stripe=limit(1), of_q=limit(3)) == []
    assert one.due(waiting("b", "stripe"), waiting("q2"), waiting("q3")) == ["q2"]


def test_what_waits_for_a_limit_that_is_deleted_waits_for_it_no_longer() -> None:
    one = gate(stripe=1, tenant=1)
    one.due(waiting("a", "stripe"), waiting("b", "stripe"), waiting("c", "stripe", "tenant"), waiting("d", "tenant"))
    assert sorted(one.asked) == ["a", "d"]
    assert one.edit(tenant=limit(1)) == ["b"], "c waits for the other one still"
    one.go("d")
    one.ended("d")
    assert one.committed() == ["c"]
    assert one.due(waiting("e", "stripe")) == ["e"], "it is as if no limit were named"


def test_a_run_that_is_cancelled_before_it_starts_keeps_its_slot_until_its_claim_and_its_end_are_settled() -> None:
    """Also for as long as no claim can be taken, since Redis lost its data."""
    one = gate(stripe=1)
    one.due(waiting("a", "stripe"), waiting("b", "stripe"))
    one.dispatched("a")
    one.row("a", RunState.PENDING, cancel_requested=True)
    assert TakeClaims((("a", 1),)) in one.commands
    one.step(ClaimsDeferred((("a", 1),)))
    for _ in range(8):
        one.beat()
        assert one.step(after=SECOND) == [], "a worker may have started it"
    assert one.step(ClaimsTaken((("a", 1, True),))) == []
    assert one.step(after=SECOND) == []
    assert one.committed() == ["b"]


def test_a_limit_that_has_keys_no_more_counts_all_runs_together_whatever_keys_they_name() -> None:
    one = Gate()
    one.edit(tenant=limit(1, overrides={"acme": 2}))
    one.beat()
    runs = [waiting(f"{key}{n}", ("tenant", key)) for key in ("acme", "other") for n in range(3)]
    assert sorted(one.due(*runs)) == ["acme0", "acme1", "other0"]
    assert one.edit(tenant=limit(2)) == []
    for number, run_id in enumerate(("acme0", "acme1", "other0")):
        one.go(run_id)
        one.ended(run_id)
        assert len(one.committed()) == (number > 0), "one of any key for each that ends, once two are left"


def test_the_own_limit_of_a_queue_holds_for_each_of_its_runs_and_wakes_them() -> None:
    one = gate(of_q=2)
    assert one.due(*(waiting(f"r{n}") for n in range(3))) == ["r0", "r1"]
    one.dispatched("r0", "r1")
    one.started("r0")
    one.applies.clear()
    one.ended("r0")
    assert not are_few(list(one.applies))
    assert one.committed() == ["r2"]


def test_a_new_leader_takes_the_slots_from_the_rows() -> None:
    out = waiting("a", "stripe")._replace(state=RunState.PENDING, seq=1, published_at=T0)
    one = Gate((out, waiting("b", "stripe")))
    one.edit(stripe=limit(1))
    assert one.beat() == []
    assert one.row("a", RunState.COMPLETED) == ["b"]


@pytest.mark.parametrize(
    ("limited", "is_known", "waits"), [(True, False, False), (True, True, True), (False, False, True)]
)
def test_a_new_leader_writes_ends_at_once_before_it_knows_what_waits(
    *, limited: bool, is_known: bool, waits: bool
) -> None:
    one = Gate((waiting("a", "stripe")._replace(state=RunState.PENDING, seq=1, published_at=T0),))
    one.asked["a"] = (1, 1)
    one.edit(**({"stripe": limit(1)} if limited else {}))
    if is_known:
        one.due()
    one.ended("a")
    assert are_few(list(one.applies)) is waits


def test_runs_with_limits_go_only_where_a_live_worker_has_a_free_slot() -> None:
    one = Gate()
    one.edit(stripe=limit(5))
    assert one.due(waiting("free"), waiting("a", "stripe")) == ["free"]
    assert one.beat(slots=1) == ["a"]
    one.go("a")
    assert one.due(waiting("b", "stripe")) == [], "its only slot is taken"
    assert one.ended("a") == ["b"]
    assert one.step(after=60 * SECOND) == []
    assert one.due(waiting("c", "stripe")) == [], "the worker has not been heard for long"


def test_what_fails_an_earlier_check_is_in_no_order_of_a_limit() -> None:
    one = gate(stripe=1)
    one.due(waiting("a", "stripe"))
    # The first in the limit's order are of a queue without a worker, of a paused one, and not there any more.
    one.due(waiting("dead", "stripe", queue="d", priority=0), waiting("held", "stripe", queue="p", priority=0))
    one.beat("other", queues="dp")
    one.step()
    one.beat("other", queues="p")
    one.edit(pauses=["p"], stripe=limit(1))
    one.due(waiting("gone", "stripe", priority=1), waiting("b", "stripe"))
    one.state.runs.drop("gone")
    one.go("a")
    one.ended("a")
    assert one.committed() == ["b"]


def test_a_lane_that_came_free_and_does_not_go_lets_the_next_one_go_at_once() -> None:
    one = Gate()
    one.edit(stripe=limit(1), of_p=limit(1))
    one.beat(queues="qp")
    assert one.due(waiting("a", "stripe")) == ["a"]
    assert one.due(waiting("p1", "stripe", queue="p", priority=0), waiting("b", "stripe")) == []
    assert one.due(waiting("p0", queue="p")) == ["p0"]
    one.go("a")
    one.ended("a")
    assert one.committed() == [], "queue p has the slot, and no room"
    assert one.wakes_at_once()
    assert one.step() == ["b"]
    assert not one.wakes_at_once()


def test_priority_decides_who_gets_a_slot() -> None:
    one = gate(stripe=1)
    one.due(waiting("a", "stripe"))
    one.due(waiting("low", "stripe", priority=9), waiting("high", "stripe", priority=1), waiting("mid", "stripe"))
    order = []
    for _ in range(3):
        [last] = one.state.slots.holders(LimitUse("stripe"))
        one.go(last)
        one.ended(last)
        order += one.committed()
    assert order == ["high", "mid", "low"]


@pytest.mark.parametrize(("plain", "limited", "first"), [(5, 1, "limited"), (1, 5, "plain")])
def test_priority_decides_between_runs_with_limits_and_those_without(plain: int, limited: int, first: str) -> None:
    one = Gate(settings=CoreSettings(publish_window=1))
    one.edit(stripe=limit(1))
    one.beat()
    assert one.due(waiting("plain", priority=plain), waiting("limited", "stripe", priority=limited)) == [first]


def test_lanes_of_a_fair_queue_take_turns_at_equal_priority() -> None:
    one = Gate(settings=Gate().settings)
    one.edit(fair=["q"], of_q=limit(1))
    many = [waiting(f"a{n}", fair_key="acme") for n in range(6)]
    order = one.due(*many, waiting("o0", fair_key="other", due_at=many[0].due_at + MILLISECOND - MILLISECOND))
    one.due(waiting("u0", fair_key="urgent", priority=9), waiting("o1", fair_key="other"))
    for _ in range(8):
        last = order[-1]
        one.go(last)
        one.ended(last)
        order += one.committed()
    assert order == ["a0", "o0", "a1", "o1", "a2", "a3", "a4", "a5", "u0"]


def test_turning_fairness_on_and_off_sorts_what_waits_anew() -> None:
    one = Gate()
    one.edit(of_q=limit(1), tenant=limit(5))
    order = one.due(*(waiting(f"a{n}", fair_key="acme") for n in range(4)), waiting("o0", fair_key="other"))
    one.edit(of_q=limit(1), fair=["q"])
    for fair in (["q"], [], []):
        one.edit(of_q=limit(1), fair=fair)
        one.go(order[-1])
        one.ended(order[-1])
        order += one.committed()
    assert order == ["a0", "a1", "a2", "a3"] or order[:3] == ["a0", "a1", "o0"]


def test_queues_take_turns_at_a_limit_that_they_share() -> None:
    one = Gate()
    one.edit(stripe=limit(1))
    one.beat(queues="qp")
    order = one.due(*(waiting(f"q{n}", "stripe") for n in range(5)))
    one.due(*(waiting(f"p{n}", "stripe", queue="p", due_at=one.now) for n in range(2)))
    for _ in range(6):
        one.go(order[-1])
        one.ended(order[-1])
        order += one.committed()
    assert [run_id[0] for run_id in order[:4]] in (list("qpqp"), list("qqpq")), order
    assert sorted(order) == ["p0", "p1", "q0", "q1", "q2", "q3", "q4"]


@pytest.mark.parametrize("name", ["stripe", "of_q"])
def test_a_rate_lets_waiting_runs_go_when_its_window_has_room(name: str) -> None:
    one = Gate()
    one.edit(**{name: Limit("", Bounds(rate=Rate(2, 10 * SECOND)))})
    one.beat()
    limits = ["stripe"] if name == "stripe" else []
    assert one.due(*(waiting(f"s{n}", *limits) for n in range(6))) == ["s0", "s1"]
    one.go("s0")
    one.go("s1")
    assert one.step(after=9 * SECOND) == []
    one.beat()
    assert next_wake(one.state, one.now) <= one.now + SECOND
    assert one.step(after=SECOND) == ["s2", "s3"]
    assert one.row("s2", RunState.SCHEDULED) == []
    assert [*one.refused("s2"), *one.row("s2", RunState.SCHEDULED), *one.step(after=SECOND)] == ["s4"]


def test_lanes_of_one_rate_go_as_soon_as_those_before_them_have_gone() -> None:
    one = Gate()
    one.edit(stripe=Limit("", Bounds(rate=Rate(2, 10 * SECOND))), b=limit(9))
    one.beat(queues="qprs")
    one.due(waiting("a0", "stripe"), waiting("a1", "stripe"))
    one.due(*(waiting(f"{queue}2", "stripe", queue=queue) for queue in "qprs"))
    one.go("a0")
    one.go("a1")
    one.beat(queues="qprs")
    went = [*one.step(after=10 * SECOND), *one.step()]
    assert len(went) == 2
    for run_id in went:
        one.go(run_id)
    one.beat(queues="qprs")
    assert len([*one.step(after=10 * SECOND), *one.step()]) == 2


def test_a_run_that_was_left_out_of_its_lane_and_comes_again_is_not_dropped_with_the_others() -> None:
    one = Dispatches()
    runs = [waiting(f"r{n}", "api") for n in range(5)]
    for run in runs:
        one.queue_up(run)
    lane = one.first("q", with_limits=True)
    assert lane is not None
    one.close(lane, LimitUse("api"), 0)
    one.leave_out(lane, ["r0"])
    one.queue_up(runs[0])
    one.leave_out(lane, ["r1", "r2", "r3", "r4"])
    assert {run_id for _, _, run_id in lane.runs} == {"r0"}
    assert not lane.gone


def test_nothing_is_kept_of_lanes_and_limits_that_are_over() -> None:
    one = Gate()
    one.edit(tenant=limit(1, overrides={"k0": 1}))
    one.beat()
    one.due(*(waiting(f"r{n}", ("tenant", f"k{n}")) for n in range(50)), *(waiting(f"z{n}", ACME) for n in range(3)))
    for _ in range(4):
        out = [run_id for run_id in one.asked if one.state.slots.uses(run_id)]
        one.dispatched(*out)
        one.started(*out)
        one.ended(*out)
        one.committed()
    state = one.state
    one.step()
    dispatches, slots = state.dispatches, state.slots
    left = [dispatches.waiting, dispatches.closed, dispatches._turns, slots._holders, slots._uses, slots._ending]
    assert not any(left), left


def test_lanes_that_come_and_go_while_one_is_passed_over_are_forgotten() -> None:
    dispatches = Dispatches()

    def closed(run: ActiveRun) -> Lane:
        dispatches.queue_up(run)
        lane = dispatches.first("q", with_limits=True)
        assert lane is not None
        dispatches.close(lane, run.limits[0], T0)
        return lane

    stays, pauses = closed(waiting("stays", "a", "b")), closed(waiting("pauses", "b", "c"))
    dispatches.open(pauses)
    for number in range(1_000):
        run = waiting(f"r{number}", ("a", f"k{number}"), ("b", "k"), priority=1)
        dispatches.discard_first(closed(run))
    assert len(dispatches._watched) < 200
    dispatches.close(pauses, LimitUse("c"), T0 + SECOND)
    passed_over = [dispatches.take_passed_over(T0) for _ in range(3)]
    assert passed_over == [stays, pauses, None], "since it was closed first"


def overdue(attempts: int = 1) -> ActiveRun:
    """A run that may take a second, in a pool that cannot stop it."""
    return waiting("a", "stripe", timeout=SECOND, retry=RetryPolicy(max_attempts=attempts, jitter=False))


@pytest.mark.parametrize("attempts", [1, 3])
def test_an_attempt_that_was_given_up_holds_its_slot_as_long_as_heartbeats_list_it(attempts: int) -> None:
    one = gate(stripe=1)
    one.due(overdue(attempts), waiting("b", "stripe"))
    one.go("a")
    for _ in range(20):
        assert one.step(after=2 * SECOND) == []
        assert one.beat(running=["a"]) == []
        assert one.committed() == []
    known = one.state.runs.get("a")
    assert known is None or known.state in (RunState.FAILED, RunState.RETRYING), "it has timed out"
    went = []
    for _ in range(4):
        one.step(after=2 * SECOND)
        went += one.beat()
    assert went in (["b"], ["a"]), "nobody lists it any more"


def test_the_end_of_an_attempt_that_was_given_up_frees_its_slot() -> None:
    one = gate(stripe=1)
    one.due(overdue(), waiting("b", "stripe"))
    one.go("a")
    one.step(after=33 * SECOND)
    one.beat(running=["a"])
    assert one.committed() == []
    assert one.ended("a") == ["b"]


def test_a_new_leader_learns_by_heartbeats_of_attempts_that_were_given_up() -> None:
    one = gate(stripe=1)
    one.known["a"] = waiting("a", "stripe")
    one.beat(running=["a"])
    assert one.reads == [], "its end may be on its way"
    one.now += 2 * SECOND
    one.beat(running=["a"])
    assert one.reads == ["a"]
    one.row("a", RunState.FAILED)
    assert one.due(waiting("b", "stripe")) == []
    for _ in range(4):
        one.step(after=2 * SECOND)
        one.beat()
    assert one.state.slots.holders(LimitUse("stripe")) == {"b": None}


def forgotten(one: Gate) -> int:
    return one.state.counts.take()["forgotten", ""]


@pytest.mark.parametrize("where", ["taken over", "in the database", "in the database of a full queue"])
def test_an_attempt_whose_dispatch_the_database_forgot_takes_a_slot_and_is_counted(where: str) -> None:
    """A database that failed over to a replica which lagged, and a new leader: the row waits, the task runs."""
    row = waiting("a", "stripe")
    one = Gate([row] if where == "taken over" else [], CoreSettings(publish_window=10_000, due_page=1))
    one.edit(stripe=limit(1))
    one.known["a"] = row
    if where == "in the database of a full queue":
        one.due(*(waiting(f"w{number}", "stripe") for number in range(20)))
    one.beat(queues="p", running=["a"])
    one.now += 2 * SECOND
    one.beat(queues="p", running=["a"])
    assert one.reads == ["a"], "the run is read anew"
    one.row("a", RunState.SCHEDULED)
    assert list(one.state.slots.holders(LimitUse("stripe"))) == [task_id("a", 1)]
    for _ in range(3):
        one.now += 2 * SECOND
        assert one.beat(running=["a"]) == [], "its slot is taken"
    assert forgotten(one) == 1
    went = []
    for _ in range(4):
        one.now += 2 * SECOND
        went += one.beat()
    assert len(went) == 1, "nobody lists it any more"


def test_an_attempt_of_before_a_retry_is_not_forgotten() -> None:
    one = gate(stripe=1)
    one.known["a"] = waiting("a", "stripe", attempt=2, due_at=T0 + HOUR)
    for _ in range(3):
        one.now += 2 * SECOND
        one.beat(running=["a"])
    one.row("a", RunState.RETRYING)
    assert list(one.state.slots.holders(LimitUse("stripe"))) == [task_id("a", 1)]
    assert forgotten(one) == 0


def test_what_nobody_receives_is_recalled_for_those_that_wait_for_its_slot_and_goes_behind_them() -> None:
    one = Gate()
    one.edit(stripe=limit(1), other=limit(1))
    one.beat("busy", queues="p", slots=1)
    one.beat("idle", queues="q")
    assert one.due(waiting("lying", "stripe", queue="p")) == ["lying"]
    one.dispatched("lying")
    one.now += 11 * SECOND
    one.beat("busy", queues="p", slots=1)
    one.step()
    one.due(waiting("o", "other"), waiting("o1", "other"))
    one.step(after=SECOND)
    assert one.recalls == [], "nobody waits for its slot"
    one.beat("idle", queues="q")
    assert one.due(waiting("b", "stripe"), waiting("free")) == ["free"]
    one.step(after=SECOND)
    assert one.recalls == ["lying"]
    one.step(ClaimsRecalled((("lying", 1, one.asked["lying"][1], True),)))
    assert one.committed() == ["b"]


def overtaken(one: Gate, *taken: str) -> None:
    """Of these and a later message of their queue, all of which a worker takes, only the later starts."""
    one.step(after=10 * SECOND)  # every worker has reported by now
    one.beat()
    one.due(*(waiting(run_id, "stripe") for run_id in (*taken, "waits")))
    one.dispatched(*taken)
    one.due(waiting("free"))
    one.dispatched("free")
    one.hear(Started("free", 1, "w", one.now, one.asked["free"][1]))
    one.beat(running=["free"])


def test_what_died_with_the_worker_that_had_taken_it_is_recalled_once_heartbeats_show_it() -> None:
    one = gate(stripe=1)
    overtaken(one, "lost")
    for _ in range(2):
        one.step(after=SECOND)
        one.beat(running=["free"])
    assert one.recalls == [], "a worker may list it with its next heartbeat"
    one.step(after=SECOND)
    assert one.recalls == ["lost"]
    one.step(ClaimsRecalled((("lost", 1, one.asked["lost"][1], True),)))
    assert one.committed() == ["lost"]  # the first of its lane goes again


def test_what_a_worker_lists_or_has_before_it_in_its_queue_is_not_taken_for_gone() -> None:
    one = gate(stripe=2)
    overtaken(one, "held", "next")
    one.started("next")
    one.ended("next")
    assert one.committed() == ["waits"]  # its message is behind what has started
    one.dispatched("waits")
    one.due(waiting("z", "stripe"))
    for _ in range(4):
        one.beat(running=["free"], received=["held"])
        one.step(after=2 * SECOND)
    assert one.recalls == []


def test_nothing_is_taken_for_gone_while_no_heartbeat_could_be_read() -> None:
    one = gate(stripe=1)
    overtaken(one, "lost")
    one.heard_until = one.now
    for _ in range(3):
        one.step(after=SECOND)
    assert one.recalls == []


def test_the_queue_is_past_a_message_since_a_later_one_started_whatever_starts_after_it() -> None:
    messages = Unstarted()
    for seconds, seq in ((0, 2), (1, 5), (2, 4), (3, 9)):
        messages.started("q", seq, T0 + seconds * SECOND)
    found = [messages.overtaken_at("q", seq) for seq in (1, 2, 4, 5, 9)]
    assert found == [T0, T0 + SECOND, T0 + SECOND, T0 + 3 * SECOND, None]
    assert messages.overtaken_at("p", 1) is None
    messages.started("q", 10, T0 + 60 * SECOND)
    assert messages.overtaken_at("q", 1) == T0 + 60 * SECOND  # nothing is kept for longer than it is asked for
    messages.forget_queue("q")
    assert messages.overtaken_at("q", 1) is None


def test_what_a_worker_has_received_is_not_recalled() -> None:
    one = gate(stripe=1)
    one.due(waiting("a", "stripe"), waiting("b", "stripe"))
    one.dispatched("a")
    for _ in range(10):
        one.beat(received=["a"])
        one.step(after=2 * SECOND)
    assert one.recalls == []


def test_what_has_several_limits_is_not_starved_by_those_that_share_one_of_them_each() -> None:
    one = gate(a=1, b=1)
    one.due(waiting("a0", "a"), waiting("b0", "b"), *(waiting(f"{x}{n}", x) for x in "ab" for n in range(1, 60)))
    one.due(waiting("both", "a", "b", priority=9))
    went: list[str] = []
    out = {"a": "a0", "b": "b0"}
    for second in range(50):
        one.beat()
        one.step(after=SECOND)
        ended = out.pop("ab"[second % 2], None)
        if ended is not None:
            one.go(ended)
            one.ended(ended)
            for run_id in one.committed():
                went.append(run_id)
                out[run_id[0]] = run_id
    assert "both" in went
    assert 25 <= went.index("both") <= 34, "it was passed over for half a minute"


def test_nothing_is_kept_for_a_lane_whose_queue_has_no_worker() -> None:
    one = gate(a=1, b=1)
    one.beat("other", queues="p")
    one.due(waiting("a0", "a"), waiting("b0", "b"))
    one.due(waiting("both", "a", "b", queue="p"), *(waiting(f"a{n}", "a") for n in range(1, 4)))
    for _ in range(40):
        one.step(after=SECOND)
        one.beat()
    one.go("a0")
    one.ended("a0")
    assert one.committed() == ["a1"]


def test_a_start_of_a_rate_is_kept_for_what_was_passed_over() -> None:
    one = Gate()
    one.edit(a=limit(1), r=Limit("", Bounds(rate=Rate(1, 5 * SECOND))))
    one.beat()
    assert sorted(one.due(waiting("a0", "a"), waiting("r0", "r"))) == ["a0", "r0"]
    one.go("a0")
    one.go("r0")
    one.due(waiting("both", "a", "r", priority=9), *(waiting(f"r{n}", "r") for n in range(1, 20)))
    went: list[str] = []
    for second in range(40):
        one.beat(running=["a0"])
        for run_id in one.step(after=SECOND):
            went.append(run_id)
            one.go(run_id)
        if second == 36:
            one.ended("a0")
            went += one.committed()
    assert went[-1] == "both"
    assert 4 < len(went) < 9


def test_no_slot_is_kept_for_what_a_rate_holds_back_still() -> None:
    one = Gate()
    one.edit(a=limit(1), r=Limit("", Bounds(rate=Rate(1, 100 * SECOND))))
    one.beat()
    assert sorted(one.due(waiting("a0", "a"), waiting("r0", "r"))) == ["a0", "r0"]
    one.go("r0")
    one.due(waiting("both", "a", "r", priority=9), *(waiting(f"a{n}", "a") for n in range(1, 80)))
    went, out = [], "a0"
    for _ in range(79):
        one.beat()
        one.step(after=SECOND)
        one.go(out)
        one.ended(out)
        [out] = one.committed()
        went.append(out)
    assert sorted(went) == sorted(f"a{n}" for n in range(1, 80))
