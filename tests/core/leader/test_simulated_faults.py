"""What the simulation found, one rule a test, in the order of its finding."""

from dataclasses import replace
from typing import Any

import pytest

from itinerary.protocol.instants import MILLISECOND, MINUTE, SECOND, format_instant
from scheduler_service.core.leader.commands import Apply, BuildIndex, CreateRuns, DispatchRuns
from scheduler_service.core.leader.iteration import iterate
from scheduler_service.core.leader.messages import decode
from scheduler_service.core.leader.poll_state import OverdueRead
from scheduler_service.core.leader.rebuilding import IndexBuilder
from scheduler_service.core.leader.results import InboxRead, JobsRead, RunsRead, RunsRedispatched
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.leader.taking_over import take_over
from scheduler_service.core.model import Cursor, DispatchedRun
from scheduler_service.core.run_state import RunState
from tests.support.world import MONDAY, World, attempt_of


def fails(attempt: str) -> tuple[str, dict[str, Any]]:
    return "failed", {"error": {"type": "ValueError", "message": attempt, "traceback": "T"}}


def never(attempt: str) -> None:
    return None


@pytest.fixture
def world() -> World:
    return World()


def test_a_retry_that_waits_is_superseded_at_once_by_cancel_running(world: World) -> None:
    world.workers.behave = fails
    world.every("a", "10s", overlap="cancel_running", retry={"max_attempts": 2, "initial": "15s", "jitter": False})
    world.advance(22 * SECOND)
    first, second, *_ = world.runs("a")
    assert first.state is RunState.CANCELLED
    assert world.starts(second.run_id)


def test_what_was_held_goes_on_when_the_run_before_it_is_retracted_by_an_edit(world: World) -> None:
    world.every("a", "10s", overlap="queue_all")
    world.advance(9 * SECOND)
    # The next occurrence is let in, but its move is refused for an edit that the leader has not heard of.
    world.store.jobs.set_paused("a", True, "why", None)
    world.advance(2 * SECOND)
    run_id = _trigger(world, "a")
    world.advance(2 * SECOND)
    assert world.run(run_id).state is RunState.SCHEDULED
    world.tell("job_changed", job_id="a", change="modified")
    world.advance(2 * SECOND)
    assert world.run(run_id).state is RunState.COMPLETED


def test_a_second_publish_that_comes_back_late_does_not_take_the_next_attempt_to_pending(world: World) -> None:
    world.workers.behave = never
    run_id = world.enqueue(retry=_retry(3))
    known = world.state.runs.get(run_id)
    assert known is not None
    sent = DispatchedRun(run_id, 1, 99, 1, None, "t", (), {}, "default", 5, known.scheduled_at, known.due_at, None)
    world.tell("failed", task_id=attempt_of(run_id), worker="w1", error={"type": "E", "message": "", "traceback": None})
    world.reconcile()
    world.state, _ = iterate(world.state, [RunsRedispatched((sent,), (), "unconfirmed")], world.now)
    after = world.state.runs.get(run_id)
    assert after is not None
    assert (after.state, after.attempt) == (RunState.RETRYING, 2)


def test_an_edit_is_known_before_the_pass_decides_about_its_runs(world: World) -> None:
    world.every("a", "10s", overlap="allow")
    world.workers.behave = never
    world.advance(15 * SECOND)
    world.store.jobs.replace(_job(world, "a", "10s", overlap="skip"), None)
    world.now = MONDAY + 20 * SECOND
    (history,) = world.store.leader.histories_of(["a"], None)
    world.state, commands = iterate(world.state, [JobsRead((history,))], world.now)
    assert not [command for command in commands if isinstance(command, DispatchRuns)]


def test_a_takeover_settles_no_row_that_an_edit_of_the_leaderless_time_replaced(world: World) -> None:
    world.every("a", "10s", retry={"max_attempts": 3})
    world.advance(5 * SECOND)
    world.store.jobs.replace(_job(world, "a", "10s", retry={"max_attempts": 1}), None)
    world.lead()
    run = world.state.runs.get(world.runs("a")[0].run_id)
    assert run is not None
    assert (run.job_version, run.retry.max_attempts) == (2, 1)


