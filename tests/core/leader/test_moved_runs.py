"""Waiting runs that are moved to another queue: they wait in their lane there, held by nothing of the old one."""

from dataclasses import replace

import pytest

from itinerary.protocol.instants import MINUTE, SECOND
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.limits import Bounds, Limit
from scheduler_service.core.run_state import RunState
from tests.support.world import SOMEBODY, World

DONE, LIES, WAITS = RunState.COMPLETED, RunState.PENDING, RunState.SCHEDULED


@pytest.fixture
def world() -> World:
    """A leader that has listened for long enough."""
    world = World()
    world.advance(10 * SECOND)
    return world


@pytest.mark.parametrize("told", [True, False])
def test_a_run_leaves_a_paused_queue(world: World, told: bool) -> None:
    run_id = world.enqueue(after=SECOND, queue="old")
    world.pause_queue("old")
    world.advance(2 * SECOND)
    world.move(run_id, "default", told=told)
    world.advance(11 * SECOND)
    assert world.run(run_id).state is DONE
    assert len(world.starts(run_id)) == 1


@pytest.mark.parametrize("told", [True, False])
def test_an_occurrence_leaves_a_paused_queue(world: World, told: bool) -> None:
    world.pause_queue("old")
    world.every("tick", "1s", queue="old", overlap="allow")
    world.advance(2 * SECOND)
    first = next(run for run in world.runs("tick") if run.state is WAITS and run.due_at <= world.now)
    world.move(first.run_id, "default", told=told)
    world.advance(11 * SECOND)
    assert world.run(first.run_id).state is DONE


def test_of_those_that_may_wait_for_a_queue_a_run_that_left_it_is_none(world: World) -> None:
    world.pause_queue("old")
    world.pause_queue("new")
    world.every("tick", "1s", queue="old", overlap="allow", misfire={"policy": "fire_all", "max_catch_up": 2})
    world.advance(2 * SECOND)
    first = next(run for run in world.runs("tick") if run.state is WAITS and run.due_at <= world.now)
    world.move(first.run_id, "new")
    world.advance(MINUTE)
    assert world.run(first.run_id).state is WAITS
    world.resume_queue("new")
    world.advance(SECOND)
    assert world.run(first.run_id).state is LIES


def test_a_run_that_was_chosen_for_its_old_queue_is_not_dispatched_past_a_pause_of_the_new_one(world: World) -> None:
    run_id = world.enqueue(after=2 * SECOND)
    world.advance(SECOND)
    world.pause_queue("new")
    world.move(run_id, "new", told=False)
    world.advance(10 * SECOND)
    assert world.run(run_id).state is WAITS
    world.resume_queue("new")
    world.advance(SECOND)
    assert (world.run(run_id).state, world.run(run_id).queue) == (LIES, "new")


def test_a_run_waits_in_its_lane_of_a_fair_queue_behind_the_limit_of_that_queue(world: World) -> None:
    world.store.tables.limits["api"] = Limit("api", Bounds(concurrency=1), per_key=True)
    world.store.queues.define("new", lambda before: replace(before, fair=True), by=SOMEBODY)
    world.pause_queue("old")
    use = {"limits": (LimitUse("api", "acme"),), "lane": "api/acme"}
    run_ids = [world.enqueue(after=SECOND, queue="old", **use) for _ in range(3)]
    world.advance(2 * SECOND)
    for run_id in run_ids:
        world.move(run_id, "new")
    world.advance(SECOND)
    waiting = world.state.dispatches.waiting["new"]
    assert {lane.name for lane in waiting.all() if lane.runs} == {"api/acme"}
    assert len(waiting) == 3
    assert "old" not in world.state.dispatches.waiting


def test_a_run_that_moves_there_and_back_starts_once(world: World) -> None:
    world.pause_queue()
    world.pause_queue("new")
    run_id = world.enqueue(after=SECOND)
    world.advance(2 * SECOND)
    for queue in ("new", "default", "new", "default"):
        world.move(run_id, queue)
    world.resume_queue()
    world.advance(10 * SECOND)
    assert world.run(run_id).state is DONE
    assert len(world.starts(run_id)) == 1
