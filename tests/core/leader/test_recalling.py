"""Recall: what lies in a queue waits in the database again, starts once, and loses no attempt."""

import pytest

from itinerary.protocol.instants import MINUTE, SECOND
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.leader.in_flight import redispatch, take_claims
from scheduler_service.core.leader.recalling import recall
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.leader.step import Step
from scheduler_service.core.run_state import RunState
from tests.support.world import World, attempt_of

DONE, LIES, WAITS = RunState.COMPLETED, RunState.PENDING, RunState.SCHEDULED


def idle_world(**settings: int) -> World:
    """A leader that has listened for long enough, and a worker that takes nothing yet."""
    world = World(settings=CoreSettings(**settings))
    world.advance(10 * SECOND)
    world.workers.listening = False
    return world


def one_is_recalled() -> tuple[World, str]:
    """A world in which one run waits again, since a more urgent one has taken its place in the window of one."""
    world = idle_world(publish_window=1)
    run_id = world.enqueue(priority=9)
    world.enqueue(priority=0)
    assert world.recall(run_id) == 1
    return world, run_id


def take_all(world: World) -> None:
    """The worker takes what there is, and what follows from it."""
    world.workers.listening = True
    world.reconcile()
    world.advance(SECOND)


def test_a_recalled_run_waits_again_and_starts_once_by_its_next_message() -> None:
    world, run_id = one_is_recalled()
    run = world.run(run_id)
    assert (run.state, run.attempt, run.pending_at, run.published_at) == (WAITS, 1, None, None)
    assert run.reason == "recalled: a test wants it"
    assert world.state.runs.is_admitted(run_id)
    take_all(world)
    run = world.run(run_id)
    assert (run.state, run.attempt, run.attempts, run.reason) == (DONE, 1, (), None)
    assert len(world.starts(run_id)) == 1
    assert len([sent for sent in world.dispatcher.published if sent.run_id == run_id]) == 2
    assert "scheduler_recalled_total 1.0" in world.meter.exposition()


def test_what_is_urgent_starts_before_what_is_recalled() -> None:
    world = idle_world(publish_window=3)
    lying = [world.enqueue(priority=9) for _ in range(3)]
    urgent = [world.enqueue(priority=0) for _ in range(3)]
    assert world.recall(*lying) == 3
    take_all(world)
    order = [attempt for _, attempt in world.workers.started]
    assert order == [attempt_of(run_id) for run_id in (*urgent, *lying)]


def test_a_later_attempt_waits_as_the_retry_that_it_is() -> None:
    world = idle_world(publish_window=1)
    world.workers.listening = True
    world.workers.behave = lambda attempt: ("failed", {"error": {"type": "E", "message": "m"}})
    run_id = world.enqueue(priority=9, retry=RetryPolicy(max_attempts=2, initial=2 * SECOND, jitter=False))
    world.advance(SECOND)
    world.workers.listening = False
    world.advance(2 * SECOND)
    assert (world.run(run_id).state, world.run(run_id).attempt) == (LIES, 2)
    world.enqueue(priority=0)
    assert world.recall(run_id) == 1
    run = world.run(run_id)
    assert (run.state, run.attempt, len(run.attempts)) == (RunState.RETRYING, 2, 1)
    take_all(world)
    run = world.run(run_id)
    assert (run.state, run.attempt, len(world.starts(run_id))) == (RunState.FAILED, 2, 2)


def test_a_worker_that_has_claimed_it_wins() -> None:
    world = idle_world()
    run_id = world.enqueue()
    world.workers.behave = lambda attempt: None
    world.deaf = world.workers.listening = True
    world.reconcile()
    assert len(world.starts(run_id)) == 1
    assert world.recall(run_id) == 1
    assert world.run(run_id).state is LIES
    world.deaf = False
    world.reconcile()
    assert world.run(run_id).state is RunState.RUNNING
    assert len(world.dispatcher.published) == 1