def test_an_end_that_came_to_nothing_is_forgotten_with_the_row_it_was_meant_for(world: World) -> None:
    world.every("a", "10s")
    world.advance(5 * SECOND)
    stale = world.store.leader.overdue_runs(world.now + 10 * SECOND, 10, None).runs
    world.pause("a")
    world.mailbox.put(OverdueRead(stale, None))
    world.reconcile()
    world.resume("a")
    world.workers.behave = never
    world.advance(5 * SECOND)
    assert world.states("a")[0] == "running"


def test_an_occurrence_that_an_edit_made_anew_is_not_cleaned_up_as_the_ended_one() -> None:
    world = World(settings=CoreSettings(grace_period=3 * SECOND))
    world.workers.seconds = 8
    world.every("a", "10s")
    world.advance(9 * SECOND)
    run_id = world.runs("a")[0].run_id
    world.state.runs.note_end(run_id, world.now)
    world.advance(15 * SECOND)
    assert world.run(run_id).state is RunState.COMPLETED


@pytest.mark.parametrize("every", ["10s", "7s"])
def test_a_row_that_was_read_before_an_edit_replaced_it_does_not_come_back(world: World, every: str) -> None:
    world.every("a", "10s", retry={"max_attempts": 3})
    world.advance(6 * SECOND)
    (waiting,) = [run for run in world.state.runs if run.state is RunState.SCHEDULED]
    read = RunsRead((waiting.run_id,), (waiting,))
    world.state.reads.begin(waiting.run_id)
    world.store.jobs.replace(_job(world, "a", every), None)
    world.state, commands = iterate(
        world.state, [JobsRead(tuple(world.store.leader.histories_of(["a"], None)))], world.now
    )
    world.carry_out(commands)
    world.state, commands = iterate(world.state, [read], world.now)
    world.carry_out(commands)
    world.reconcile()
    assert {run.run_id: run.job_version for run in world.state.runs} == {
        run.run_id: run.job_version for run in world.runs("a")
    }
    assert {run.job_version for run in world.state.runs} == {2}


def test_an_occurrence_that_was_folded_away_and_that_an_edit_of_its_instant_makes_anew_runs_at_once(
    world: World,
) -> None:
    world.workers.behave = never
    world.every("a", "10s", overlap="skip")
    world.advance(30 * SECOND)  # one runs, one is skipped as a row, the third at this instant leaves its row for a gap
    folded = f"a_{format_instant(world.now // SECOND * SECOND)}"
    assert [missed_range.count for missed_range in world.store.tables.missed_ranges] == [1]
    assert folded not in world.store.tables.runs
    world.now -= MILLISECOND  # the edit is dated into the instant of what was just folded
    world.store.jobs.replace(_job(world, "a", "10s", overlap="allow"), None)
    world.now += MILLISECOND
    world.tell("job_changed", job_id="a", change="modified")
    world.advance(SECOND)
    assert world.run(folded).state is RunState.RUNNING


class TestLatenessIsJudgedOnce:
    def test_what_waits_behind_its_job_s_other_runs_is_not_late_for_the_next_leader(self, world: World) -> None:
        world.workers.behave = never
        world.every("a", "10s", overlap="queue_all", misfire={"policy": "skip", "grace": "5s"})
        for _ in range(5):
            world.advance(10 * SECOND)
            world.workers.beat()
        world.lead(wait=2 * SECOND)
        assert "missed" not in world.states("a")

    def test_what_waits_for_the_publish_window_is_not_late_for_the_next_leader(self) -> None:
        world = World(settings=CoreSettings(publish_window=1))
        world.workers.listening = False
        world.enqueue()
        world.every("a", "10s", overlap="allow", misfire={"policy": "skip", "grace": "5s"})
        world.advance(40 * SECOND)
        world.lead(wait=2 * SECOND)
        assert "missed" not in world.states("a")

    def test_what_fell_due_while_nobody_led_is_late(self, world: World) -> None:
        world.every("a", "10s", overlap="allow", misfire={"policy": "skip", "grace": "5s"})
        world.advance(15 * SECOND)
        world.lead(wait=20 * SECOND)
        assert world.states("a")[:2] == ["completed", "missed"]

    def test_rows_wait_for_the_unmade_occurrences_that_they_are_judged_with(self, world: World) -> None:
        world.every("a", "10s")
        world.advance(5 * SECOND)
        now = world.now + 2 * MINUTE
        store = world.store.leader
        runs, histories = store.active_runs(), store.job_histories(None)
        cursor = Cursor(world.state.planned.cursor, "0-0", world.now)
        state, commands = take_over(CoreSettings(), 2, cursor, histories, runs, now)
        # The builder takes its time: meanwhile a pass goes over the late row and leaves it alone.
        state, early = iterate(state, [], now)
        (order,) = [command for command in commands if isinstance(command, BuildIndex)]
        state, late = iterate(state, [IndexBuilder().build(order)], now + SECOND)
        state, later = iterate(state, [], now + 2 * SECOND)
        moved = [r.run_id for e in (*early, *late, *later) if isinstance(e, DispatchRuns) for r in e.dispatches]
        made = [run.run_id for command in late if isinstance(command, CreateRuns) for run in command.runs]
        assert len(moved) == 1
        assert moved[0] in made


