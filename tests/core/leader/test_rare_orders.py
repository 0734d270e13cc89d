"""What comes in an order that it seldom comes in, or does not come at all."""

from typing import Any

import pytest

from itinerary.protocol.instants import SECOND
from scheduler_service.core.leader.commands import Command, Publish, ReadRuns, StoreCommand, Transition
from scheduler_service.core.leader.iteration import iterate
from scheduler_service.core.leader.results import RunsDispatched, RunsRead
from scheduler_service.core.leader.step import Step
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.loops.commit_order import CommitOrder
from scheduler_service.loops.write_groups import DispatchCommand
from tests.support.world import World


@pytest.fixture
def world() -> World:
    return World()


def test_a_move_that_comes_back_for_a_run_out_of_memory_is_sent_once_the_run_is_known_again(world: World) -> None:
    # Sent at once, its report could come before the row: taken for one of the past, its result would be removed.
    world.workers.listening = False
    run_id = world.enqueue()
    sent = world.dispatcher.published.pop()
    world.state.runs.drop(run_id)
    world.state.attempt_over(run_id)
    world.state.publishing.take_marks_until(world.now)
    world.state, commands = iterate(world.state, [RunsDispatched((sent,), ())], world.now)
    assert not [one for one in commands if isinstance(one, Publish)]
    assert [one.run_ids for one in commands if isinstance(one, ReadRuns)] == [(run_id,)]
    world.carry_out(commands)
    world.reconcile()
    assert [run.run_id for run in world.dispatcher.published] == [run_id]


@pytest.mark.parametrize("under_way", ["moving", "renewing"])
def test_a_run_that_is_read_while_it_is_moved_or_sent_again_is_read_once_more(world: World, under_way: str) -> None:
    # The two are done by different threads: what was read may be newer than what memory will hear of the move.
    world.workers.listening = False
    run_id = world.enqueue()
    if under_way == "moving":
        world.state.dispatches.begin("default", [run_id])
    else:
        world.state.publishing.begin_redispatch(run_id)
    world.store.runs.request_cancel(run_id)
    world.state.reads.begin(run_id)
    read = RunsRead((run_id,), tuple(world.store.leader.read_runs([run_id])))
    world.state, commands = iterate(world.state, [read], world.now)
    assert [one.run_ids for one in commands if isinstance(one, ReadRuns)] == [(run_id,)]


class _Killed(Exception):
    pass


class _DiesOnceItHasDispatched(World):
    """A leader that is killed, if `doomed`, when it has moved runs and before any write that they may go ahead of."""

    doomed = False

    def carry_out(self, commands: list[Command]) -> None:
        writes = [one for one in commands if isinstance(one, StoreCommand) and not isinstance(one, DispatchCommand)]
        moves = [one for one in commands if isinstance(one, DispatchCommand)]
        if not (self.doomed and moves):
            return super().carry_out(commands)
        order = CommitOrder()
        for write in writes:
            order.take(write, done=0)
        before = max(order.before(move, 0) for move in moves)
        super().carry_out([*writes[:before], *moves])
        raise _Killed


def test_what_fires_in_the_place_of_late_runs_is_not_followed_by_another_when_the_leader_dies_at_once() -> None:
    world = _DiesOnceItHasDispatched()
    world.every("a", "2s", misfire={"policy": "fire_once", "grace": "1s"}, overlap="allow")
    world.advance(5 * SECOND)
    world.workers.started.clear()
    world.doomed = True
    with pytest.raises(_Killed):
        world.lead(wait=6 * SECOND)
    world.doomed = False
    world.store.leases.resign(world.renewer.lease)
    world.lead()
    assert len(world.workers.started) == 1
    assert world.states("a").count("missed") > 1


def test_an_end_that_no_pending_run_may_come_to_is_written_behind_its_start(world: World) -> None:
    world.workers.listening = False
    run_ids = [world.enqueue() for _ in range(2)]
    step = Step(world.now)
    for run_id, event in zip(run_ids, (Event.TIME_OUT, Event.FAIL), strict=True):
        run = world.state.runs.get(run_id)
        assert run is not None
        for change in (
            Transition(run_id, 1, Event.START, RunState.RUNNING, world.now),
            Transition(run_id, 1, event, RunState.FAILED, world.now),
        ):
            step.transition(world.state, run._replace(state=change.to), change)
    assert [change.event for change in step.transitions] == [Event.START, Event.TIME_OUT, Event.FAIL]
    world.carry_out(step.finish(world.state))
    assert [world.run(run_id).state for run_id in run_ids] == [RunState.FAILED] * 2


def test_a_retry_that_was_cancelled_without_a_word_holds_up_its_job_once_and_not_for_its_whole_pause(
    world: World,
) -> None:
    def fails(attempt: str) -> tuple[str, dict[str, Any]]:
        return "failed", {"error": {"type": "ValueError", "message": attempt, "traceback": None}}

    world.workers.behave = fails
    world.every("a", "10s", retry={"max_attempts": 2, "initial": "8m", "jitter": False})
    world.advance(15 * SECOND)
    first, *_ = world.runs("a")
    assert first.state is RunState.RETRYING
    world.store.runs.request_cancel(first.run_id)  # Redis is away: the leader is not told
    world.advance(20 * SECOND)
    assert world.states("a")[:3] == ["cancelled", "skipped", "retrying"]