@pytest.mark.parametrize("published", [True, False])
def test_a_leader_that_dies_after_the_mark_leaves_it_to_the_next_message(published: bool) -> None:
    world = idle_world()
    run_id = world.enqueue()
    if published:
        world.advance(2 * SECOND)  # the mark of its publish is in the database
    assert world.claims.recall([(attempt_of(run_id), world.state.numbers.last)]) == [True]
    world.workers.listening = True
    world.lead(wait=10 * SECOND)
    world.advance(MINUTE)
    assert (world.run(run_id).state, world.run(run_id).attempt, len(world.starts(run_id))) == (DONE, 1, 1)


def test_a_leader_that_dies_after_the_commit_leaves_a_waiting_run() -> None:
    world, run_id = one_is_recalled()
    world.lead(wait=10 * SECOND)
    assert world.run(run_id).state is WAITS
    take_all(world)
    assert (world.run(run_id).state, len(world.starts(run_id))) == (DONE, 1)


def test_nothing_is_recalled_before_every_worker_has_had_the_time_to_report() -> None:
    world = World()
    world.workers.listening = False
    run_id = world.enqueue()
    assert world.ask_recall(run_id) == 0
    world.advance(10 * SECOND)
    assert world.ask_recall(run_id) == 1


def test_nothing_is_recalled_while_a_known_worker_is_too_old_for_it() -> None:
    world = idle_world()
    run_id = world.enqueue()
    world.workers.recalls = False
    world.workers.beat()
    world.reconcile()
    assert world.recall(run_id) == 0
    world.tell("heartbeat", worker="w1", running=[], received=[], concurrency=0, queues=[], leaving=True)
    world.reconcile()
    assert world.recall(run_id) == 1


def test_what_is_not_known_to_be_in_its_queue_is_not_recalled() -> None:
    world = idle_world()
    world.dispatcher.refused = {"bad"}
    unconfirmed = world.enqueue(queue="bad")
    waiting = world.enqueue(after=MINUTE)
    assert world.ask_recall(unconfirmed, waiting, "adhoc_unknown") == 0


def test_a_run_is_recalled_once_however_often_it_is_asked() -> None:
    world = idle_world()
    run_id = world.enqueue()
    assert (world.ask_recall(run_id), world.ask_recall(run_id)) == (1, 0)
    world.reconcile()
    assert world.ask_recall(run_id) == 1


def test_a_message_sent_again_before_the_answer_starts_the_run() -> None:
    world = idle_world()
    run_id = world.enqueue()
    world.ask_recall(run_id)
    answers = world.mailbox.drain(0)
    step = Step(world.now)
    redispatch(world.state, step, [run_id], "not_received")
    world.carry_out(step.finish(world.state))
    world.reconcile()
    for answer in answers:
        world.mailbox.put(answer)
    take_all(world)
    assert (world.run(run_id).state, len(world.starts(run_id))) == (DONE, 1)
    assert len(world.dispatcher.published) == 2


def test_a_claim_taken_before_the_answer_ends_the_run() -> None:
    world = idle_world()
    run_id = world.enqueue()
    world.ask_recall(run_id)
    step = Step(world.now)
    take_claims(world.state, step, [run_id], "its job was deleted")
    world.carry_out(step.finish(world.state))
    world.reconcile()
    assert world.run(run_id).state is RunState.CANCELLED


def test_marks_that_redis_lost_before_the_commit_do_no_harm() -> None:
    world = idle_world()
    run_id = world.enqueue()
    world.ask_recall(run_id)
    world.wipe()
    world.advance(20 * SECOND)
    take_all(world)
    assert (world.run(run_id).state, len(world.starts(run_id))) == (DONE, 1)


def test_in_an_epoch_that_is_not_accepted_nothing_is_recalled() -> None:
    world = idle_world()
    run_id = world.enqueue()
    world.claims.restart()
    world.ask_recall(run_id)
    assert world.claims.holders == {}
    assert world.run(run_id).state is LIES
    take_all(world)
    world.advance(20 * SECOND)
    assert (world.run(run_id).state, len(world.starts(run_id))) == (DONE, 1)


