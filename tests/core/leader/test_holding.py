"""Paused queues: nothing is dispatched after the edit, what lay there waits again, and nothing is forgotten."""

import pytest

from itinerary.protocol.instants import MINUTE, SECOND
from itinerary.protocol.limits import LimitUse
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.leader.commands import DispatchRuns
from scheduler_service.core.leader.queries import oldest_due
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.limits import Bounds, Limit
from scheduler_service.core.run_state import RunState
from tests.support.fake_rows import QueueRow
from tests.support.world import SOMEBODY, World

DONE, LIES, WAITS = RunState.COMPLETED, RunState.PENDING, RunState.SCHEDULED
SKIPPED = RunState.SKIPPED


@pytest.fixture
def world() -> World:
    """A leader that has listened for long enough."""
    world = World()
    world.advance(10 * SECOND)
    return world


@pytest.mark.parametrize("told", [True, False])
def test_nothing_of_a_paused_queue_is_dispatched_until_it_is_resumed(world: World, told: bool) -> None:
    world.pause_queue(told=told)
    run_ids = [world.enqueue() for _ in range(3)]
    world.advance(MINUTE)
    assert [world.run(run_id).state for run_id in run_ids] == [WAITS] * 3
    world.resume_queue(told=told)
    world.advance(6 * SECOND)
    assert [world.run(run_id).state for run_id in run_ids] == [DONE] * 3
    assert all(len(world.starts(run_id)) == 1 for run_id in run_ids)


def test_other_queues_go_on(world: World) -> None:
    world.pause_queue("elsewhere")
    run_id = world.enqueue()
    world.advance(SECOND)
    assert world.run(run_id).state is DONE


def test_what_no_worker_has_started_is_recalled_and_what_runs_runs_on(world: World) -> None:
    world.workers.seconds = 30
    runs = world.enqueue()
    world.workers.listening = False
    lies = world.enqueue(retry=RetryPolicy(max_attempts=3))
    assert (world.run(runs).state, world.run(lies).state) == (RunState.RUNNING, LIES)
    world.pause_queue()
    run = world.run(lies)
    assert (run.state, run.attempt, run.attempts) == (WAITS, 1, ())
    assert run.reason is not None
    assert run.reason.startswith("recalled: queue default is paused since 2026-11-30T10:00:10")
    assert run.reason.endswith("by olga: an incident")
    world.workers.listening = True
    world.advance(MINUTE)
    assert (world.run(runs).state, world.run(lies).state) == (DONE, WAITS)
    world.resume_queue()
    world.advance(SECOND)
    assert len(world.starts(lies)) == 1


def test_a_worker_that_knows_no_recalls_keeps_what_lies_until_it_is_gone(world: World) -> None:
    world.workers.recalls = False
    world.workers.beat()
    world.workers.listening = False
    lies = world.enqueue()
    world.pause_queue()
    assert world.run(lies).state is LIES
    world.workers.recalls = True
    world.workers.beat()
    world.advance(2 * SECOND)
    assert world.run(lies).state is WAITS


def test_a_pause_ends_by_itself(world: World) -> None:
    world.pause_queue(until=world.now + 5 * SECOND)
    run_id = world.enqueue()
    world.advance(4 * SECOND)
    assert world.run(run_id).state is WAITS
    world.advance(SECOND)
    assert world.starts(run_id) == [world.now]


def test_a_pause_survives_its_leader(world: World) -> None:
    world.pause_queue()
    run_id = world.enqueue()
    world.lead()
    world.advance(MINUTE)
    assert world.run(run_id).state is WAITS
    world.resume_queue()
    world.advance(SECOND)
    assert world.run(run_id).state is DONE


def test_a_retry_waits_for_the_resume_and_keeps_its_attempts(world: World) -> None:
    world.workers.behave = lambda attempt: ("failed", {"error": {"type": "E", "message": "m", "traceback": None}})
    run_id = world.enqueue(retry=RetryPolicy(max_attempts=2, initial=10 * SECOND, jitter=False))
    world.advance(SECOND)
    assert world.run(run_id).state is RunState.RETRYING
    world.pause_queue()
    world.advance(MINUTE)
    assert (world.run(run_id).state, world.run(run_id).attempt) == (RunState.RETRYING, 2)
    world.resume_queue()
    world.advance(SECOND)
    assert (world.run(run_id).state, len(world.starts(run_id))) == (RunState.FAILED, 2)