class TestCatchUpInParts:
    """A leader after an outage of two minutes, that writes two rows at a time."""

    SETTINGS = CoreSettings(write_batch=2)

    def test_runs_are_made_a_few_at_a_time_and_the_cursor_comes_with_the_last(self) -> None:
        _, made = self._catch_up()
        assert [len(part.runs) for part in made] == [2, 2, 2, 1, 2]
        assert [part.cursor is None for part in made] == [True, True, True, False, False]
        assert [bool(part.missed_ranges) for part in made] == [False, False, False, True, False]

    @pytest.mark.parametrize("written", [1, 2, 3])
    def test_one_that_dies_between_two_parts_leaves_all_to_the_next_as_if_it_had_not_been(self, written: int) -> None:
        world, made = self._catch_up()
        for part in made[:written]:
            world.store.leader.create_runs(world.renewer.lease, part)
        assert self._left_to_the_next(world) == self._left_to_the_next(self._catch_up()[0])

    def test_a_run_that_is_cancelled_between_two_parts_stays_so(self) -> None:
        world, made = self._catch_up()
        world.store.leader.create_runs(world.renewer.lease, made[0])
        world.store.runs.request_cancel(made[0].runs[0].run_id)
        world.lead(wait=20 * SECOND)
        world.advance(20 * SECOND)
        assert world.run(made[0].runs[0].run_id).state is RunState.CANCELLED

    def test_what_is_too_late_ends_a_few_at_a_time_and_is_judged_with_the_last(self) -> None:
        world = World(settings=self.SETTINGS)
        for number in range(5):
            world.every(f"job{number}", "10s", misfire={"policy": "skip", "grace": "1s"})
        world.advance(5 * SECOND)
        state, commands = iterate(world.state, [], world.now + 7 * SECOND)
        missed = [command for command in commands if isinstance(command, Apply)]
        assert [len(apply.transitions) for apply in missed] == [2, 2, 1]
        assert [apply.judged_until for apply in missed] == [None, None, state.judged.until]
        assert [apply.position for apply in missed] == [None, None, state.inbox.position]

    def _catch_up(self) -> tuple[World, list[CreateRuns]]:
        """The world after the outage, and what a leader then wants to be made: what it owes, and what comes next."""
        world = World(settings=self.SETTINGS)
        late = {"grace": "1s", "max_catch_up": 6}
        world.every("a", "10s", overlap="allow", misfire={"policy": "fire_all", **late})
        world.every("b", "10s", misfire={"policy": "fire_once", **late})
        world.advance(15 * SECOND)
        world.now += 2 * MINUTE
        store = world.store.leader
        cursor, histories, runs = store.cursor(world.renewer.lease), store.job_histories(None), store.active_runs()
        state, commands = take_over(self.SETTINGS, 2, cursor, histories, runs, world.now)
        (order,) = [command for command in commands if isinstance(command, BuildIndex)]
        _, commands = iterate(state, [IndexBuilder().build(order)], world.now)
        return world, [command for command in commands if isinstance(command, CreateRuns)]

    def _left_to_the_next(self, world: World) -> tuple[object, object]:
        world.lead(wait=20 * SECOND)
        world.advance(20 * SECOND)
        runs = {(run.run_id, run.state) for run in (*world.runs("a"), *world.runs("b"))}
        return runs, set(world.store.tables.missed_ranges)


