"""What leaves and what waits where several reasons to wait meet: the window, the index, other runs of the job."""

from itinerary.protocol.identity import manual_run_id
from itinerary.protocol.instants import MINUTE, SECOND
from scheduler_service.core.leader.commands import Apply, DispatchRuns
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.model import NewRun, Overlap, RetryPolicy, RunKind
from scheduler_service.core.run_state import RunState
from scheduler_service.loops.write_groups import DispatchCommand
from tests.support.world import MONDAY, World, attempt_of

FAILED = {"error": {"type": "ValueError", "message": "", "traceback": None}}


def test_the_window_counts_what_is_on_its_way_to_pending() -> None:
    world = World(settings=CoreSettings(publish_window=3))
    kept: list[DispatchCommand] = []
    world._store_writer.dispatch = kept.extend  # type: ignore[method-assign]
    for _ in range(5):
        world.enqueue()
    assert sum(len(move.dispatches) for move in kept) == 3


def test_a_few_runs_go_before_the_many_of_another_queue_that_fall_due_at_the_same_instant() -> None:
    world = World()
    for number in range(5):
        world.every(f"a-{number}", "1m", queue="many")
    world.every("z", "1m", queue="few")
    kept: list[DispatchCommand] = []
    world._store_writer.dispatch = kept.extend  # type: ignore[method-assign]
    world.advance(MINUTE)
    dispatched = [release.run_id[0] for move in kept for release in move.dispatches]
    assert dispatched == ["z", "a", "a", "a", "a", "a"]


def test_late_rows_wait_for_the_index_to_say_what_was_not_even_made() -> None:
    world = World()
    world.every("a", "1m")
    world.advance(MINUTE + 55 * SECOND)
    world.hold_builder = True
    world.lead(wait=10 * MINUTE)
    judged = world.state.judged.until
    world.advance(2 * SECOND)
    # Judged alone, the late row would be the newest one and run; fire_once runs another one in its place.
    assert world.states("a") == ["completed", "scheduled"]
    assert world.state.judged.until == judged < world.now
    world.release_builder()
    world.advance(2 * SECOND)
    states = {(run.scheduled_at - MONDAY) // MINUTE: run.state.value for run in world.runs("a")}
    assert (states[2], states[11]) == ("missed", "completed")
    assert world.state.judged.until > judged


def test_what_is_skipped_behind_another_run_without_a_free_moment_is_another_gap() -> None:
    world = World()
    world.workers.behave = lambda attempt: None
    job = world.every("a", "1s")
    world.advance(SECOND)
    first, *_ = world.runs("a")
    made = NewRun(
        manual_run_id("a", "1"), RunKind.MANUAL, job.task, world.now, world.now, job_id="a", job_version=1,
        overlap=Overlap.ALLOW,
    )  # fmt: skip
    ((beside, _),) = world.store.runs.enqueue([made])
    world.tell("run_enqueued", run_ids=[beside.run_id])
    world.advance(5 * SECOND)
    assert [world.run(run.run_id).state for run in (first, beside)] == [RunState.RUNNING] * 2
    world.tell("succeeded", task_id=attempt_of(first.run_id), worker="w1", result=None)
    world.advance(5 * SECOND)
    reasons = [f"overlap skip: {run.run_id} is not final" for run in (first, beside)]
    assert [run.reason for run in world.runs("a") if run.state is RunState.SKIPPED] == reasons
    assert [missed_range.reason for missed_range in world.store.tables.missed_ranges] == reasons


def test_cancel_running_asks_a_run_to_stop_once() -> None:
    world = World()
    world.workers.behave = lambda attempt: None
    world.every("a", "10s", overlap="cancel_running")
    for _ in range(6):
        world.advance(10 * SECOND)
        world.workers.beat()
    first, *_ = world.runs("a")
    asked = [run_id for command in world.commands if isinstance(command, Apply) for run_id in command.cancels]
    assert asked == [first.run_id]


def test_a_run_that_waited_twice_for_the_window_still_waits_out_the_pause_of_its_retry() -> None:
    world = World(settings=CoreSettings(publish_window=1))
    world.workers.listening = False
    world.enqueue()
    run_id = world.enqueue(retry=RetryPolicy(max_attempts=2, initial=5 * MINUTE, jitter=False))
    world.tell("cancel_run", run_id=run_id)  # not so in the database: it is read, and waits again
    world.reconcile()
    world.advance(SECOND)
    assert len(world.state.dispatches.waiting["default"]) == 2
    world.workers.behave = lambda attempt: ("failed", FAILED)
    world.workers.seconds = 0  # its end is read together with its start, and then the window is free
    world.workers.listening = True
    world.advance(MINUTE)
    assert (world.run(run_id).state, len(world.starts(run_id))) == (RunState.RETRYING, 1)
    world.advance(5 * MINUTE)
    assert (world.run(run_id).state, len(world.starts(run_id))) == (RunState.FAILED, 2)
    moves = [
        release for command in world.commands if isinstance(command, DispatchRuns) for release in command.dispatches
    ]
    assert [release.attempt for release in moves if release.run_id == run_id] == [1, 2]  # none that is refused