@pytest.mark.parametrize("first", ["cancel", "recall"])
def test_a_cancel_beside_a_recall_cancels(first: str) -> None:
    world = idle_world()
    run_id = world.enqueue()
    if first == "recall":
        world.ask_recall(run_id)
        world.store.runs.request_cancel(run_id)
        world.tell("cancel_run", run_id=run_id)
    else:
        world.store.runs.request_cancel(run_id)
        world.tell("cancel_run", run_id=run_id)
        world.ask_recall(run_id)
    world.reconcile()
    world.advance(SECOND)
    assert world.run(run_id).state is RunState.CANCELLED
    take_all(world)
    assert world.starts(run_id) == []


def test_a_recalled_run_is_cancelled_at_once_and_its_message_starts_nothing() -> None:
    world, run_id = one_is_recalled()
    assert world.cancel(run_id).state is RunState.CANCELLED
    take_all(world)
    assert world.starts(run_id) == []


def test_the_start_deadline_of_a_recalled_run_holds() -> None:
    world = idle_world(publish_window=1)
    run_id = world.enqueue(priority=9, start_within=30 * SECOND)
    world.enqueue(priority=0)
    world.recall(run_id)
    world.advance(MINUTE)
    assert world.run(run_id).state is RunState.MISSED


def a_recalled_occurrence(**job: object) -> tuple[World, str]:
    world = idle_world(publish_window=1)
    world.every("job", "20s", priority=9, **job)
    world.advance(21 * SECOND)
    (lying,) = [run for run in world.runs("job") if run.state is LIES]
    world.enqueue(priority=0)
    assert world.recall(lying.run_id) == 1
    assert world.run(lying.run_id).state is WAITS
    return world, lying.run_id


def test_an_edit_leaves_a_recalled_occurrence_as_it_is() -> None:
    world, run_id = a_recalled_occurrence()
    before = world.run(run_id)
    world.every("job", "2h", priority=9, queue="elsewhere", start_at="2026-11-30T10:00:00Z")
    after = world.run(run_id)
    assert (after.state, after.job_version, after.queue) == (WAITS, before.job_version, "default")
    take_all(world)
    assert (world.run(run_id).state, len(world.starts(run_id))) == (DONE, 1)


def test_a_pause_holds_a_recalled_occurrence_until_the_resume() -> None:
    world, run_id = a_recalled_occurrence()
    world.pause("job")
    commands = len(world.commands)
    take_all(world)
    world.advance(10 * SECOND)
    assert world.run(run_id).state is WAITS
    assert len([one for one in world.commands[commands:] if type(one).__name__ == "DispatchRuns"]) <= 2
    world.resume("job")
    world.advance(SECOND)
    assert (world.run(run_id).state, len(world.starts(run_id))) == (DONE, 1)


def test_a_deleted_job_takes_its_recalled_occurrence_along() -> None:
    world, run_id = a_recalled_occurrence()
    world.delete("job")
    take_all(world)
    assert world.run(run_id).state is RunState.CANCELLED
    assert world.starts(run_id) == []


def test_a_recalled_occurrence_is_not_late_for_the_next_leader() -> None:
    world, run_id = a_recalled_occurrence(misfire={"policy": "skip", "grace": "5s"})
    world.lead(wait=10 * MINUTE)
    take_all(world)
    assert (world.run(run_id).state, len(world.starts(run_id))) == (DONE, 1)


def test_a_recalled_occurrence_still_counts_as_its_job_s_live_run() -> None:
    world, run_id = a_recalled_occurrence(overlap="skip")
    world.advance(20 * SECOND)
    assert world.states("job")[:2] == ["scheduled", "skipped"]
    take_all(world)
    assert world.run(run_id).state is DONE


def test_a_recall_that_the_leader_does_not_know_changes_nothing() -> None:
    world = idle_world()
    run_id = world.enqueue()
    step = Step(world.now)
    assert recall(world.state, step, [run_id], "why") == 1
    world.lead(wait=10 * SECOND)
    world.carry_out(step.finish(world.state))
    world.reconcile()
    take_all(world)
    world.advance(MINUTE)
    assert (world.run(run_id).state, len(world.starts(run_id))) == (DONE, 1)