def test_a_gap_lies_in_one_transaction_with_the_rows_and_the_cursor_that_pass_it() -> None:
    world = World(settings=CoreSettings(pre_schedule_interval=SECOND))
    world.every("a", "1s", misfire={"policy": "skip", "grace": "2s"})
    world.advance(5 * SECOND)
    state, commands = iterate(world.state, [], world.now + 10 * SECOND)
    made = [command for command in commands if isinstance(command, CreateRuns)]
    assert len(made) == 1
    assert made[0].missed_ranges
    assert made[0].cursor == state.planned.cursor


def test_no_occurrence_within_the_grace_is_given_up_for_the_cap_of_late_ones(world: World) -> None:
    world.every("a", "1s", overlap="allow", misfire={"policy": "fire_all", "grace": "60s", "max_catch_up": 2})
    world.advance(2 * SECOND)
    world.lead(wait=30 * SECOND)
    world.advance(5 * SECOND)
    assert world.store.tables.missed_ranges == []
    assert len([state for state in world.states("a") if state == "completed"]) >= 35


def test_a_run_that_is_held_and_read_again_does_not_count_itself_as_waiting_before_it(world: World) -> None:
    world.workers.behave = never
    world.every("a", "10s", overlap="queue")
    world.advance(21 * SECOND)
    held = world.runs("a")[1]
    world.state, _ = iterate(world.state, [RunsRead((held.run_id,), tuple(_rows(world, held.run_id)))], world.now)
    world.advance(2 * SECOND)
    assert world.run(held.run_id).state is RunState.SCHEDULED


def test_a_retry_far_away_is_still_live_for_the_next_leader(world: World) -> None:
    world.workers.behave = fails
    retry = {"max_attempts": 2, "initial": "1h", "max": "1h", "jitter": False}
    world.every("a", "10s", overlap="skip", retry=retry)
    world.advance(15 * SECOND)
    world.lead()
    world.advance(10 * SECOND)
    assert world.states("a")[:2] == ["retrying", "skipped"]


def test_the_end_of_an_unwanted_attempt_is_committed_with_the_position_that_brought_it(world: World) -> None:
    world.workers.behave = never
    run_id = world.enqueue(retry=_retry(3))
    world.store.runs.request_cancel(run_id)
    world.renewer.confirm()
    world.tell("failed", task_id=attempt_of(run_id), worker="w1", error={"type": "E", "message": "", "traceback": None})
    batch = world.inbox.read(world.state.inbox.position, 10, 0)
    messages = tuple(decode(fields) for _, fields in batch.entries)
    _, commands = iterate(world.state, [InboxRead(messages, batch.position)], world.now)
    # The leader dies after the first commit: nobody reads this report again.
    for command in commands:
        if isinstance(command, Apply):
            world.store.leader.apply(world.renewer.lease, command)
    assert world.run(run_id).state is RunState.CANCELLED


def test_a_job_read_before_its_plan_was_committed_is_not_planned_from_its_beginning_again(world: World) -> None:
    world.every("a", "10s", misfire={"policy": "skip", "grace": "1s"})
    world.advance(15 * SECOND)
    world.store.jobs.replace(_job(world, "a", "5s", misfire={"policy": "skip", "grace": "1s"}), None)
    (read,) = world.store.leader.histories_of(["a"], None)
    _, commands = iterate(world.state, [JobsRead((replace(read, planned_version=0),))], world.now)
    assert not [
        missed_range
        for command in commands
        if isinstance(command, CreateRuns)
        for missed_range in command.missed_ranges
    ]


def _rows(world: World, run_id: str) -> list[Any]:
    return world.store.leader.read_runs([run_id])


def _job(world: World, job_id: str, every: str, **more: Any) -> Any:
    from scheduler_service.core.contract.job_json import read_job

    body = {"job_id": job_id, "task": "demo.task", "schedule": {"kind": "interval", "every": every}, **more}
    return read_job(body, created_at=world.now)[0]


def _retry(attempts: int) -> Any:
    from itinerary.protocol.run_fields import RetryPolicy

    return RetryPolicy(max_attempts=attempts)


def _trigger(world: World, job_id: str) -> str:
    from scheduler_service.core.model import NewRun, RunKind

    job = world.store.jobs.get(job_id)
    run = NewRun(
        f"{job_id}_manual-1", RunKind.MANUAL, job.task, world.now, world.now, job_id=job_id, job_version=job.version
    )
    world.store.runs.enqueue([run])
    world.tell("run_enqueued", run_ids=[run.run_id])
    return run.run_id