def test_of_a_job_only_so_many_occurrences_wait_and_older_ones_become_a_missed_range(world: World) -> None:
    misfire = {"policy": "fire_all", "max_catch_up": 3}
    world.every("tick", "1s", overlap="allow", misfire=misfire)
    world.advance(2 * SECOND)
    world.pause_queue()
    begun = len(world.runs("tick"))
    world.advance(MINUTE)
    waiting = [run for run in world.runs("tick") if run.state is WAITS and run.due_at <= world.now]
    assert len(waiting) == 3
    assert waiting[-1].due_at > world.now - 2 * SECOND
    ranges = world.store.tables.missed_ranges
    assert sum(one.count for one in ranges) >= 50
    assert {one.reason.partition("; ")[2] for one in ranges} == {"of one job at most 3 occurrences wait for the resume"}
    assert len(world.runs("tick")) < begun + 20, "a skipped occurrence keeps no row"
    world.resume_queue()
    world.advance(SECOND)
    assert {world.run(run.run_id).state for run in waiting} == {DONE}


def test_a_pause_and_its_resume_in_one_pass_hold_nothing(world: World) -> None:
    world.every("tick", "1s", overlap="allow")
    world.store.queues.pause("default", "short", None, by=SOMEBODY)
    world.store.queues.resume("default", by=SOMEBODY)
    world.advance(10 * SECOND)
    late = [run.run_id for run in world.runs("tick") if run.state is WAITS and run.due_at < world.now - SECOND]
    assert late == []


def test_a_deadline_says_that_the_queue_was_paused(world: World) -> None:
    world.pause_queue()
    run_id = world.enqueue(start_within=5 * SECOND)
    world.advance(10 * SECOND)
    run = world.run(run_id)
    assert run.state is RunState.MISSED
    assert run.reason is not None
    assert "queue default is paused since" in run.reason


def test_a_paused_queue_is_no_lag(world: World) -> None:
    world.pause_queue()
    world.enqueue()
    world.advance(MINUTE)
    assert oldest_due(world.state, world.now) is None


def test_the_metrics_show_the_pause_and_no_backlog_that_more_workers_would_shorten(world: World) -> None:
    world.workers.listening = False
    world.enqueue()
    world.advance(SECOND)
    assert 'scheduler_queue_pending_runs{queue="default"} 1.0' in world.meter.exposition()
    world.pause_queue()
    world.enqueue()
    world.advance(2 * SECOND)
    shown = world.meter.exposition()
    for name, number in (("paused", 1), ("pending_runs", 0), ("backlog_runs", 0)):
        assert f'scheduler_queue_{name}{{queue="default"}} {number}.0' in shown
    world.resume_queue()
    world.advance(2 * SECOND)
    assert 'scheduler_queue_paused{queue="default"} 0.0' in world.meter.exposition()


def test_a_cancelled_run_of_a_paused_queue_ends(world: World) -> None:
    world.pause_queue()
    run_id = world.enqueue()
    world.cancel(run_id)
    assert world.run(run_id).state is RunState.CANCELLED


@pytest.mark.parametrize("until", [None, 20 * SECOND])
def test_what_somebody_asked_for_waits_in_the_database_and_not_in_memory(world: World, until: int | None) -> None:
    """A pause may last for days, with a million runs asked for meanwhile."""
    world.pause_queue(until=until and world.now + until)
    run_ids = [world.enqueue() for _ in range(3)]
    world.advance(10 * SECOND)
    assert [run_id for run_id in run_ids if run_id in {run.run_id for run in world.state.runs}] == []
    if until is None:
        world.resume_queue()
    world.advance(11 * SECOND)
    assert [world.run(run_id).state for run_id in run_ids] == [DONE] * 3


def test_a_new_leader_knows_the_pauses_before_it_chooses(world: World) -> None:
    world.pause_queue()
    world.every("beat", "1s", overlap="allow")
    world.advance(2 * SECOND)
    world.commands.clear()
    world.lead()
    assert [one for one in world.commands if isinstance(one, DispatchRuns)] == []


def test_of_a_job_whose_limit_is_reached_only_so_many_occurrences_wait(world: World) -> None:
    world.store.tables.limits["api"] = Limit("api", Bounds(concurrency=1))
    world.store.tables.control += 1
    world.workers.behave = lambda attempt: None
    world.every("tick", "1s", overlap="allow", limits=["api"], misfire={"policy": "fire_all", "max_catch_up": 3})
    for _ in range(30):
        world.workers.beat()
        world.advance(SECOND)
    waiting = [run for run in world.runs("tick") if run.state is WAITS and run.due_at <= world.now]
    assert [run.state for run in world.runs("tick")].count(RunState.RUNNING) == 1
    assert len(waiting) == 3
    ranges = world.store.tables.missed_ranges
    assert sum(one.count for one in ranges) >= 20
    assert {one.reason for one in ranges} == {"limit api is reached; of one job at most 3 occurrences wait for it"}
    known = world.state.runs.get(waiting[0].run_id)
    assert known is not None
    lane = world.state.dispatches.closed_lane(known)
    assert lane is not None
    assert len(lane.runs) <= 2 * 3, "memory keeps few of the others"
    last = world.state.runs.get(max(lane.runs)[2])
    assert last is not None
    assert world.state.dispatches.before(last, 1_000) == 2, "explanations count what waits"


