"""Start deadlines: what waits too long is missed, what has started is not, whoever leads."""

from dataclasses import replace

import pytest

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, format_instant
from itinerary.protocol.limits import LimitUse, lane_of
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.leader.parts.deadlines import Deadlines
from scheduler_service.core.leader.poll_state import ExpiredRead
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.limits import Bounds, Limit
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import RunState
from tests.support.world import SOMEBODY, World, attempt_of


def world_without_workers(**settings: int) -> World:
    world = World(settings=CoreSettings(**settings))
    world.workers.die()
    return world


def why(run: Run) -> str:
    assert run.start_by is not None
    said = f"start_within: not started by {format_instant(run.start_by)}; "
    assert run.reason is not None
    assert run.reason.startswith(said)
    return run.reason.removeprefix(said)


def test_a_run_that_no_worker_begins_is_withdrawn_at_its_deadline_and_missed() -> None:
    world = world_without_workers()
    run_id = world.enqueue(start_within=MINUTE)
    world.advance(MINUTE - SECOND)
    assert world.run(run_id).state is RunState.PENDING
    world.advance(2 * SECOND)
    run = world.run(run_id)
    assert (run.state, run.attempt, run.started_at) == (RunState.MISSED, 1, None)
    assert why(run) == "it was sent to queue default and no worker started it"
    # A worker that comes now finds the message, and is refused.
    world.workers.alive = world.workers.listening = True
    world.advance(MINUTE)
    assert world.starts(run_id) == []
    assert world.run(run_id).state is RunState.MISSED


def test_a_run_that_is_started_in_time_may_take_as_long_as_it_likes() -> None:
    world = World()
    world.workers.behave = lambda attempt: None
    run_id = world.enqueue(start_within=10 * SECOND)
    for _ in range(30):
        world.workers.beat()
        world.advance(5 * SECOND)
    assert world.run(run_id).state is RunState.RUNNING


def test_a_retry_is_not_subject_to_the_deadline() -> None:
    world = World()
    world.workers.behave = lambda attempt: ("failed", {"error": {"type": "E", "message": "m"}})
    retry = RetryPolicy(max_attempts=2, initial=MINUTE, max=MINUTE, jitter=False)
    run_id = world.enqueue(start_within=10 * SECOND, retry=retry)
    world.advance(30 * SECOND)
    assert world.run(run_id).state is RunState.RETRYING
    world.advance(2 * MINUTE)
    assert (world.run(run_id).state, world.run(run_id).attempt) == (RunState.FAILED, 2)


def test_a_run_that_waits_behind_another_of_its_job_is_missed_and_says_so() -> None:
    world = World()
    world.workers.behave = lambda attempt: None
    world.every("slow", "1m", overlap="queue", start_within="20s")
    world.advance(MINUTE + SECOND)
    (first,) = [run for run in world.runs("slow") if run.state is RunState.RUNNING]
    assert first.start_by == first.due_at + 20 * SECOND
    for _ in range(9):
        world.workers.beat()
        world.advance(10 * SECOND)
    ended = [run for run in world.runs("slow") if run.state is RunState.MISSED]
    assert [why(run) for run in ended] == [f"it waited for run {first.run_id} of its job"]
    assert world.run(first.run_id).state is RunState.RUNNING


@pytest.mark.parametrize("fair", [False, True])
def test_what_waits_for_a_limit_is_missed_and_says_for_which(fair: bool) -> None:
    world = World()
    world.workers.behave = lambda attempt: None
    world.store.limits.edit("tenant", lambda _: Limit("tenant", Bounds(1), per_key=True), by=SOMEBODY)
    world.store.queues.define("default", lambda queue: replace(queue, fair=fair), by=SOMEBODY)
    world.tell("control_changed")
    world.advance(SECOND)
    uses = (LimitUse("tenant", "acme"),)
    first, waiting, later = (
        world.enqueue(limits=uses, lane=lane_of(uses), start_within=within) for within in (None, MINUTE, None)
    )
    for _ in range(8):
        world.workers.beat()
        world.advance(10 * SECOND)
    assert why(world.run(waiting)) == "it waited for limit tenant/acme"
    assert [world.run(run_id).state for run_id in (first, later)] == [RunState.RUNNING, RunState.SCHEDULED]


