"""Moves of due runs go ahead of every write that does not concern them, and come after those that do."""

from dataclasses import replace

import pytest

from scheduler_service.core.balancing.placements import PlaceJobs
from scheduler_service.core.leader.commands import (
    Apply,
    CreateRuns,
    Dispatch,
    DispatchRuns,
    PublishedMark,
    ReadRuns,
    Redispatch,
    Retract,
    StoreCommand,
    Transition,
)
from scheduler_service.core.model import MissedRange, NewRun, RunKind
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.loops.commit_order import CommitOrder

MOVE = DispatchRuns((Dispatch("b", 1, 7), Dispatch("a", 1, 8), Dispatch("job_c", 1, 9)))


def made(*run_ids: str) -> CreateRuns:
    return CreateRuns(tuple(NewRun(run_id, RunKind.OCCURRENCE, "pkg.task", 1, 1, "job", 1) for run_id in run_ids), 9)


def ended(*run_ids: str) -> Apply:
    return Apply(tuple(Transition(run_id, 1, Event.RETRY, RunState.RETRYING, 5, due_at=5) for run_id in run_ids))


def given_up(run_id: str, event: Event, to: RunState) -> Apply:
    return Apply((Transition(run_id, 1, event, to, 5),))


CONCERNS = [
    made("x", "a"),
    ended("x", "a"),
    Apply((), cancels=("a",)),
    Apply((), published=(PublishedMark("a", 1, 5),)),
    given_up("job_x", Event.MISS, RunState.MISSED),
    given_up("job_x", Event.SKIP, RunState.SKIPPED),
    CreateRuns((), cursor=9, missed_ranges=(MissedRange("job", 1, 2, 1, "misfire"),)),
    CreateRuns((), cursor=9, planned=(("job", 2),)),
    CreateRuns((), cursor=9, retracts=(Retract("job", 2, 5),)),
    CreateRuns((), cursor=9, set_back=True),
    PlaceJobs((), 5),
]
DOES_NOT = [
    made("x", "job_x"),
    ended("x", "job_x"),
    given_up("another.job_c", Event.MISS, RunState.MISSED),
    ReadRuns(("a",)),
    replace(made("x", "job_x"), retracts=(Retract("another", 2, 5),), planned=(("another", 2),)),
]


@pytest.mark.parametrize("command", CONCERNS)
def test_a_move_comes_after_what_concerns_it_and_not_after_what_came_later(command: StoreCommand) -> None:
    order = CommitOrder()
    for one in (*DOES_NOT, command, *DOES_NOT):
        order.take(one, done=0)
    assert order.before(MOVE, 0) == len(DOES_NOT) + 1
    assert order.before(Redispatch(MOVE.dispatches, "lost"), 0) == len(DOES_NOT) + 1


@pytest.mark.parametrize("command", DOES_NOT)
def test_a_move_goes_ahead_of_what_does_not_concern_it(command: StoreCommand) -> None:
    order = CommitOrder()
    order.take(command, done=0)
    assert order.before(MOVE, 0) == 0


def test_a_move_comes_after_the_last_part_of_what_was_made_with_its_run() -> None:
    order = CommitOrder()
    for part in (replace(made("a"), cursor=None), replace(made("x"), cursor=None), made("y"), made("z")):
        order.take(part, done=0)
    assert order.before(MOVE, 0) == 3


def test_the_last_that_names_a_run_counts_and_what_is_done_is_forgotten() -> None:
    order = CommitOrder()
    order.take(made("a"), done=0)
    order.take(ended("a"), done=0)
    assert order.before(MOVE, 0) == 2
    order.take(ended("x"), done=1)
    assert order.before(MOVE, 0) == 2
    order.take(ended("x"), done=3)
    assert order.before(MOVE, 3) == 0
    assert order._named == {"x": 4}


def test_a_move_waits_for_those_of_its_queue_before_it_and_passes_those_of_others() -> None:
    order = CommitOrder()
    order.take(made("a"), done=0)
    order.take(made("z"), done=0)
    mine, more, another = (DispatchRuns((Dispatch(run_id, 1, 7),), queue)
                           for run_id, queue in (("z", "mine"), ("new", "mine"), ("new", "another")))  # fmt: skip
    again = Redispatch((Dispatch("old", 1, 9),), "lost")
    assert [order.before(one, 0) for one in (another, mine, more, another)] == [0, 2, 2, 0]
    assert [order.before(one, 0) for one in (again, another)] == [2, 2], "it may be of any queue"
    assert [order.before(one, 2) for one in (more, again, another)] == [2, 2, 2], "both are done"
    assert order._of_queue == {}
