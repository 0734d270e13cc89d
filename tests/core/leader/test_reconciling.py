"""What the database says of runs, against what memory holds, when nobody told the leader of the change."""

import pytest

from itinerary.protocol.instants import MINUTE, SECOND
from scheduler_service.core.leader.commands import Apply, TrimInbox
from scheduler_service.core.leader.iteration import iterate
from scheduler_service.core.leader.results import Applied
from scheduler_service.core.model import RetryPolicy
from scheduler_service.core.run_state import RunState
from tests.support.world import World, attempt_of

ERROR = {"type": "ValueError", "message": "", "traceback": None}


@pytest.fixture
def world() -> World:
    return World()


def test_the_inbox_is_trimmed_up_to_what_is_committed_and_no_further(world: World) -> None:
    world.advance(MINUTE)
    world.state.inbox.advance("9-0")  # read up to there, committed up to 5-0
    world.state, commands = iterate(world.state, [Applied(Apply((), position="5-0"), ())], world.now)
    assert [one.position for one in commands if isinstance(one, TrimInbox)] == ["5-0"]


def test_a_change_that_the_database_refused_is_read_at_once(world: World) -> None:
    world.workers.behave = lambda attempt: None
    run_id = world.enqueue(retry=RetryPolicy(max_attempts=2, initial=5 * MINUTE, jitter=False))
    world.store.runs.request_cancel(run_id)  # without a word to the leader, which takes the failure for a retry
    world.tell("failed", task_id=attempt_of(run_id), worker="w1", error=ERROR)
    world.reconcile()
    known = world.state.runs.get(run_id)
    assert known is not None
    assert known.state is world.run(run_id).state is RunState.CANCELLED


def test_a_retry_that_a_newer_run_replaces_ends_when_it_is_read_and_not_when_it_is_due(world: World) -> None:
    world.workers.behave = lambda attempt: ("failed", {"error": ERROR})
    world.every("a", "10s", overlap="cancel_running", retry={"max_attempts": 2, "initial": "5m", "jitter": False})
    world.advance(11 * SECOND)
    assert world.states("a")[0] == "retrying"
    world.advance(10 * SECOND)
    first, second, *_ = world.runs("a")
    assert (first.state, first.reason) == (RunState.CANCELLED, "cancelled while it waited")
    assert len(world.starts(second.run_id)) == 1


def test_a_pending_run_of_a_job_that_was_deleted_while_nobody_led_is_cancelled(world: World) -> None:
    world.workers.listening = False
    world.every("a", "10s")
    world.advance(11 * SECOND)
    first, *_ = world.runs("a")
    assert first.state is RunState.PENDING
    world.store.jobs.delete("a", None)
    world.lead()
    world.advance(SECOND)
    run = world.run(first.run_id)
    assert (run.state, run.reason) == (RunState.CANCELLED, "its job was deleted")


def test_what_a_dead_leader_moved_and_did_not_publish_is_published_by_the_next(world: World) -> None:
    world.workers.listening = False
    run_id = world.enqueue()
    world.dispatcher.lose_everything()  # as if it had died before the publish
    world.lead()
    assert world.run(run_id).published_at is None
    assert [run.run_id for run in world.dispatcher.published] == [run_id, run_id]
    assert world.dispatcher.depth("default") == 1