@pytest.mark.slow
def test_what_waits_for_room_in_its_queue_is_missed_and_the_next_goes_on() -> None:
    world = world_without_workers(publish_window=1)
    sent, waiting, without = world.enqueue(), world.enqueue(start_within=MINUTE), world.enqueue()
    world.advance(2 * MINUTE)
    assert why(world.run(waiting)) == "it waited for room in queue default"
    assert [world.run(run_id).state for run_id in (sent, without)] == [RunState.PENDING, RunState.SCHEDULED]


def test_the_deadline_passes_while_nobody_leads() -> None:
    world = world_without_workers()
    run_id = world.enqueue(after=MINUTE, start_within=MINUTE)
    world.lead(wait=2 * HOUR)
    world.reconcile()
    assert why(world.run(run_id)) == "no leader read it in time"


@pytest.mark.parametrize("after", ["claimed", "nothing"])
def test_a_leader_that_dies_at_the_deadline_leaves_it_to_the_next(after: str) -> None:
    world = world_without_workers()
    run_id = world.enqueue(start_within=MINUTE)
    world.advance(30 * SECOND)
    if after == "claimed":  # Redis confirmed, and nothing was committed
        assert world.claims.take([attempt_of(run_id)]) == [True]
    world.lead(wait=HOUR)
    world.reconcile()
    world.workers.alive = world.workers.listening = True
    world.advance(MINUTE)
    assert world.run(run_id).state is RunState.MISSED
    assert world.starts(run_id) == []


def test_a_run_whose_start_is_still_unread_at_its_deadline_is_not_missed() -> None:
    world = World()
    world.workers.behave = lambda attempt: None
    world.deaf = True
    run_id = world.enqueue(start_within=10 * SECOND)
    world.deaf = False
    world.reconcile()
    world.deaf = True
    world.advance(20 * SECOND)
    world.deaf = False
    world.workers.beat()
    world.reconcile()
    assert world.run(run_id).state is RunState.RUNNING
    assert len(world.starts(run_id)) == 1


def test_a_cancel_at_the_deadline_is_a_cancel() -> None:
    world = world_without_workers()
    run_id = world.enqueue(after=MINUTE, start_within=MINUTE)
    world.cancel(run_id)
    world.advance(3 * MINUTE)
    assert world.run(run_id).state is RunState.CANCELLED


def test_runs_beyond_memory_are_swept_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_without_workers()
    ids = [world.enqueue(after=MINUTE + number, start_within=SECOND) for number in range(5)]
    for run_id in ids:  # as rows that were never in memory
        world.state.runs.drop(run_id)
    world.state.due.heap.clear()
    world.state.deadlines.heap.clear()
    asked: list[int] = []
    expired_runs = world.store.leader.expired_runs

    def two_at_a_time(until: int, limit: int, after: object) -> ExpiredRead:
        found = expired_runs(until, 2, after)  # type: ignore[arg-type]
        asked.append(len(found.runs))
        return found

    monkeypatch.setattr(world.store.leader, "expired_runs", two_at_a_time)
    monkeypatch.setattr(world.store.leader, "due_runs", lambda until, limit, paused: [])
    monkeypatch.setattr(world.store.leader, "overdue_runs", lambda until, limit, after: ExpiredRead((), None))
    world.advance(2 * MINUTE)
    assert {world.run(run_id).state for run_id in ids} == {RunState.MISSED}
    assert max(asked) == 2


def test_deadlines_of_runs_that_started_do_not_pile_up() -> None:
    world = world_without_workers()
    world.enqueue(start_within=DAY)
    (waiting,) = world.state.runs
    deadlines = Deadlines()
    for _ in range(5_000):
        deadlines.note(waiting)
        deadlines.note(waiting._replace(state=RunState.RUNNING))
        deadlines.forget_started(world.state.runs)
    assert len(deadlines.heap) <= 1_005


def test_runs_without_a_deadline_cost_the_heap_nothing() -> None:
    world = World()
    for _ in range(10):
        world.enqueue()
    world.advance(MINUTE)
    assert world.state.deadlines.heap == Deadlines().heap
