"""What the broker does not take is tried again: soon, then seldom, and without the others."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import MILLISECOND, MINUTE, SECOND
from itinerary.protocol.run_fields import RetryPolicy, read_queue
from scheduler_service.core.leader.commands import Publish
from scheduler_service.core.leader.in_flight import redispatch
from scheduler_service.core.leader.iteration import iterate
from scheduler_service.core.leader.results import Published, RunsDispatched, RunsRedispatched
from scheduler_service.core.leader.step import Step
from scheduler_service.core.run_state import RunState
from scheduler_service.loops.write_groups import DispatchCommand
from tests.support.world import World, attempt_of


@pytest.fixture
def world() -> World:
    return World()


def test_a_publish_without_answer_is_repeated_at_once_and_then_after_growing_pauses(world: World) -> None:
    world.dispatcher.unanswered = 1
    run_id = world.enqueue()
    assert world.starts(run_id) == [world.now]
    world.dispatcher.unanswered = 1_000
    before = world.dispatcher.asked
    run_id = world.enqueue()
    assert world.dispatcher.asked - before == 2
    world.advance(7 * SECOND)
    assert world.dispatcher.asked - before == 2 + 3
    world.advance(5 * MINUTE)
    assert world.dispatcher.asked - before <= 2 + 5 + 10
    world.dispatcher.unanswered = 0
    world.advance(31 * SECOND)
    assert world.run(run_id).state is RunState.COMPLETED


def test_a_queue_that_takes_nothing_keeps_no_other_waiting(world: World) -> None:
    world.dispatcher.refused = {"bad"}
    at = {"after": 5 * SECOND}
    bad = [world.enqueue(**at, queue="bad") for _ in range(3)]
    good = [world.enqueue(**at) for _ in range(3)]
    world.advance(6 * SECOND)
    assert [world.run(run_id).state for run_id in good] == [RunState.COMPLETED] * 3
    assert [world.run(run_id).state for run_id in bad] == [RunState.PENDING] * 3


def test_the_next_attempt_is_sent_again_as_patiently_as_the_first(world: World) -> None:
    world.workers.listening = False
    run_id = world.enqueue(retry=RetryPolicy(max_attempts=2, initial=SECOND, jitter=False))
    while world.state.unstarted.times_redispatched(run_id) < 3:
        world.dispatcher.pop_run("default")  # and lost
        world.advance(5 * SECOND)
    error = {"type": "ValueError", "message": "", "traceback": None}
    world.tell("failed", task_id=attempt_of(run_id), worker="w", error=error)
    world.advance(2 * SECOND)
    assert (world.run(run_id).state, world.run(run_id).attempt) == (RunState.PENDING, 2)
    sent = len(world.dispatcher.published)
    while world.dispatcher.pop_run("default"):
        pass
    world.advance(world.settings.redispatch_after + 15 * SECOND)
    assert len(world.dispatcher.published) == sent + 1


def test_what_redis_does_not_answer_is_asked_again_and_keeps_no_message_waiting(world: World) -> None:
    world.workers.behave = lambda attempt: None
    unwanted = world.enqueue()
    world.workers.listening, world.claims.away = False, True
    world.cancel(unwanted)
    other = world.enqueue()
    world.advance(3 * SECOND)
    assert world.dispatcher.published[-1].run_id == other
    assert not world.claims.flagged
    world.claims.away = False
    world.advance(2 * SECOND)
    assert world.claims.flagged == set(world.dispatcher.revoked) == {attempt_of(unwanted)}


@pytest.mark.parametrize("name", ["itinerary:inbox", "itinerary:floor:default", "unacked", "unacked_index"])
def test_no_queue_has_the_name_of_what_redis_keeps_for_others(name: str) -> None:
    with pytest.raises(BadValue, match="another name"):
        read_queue(name, "queue")
    assert read_queue("itinerary", "queue")


def test_marks_alone_wait_while_moves_are_under_way_and_not_for_ever(world: World) -> None:
    world.workers.listening = False
    sent = world.enqueue()
    kept: list[DispatchCommand] = []
    world._store_writer.dispatch = kept.extend  # type: ignore[method-assign]
    world.enqueue()
    world.advance(5 * SECOND)
    assert kept
    assert world.run(sent).published_at is None
    world.advance(6 * SECOND)
    assert world.run(sent).published_at is not None


def test_the_time_of_a_publish_is_written_with_its_own_run_or_a_second_later(world: World) -> None:
    # Alone it would be one more version of the row, for each run.
    world.workers.listening = False
    waiting, started = world.enqueue(), world.enqueue()
    assert world.run(started).published_at is None
    world.tell("started", task_id=attempt_of(started), worker="w")
    world.advance(10 * MILLISECOND)
    assert world.run(started).published_at is not None
    assert world.run(waiting).published_at is None
    world.advance(2 * SECOND)
    assert world.run(waiting).published_at is not None


def test_a_run_that_is_to_be_sent_again_is_not_marked_as_sent_before(world: World) -> None:
    # A leader that died before the second publish would leave it to nobody.
    world.workers.listening = False
    run_id = world.enqueue()
    redispatch(world.state, Step(world.now), [run_id], "generation")
    assert not world.state.publishing.take_marks_until(world.now)


def test_a_publish_of_an_attempt_that_is_over_dates_no_later_one(world: World) -> None:
    world.workers.listening = False
    run_id = world.enqueue(retry=RetryPolicy(max_attempts=2, initial=SECOND, jitter=False))
    (sent,) = world.dispatcher.published
    error = {"type": "ValueError", "message": "", "traceback": None}
    world.tell("failed", task_id=attempt_of(run_id), worker="w", error=error)
    world.dispatcher.unanswered = 1_000
    world.advance(2 * SECOND)
    assert (world.run(run_id).state, world.run(run_id).attempt) == (RunState.PENDING, 2)
    world.state, _ = iterate(world.state, [Published((sent,), world.now)], world.now)
    assert run_id not in world.state.unstarted.published  # its silence would be counted from there


@pytest.mark.parametrize("answer", [RunsDispatched, partial(RunsRedispatched, cause="unconfirmed")])
def test_what_ended_while_it_was_moved_or_renewed_is_not_published(world: World, answer: Callable[..., Any]) -> None:
    run_id = world.enqueue()
    world.advance(SECOND)
    (sent,) = world.dispatcher.published
    assert world.run(run_id).state is RunState.COMPLETED
    world.state, commands = iterate(world.state, [answer((sent,), ())], world.now)
    assert not [one for one in commands if isinstance(one, Publish)]
    known = world.state.runs.get(run_id)
    assert known is not None
    assert known.state is RunState.COMPLETED


def test_a_worker_is_shown_for_ten_minutes_of_silence(world: World) -> None:
    world.workers.beat()
    world.advance(9 * MINUTE)
    assert "w1" in world.state.workers.by_name
    world.advance(MINUTE + 2 * SECOND)
    assert world.state.workers.by_name == {}
