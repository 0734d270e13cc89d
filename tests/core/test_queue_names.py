"""Names of queues come and go: what the leader counts of each goes with its last run."""

from itinerary.protocol.instants import SECOND
from scheduler_service.core.leader.messages import Started
from scheduler_service.core.leader.parts.dispatches import Dispatches
from scheduler_service.core.leader.reports import report
from scheduler_service.core.leader.step import Step
from scheduler_service.core.run_state import RunState
from tests.support.world import World


def test_a_queue_that_is_gone_leaves_no_counter_behind() -> None:
    world = World()
    run_id = world.enqueue()
    report(world.state, Step(world.now), Started(world.enqueue(5 * SECOND), 1, "w1", world.now, 7))
    world.state.unstarted.started("default", 7, world.now)
    world.advance(20 * SECOND)
    assert world.run(run_id).state is RunState.COMPLETED
    assert "default" not in world.state.dispatches.of_queue
    assert "default" not in world.state.runs.pending
    assert world.state.unstarted.overtaken_at("default", 0) is None


def test_dispatching_nothing_of_a_queue_leaves_no_counter_behind() -> None:
    dispatches = Dispatches()
    dispatches.begin("default", [])
    assert "default" not in dispatches.of_queue