def test_the_overlap_rule_is_applied_before_a_limit_and_lets_one_occurrence_wait_for_it(world: World) -> None:
    world.store.tables.limits["api"] = Limit("api", Bounds(concurrency=1))
    world.store.tables.control += 1
    world.tell("control_changed")
    world.workers.behave = lambda attempt: None
    world.workers.beat()
    holder = world.enqueue(limits=(LimitUse("api"),))
    world.every("tick", "1s", limits=["api"])
    for _ in range(20):
        world.workers.beat()
        world.advance(SECOND)
    assert world.run(holder).state is RunState.RUNNING
    (waits,) = [run for run in world.runs("tick") if run.state is WAITS and run.due_at <= world.now]
    ranges = world.store.tables.missed_ranges
    assert {one.reason for one in ranges} == {f"overlap skip: {waits.run_id} is not final"}
    assert sum(one.count for one in ranges) >= 15
    known = world.state.runs.get(waits.run_id)
    assert known is not None
    assert world.state.dispatches.waits_for(known) == LimitUse("api"), "which says what it waits for"


@pytest.mark.parametrize("fair", [False, True])
def test_of_a_job_whose_queue_is_full_only_so_many_occurrences_wait(world: World, fair: bool) -> None:
    world.store.tables.queues["default"] = QueueRow(bounds=Bounds(concurrency=2), fair=fair)
    world.store.tables.control += 1
    world.workers.behave = lambda attempt: None
    world.every("tick", "1s", overlap="allow", misfire={"policy": "fire_all", "max_catch_up": 3})
    asked_for = [world.enqueue() for _ in range(5)]
    for _ in range(40):
        world.workers.beat()
        world.advance(SECOND)
    waiting = [run for run in world.runs("tick") if run.state is WAITS and run.due_at <= world.now]
    assert len(waiting) == 3
    assert {world.run(run_id).state for run_id in asked_for} <= {WAITS, RunState.RUNNING}
    ranges = world.store.tables.missed_ranges
    assert sum(one.count for one in ranges) >= 30
    reason = "limit queue:default is reached; of one job at most 3 occurrences wait for it"
    assert {one.reason for one in ranges} == {reason}
    known = world.state.runs.get(waiting[0].run_id)
    assert known is not None
    lane = world.state.dispatches.lane_of(known)
    assert lane is not None
    assert len(lane.runs) <= 2 * (3 + 5), "memory keeps few of the others"
    world.store.tables.queues["default"] = QueueRow()
    world.store.tables.control += 1
    world.tell("control_changed")
    world.reconcile()
    world.advance(SECOND)
    assert {world.run(run.run_id).state for run in waiting} == {RunState.RUNNING}


def test_what_waits_for_workers_in_a_bounded_queue_is_not_skipped() -> None:
    world = World(settings=CoreSettings(publish_window=5))
    world.advance(10 * SECOND)
    world.store.tables.queues["default"] = QueueRow(bounds=Bounds(concurrency=100))
    world.store.tables.control += 1
    world.workers.listening = False
    world.every("tick", "1s", overlap="allow", misfire={"policy": "fire_all", "max_catch_up": 3})
    world.advance(15 * SECOND)
    assert len([run for run in world.runs("tick") if run.state is WAITS and run.due_at <= world.now]) >= 5
    assert world.store.tables.missed_ranges == []


def test_what_is_skipped_in_a_lane_of_many_rebuilds_it_seldom(world: World) -> None:
    world.store.tables.limits["api"] = Limit("api", Bounds(concurrency=1))
    world.store.tables.control += 1
    world.workers.behave = lambda attempt: None
    misfire = {"policy": "fire_all", "max_catch_up": 10}
    for number in range(10):
        world.every(f"tick{number}", "2s", overlap="allow", limits=["api"], misfire=misfire)
    for _ in range(30):
        world.workers.beat()
        world.advance(SECOND)
    (order,) = world.state.dispatches.closed.values()
    lane = order.first()
    assert lane is not None
    kept, rebuilt = lane.runs, 0
    for _ in range(20):
        world.workers.beat()
        world.advance(SECOND)
        rebuilt, kept = rebuilt + (lane.runs is not kept), lane.runs
    assert rebuilt <= 4, "of 100 that were skipped"
    assert len(lane.runs) <= 200
