"""The leader's rules, one a test, under a hand-moved clock."""

import itertools

import pytest

from itinerary.protocol.identity import occurrence_run_id, split_task_id
from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.leader.commands import CreateRuns, DispatchRuns, Publish
from scheduler_service.core.leader.messages import Heartbeat
from scheduler_service.core.leader.results import InboxRead, ResultsFound
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.model import Job, MissedRange, Run
from scheduler_service.core.run_state import RunState
from tests.support.world import MONDAY, World, attempt_of

LONG = {"result": "late"}


def fails(attempt: str) -> tuple[str, dict[str, object]]:
    return "failed", {"error": {"type": "ValueError", "message": attempt, "traceback": "T"}}


@pytest.fixture
def world() -> World:
    return World()


def test_each_occurrence_has_one_row_and_one_start_and_none_is_early(world: World) -> None:
    world.every("a", "2s")
    world.advance(MINUTE + SECOND)
    done = [run for run in world.runs("a") if run.state is RunState.COMPLETED]
    assert [run.scheduled_at for run in done] == [MONDAY + n * 2 * SECOND for n in range(1, 31)]
    for run in done:
        (started,) = world.starts(run.run_id)
        assert run.due_at <= started <= run.due_at + 50_000


def test_rows_are_made_ahead_by_the_pre_schedule_interval_and_not_further(world: World) -> None:
    world.every("a", "1s")
    world.advance(3 * SECOND)
    scheduled = [run.scheduled_at for run in world.runs("a") if run.state is RunState.SCHEDULED]
    assert min(scheduled) > world.now
    assert max(scheduled) < world.now + 10 * SECOND + SECOND


def test_at_a_full_second_what_is_due_leaves_before_what_comes_into_sight_is_made(world: World) -> None:
    for number in range(20):
        world.every(f"job{number}", "1s")
    world.advance(3 * SECOND)
    world.commands.clear()
    world.advance(10 * SECOND)
    kinds = [type(command) for command in world.commands if isinstance(command, CreateRuns | DispatchRuns | Publish)]
    assert kinds == [DispatchRuns, Publish, CreateRuns] * 10


def test_five_one_offs_of_which_one_is_due_give_one_start_over_three_passes(world: World) -> None:
    due = world.enqueue()
    later = [world.enqueue(after=HOUR + n) for n in range(4)]
    for _ in range(3):
        world.advance(5 * SECOND)
    assert len(world.workers.started) == 1
    assert world.run(due).state is RunState.COMPLETED
    assert {world.run(run_id).state for run_id in later} == {RunState.SCHEDULED}


@pytest.mark.slow
def test_a_one_off_that_nobody_told_the_leader_about_is_found_in_time(world: World) -> None:
    run_id = world.enqueue(after=HOUR)
    world.lead()
    world.advance(HOUR + SECOND)
    assert world.starts(run_id) == [world.run(run_id).due_at]


@pytest.mark.slow
def test_a_failure_is_tried_again_after_its_pause_until_the_attempts_are_spent(world: World) -> None:
    world.workers.behave = fails
    retry = {"max_attempts": 3, "initial": "10s", "factor": 2, "jitter": False}
    world.every("a", "1h", retry=retry)
    world.advance(HOUR + 2 * MINUTE)
    (run, *_) = world.runs("a")
    assert run.state is RunState.FAILED
    starts = [at - run.scheduled_at for at in world.starts(run.run_id)]
    assert [round(at / SECOND) for at in starts] == [0, 10, 30]
    assert [attempt.outcome for attempt in world.run(run.run_id).attempts] == ["failed", "failed"]
    assert run.error is not None
    assert run.error.type == "ValueError"


def test_a_task_that_asks_for_a_retry_gets_it_at_its_time_with_its_arguments(world: World) -> None:
    due = "2026-11-30T10:00:20Z"
    answers = iter([("retry", {"due_at": due, "args": [7], "kwargs": {"x": 1}}), ("succeeded", {"result": 1})])
    world.workers.behave = lambda attempt: next(answers)
    run_id = world.enqueue()
    world.advance(10 * SECOND)
    assert world.run(run_id).state is RunState.RETRYING
    world.advance(15 * SECOND)
    run = world.run(run_id)
    assert run.state is RunState.COMPLETED
    assert (run.args, run.kwargs, run.attempt) == ([7], {"x": 1}, 2)
    assert world.dispatcher.published[-1].retries == 1


class TestReports:
    def test_succeeded_before_started_ends_the_run_all_the_same(self, world: World) -> None:
        world.workers.listening = False
        run_id = world.enqueue()
        world.tell("succeeded", task_id=attempt_of(run_id), worker="w", result=1)
        world.tell("started", task_id=attempt_of(run_id), worker="w")
        world.reconcile()
        assert world.run(run_id).state is RunState.COMPLETED

    def test_every_report_told_twice_changes_nothing(self, world: World) -> None:
        run_id = world.enqueue()
        world.advance(SECOND)
        before = world.run(run_id)
        for kind, more in (("started", {}), ("succeeded", {"result": 2}), fails("again")):
            world.tell(kind, task_id=attempt_of(run_id), worker="w", **more)
        world.reconcile()
        after = world.run(run_id)
        assert (after.state, after.result, after.finished_at) == (before.state, before.result, before.finished_at)

    @pytest.mark.slow
    def test_a_report_of_an_attempt_that_is_over_does_not_touch_the_next_one(self, world: World) -> None:
        world.workers.behave = fails
        world.every("a", "1h", retry={"max_attempts": 2, "initial": "60s", "jitter": False})
        world.advance(HOUR + 5 * SECOND)
        (run, *_) = world.runs("a")
        world.tell("succeeded", task_id=attempt_of(run.run_id), worker="w", result="too late")
        world.reconcile()
        assert world.run(run.run_id).state is RunState.RETRYING

    def test_a_report_of_a_run_that_is_final_is_kept_with_it(self, world: World) -> None:
        run_id = world.enqueue()
        world.advance(2 * SECOND)
        assert world.run(run_id).state is RunState.COMPLETED
        kind, body = fails("too late")
        world.tell(kind, task_id=attempt_of(run_id), worker="w2", **body)
        world.reconcile()
        late = world.run(run_id).late
        assert late is not None
        assert (late.count, late.kind, late.worker) == (1, "failed", "w2")

    def test_a_report_of_a_run_that_never_was_is_counted_and_forgotten(self, world: World) -> None:
        world.tell("succeeded", task_id="nobody_2026-11-30T10:00:00Z~1", worker="w", result=1)
        world.reconcile()
        assert 'scheduler_events_ignored_total{cause="unknown"} 1.0' in world.meter.exposition()


class TestCancel:
    def test_before_its_time_it_never_starts(self, world: World) -> None:
        run_id = world.enqueue(after=5 * SECOND)
        assert world.cancel(run_id).state is RunState.CANCELLED
        world.advance(10 * SECOND)
        assert world.starts(run_id) == []

    def test_pending_ends_cancelled_once_nobody_has_claimed_it_and_its_message_is_refused(self, world: World) -> None:
        world.workers.listening = False
        run_id = world.enqueue()
        assert world.run(run_id).state is RunState.PENDING
        assert world.cancel(run_id).state is RunState.CANCELLED
        world.workers.listening = True
        world.advance(5 * SECOND)
        assert world.starts(run_id) == []

    def test_running_is_told_to_stop_and_ends_cancelled_when_it_does(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        world.cancel(run_id)
        assert world.dispatcher.revoked == [attempt_of(run_id)]
        assert world.run(run_id).state is RunState.RUNNING
        kind, body = fails("Terminated")
        world.tell(kind, task_id=attempt_of(run_id), worker="w1", **body)
        world.reconcile()
        assert world.run(run_id).state is RunState.CANCELLED

    @pytest.mark.parametrize(
        ("error", "reason", "kept"),
        [
            ("SystemExit", "terminated", None),
            ("itinerary.RunCancelled", None, None),
            ("ValueError", None, "ValueError"),
        ],
    )
    def test_what_a_task_stopped_with_as_asked_is_no_error(
        self, world: World, error: str, reason: str | None, kept: str | None
    ) -> None:
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        world.cancel(run_id)
        what = {"type": error, "message": "", "traceback": "T"}
        world.tell("failed", task_id=attempt_of(run_id), worker="w1", error=what, reason=reason)
        world.reconcile()
        run = world.run(run_id)
        assert (run.state, run.error and run.error.type) == (RunState.CANCELLED, kept)

    def test_pending_whose_claim_a_worker_holds_is_asked_to_stop_and_not_ended(self, world: World) -> None:
        world.workers.listening = False
        run_id = world.enqueue()
        assert world.claims.claim(attempt_of(run_id), "its word is still on its way")
        assert world.cancel(run_id).state is RunState.PENDING
        world.tell("succeeded", task_id=attempt_of(run_id), worker="w", result=1)
        world.reconcile()
        assert world.run(run_id).state is RunState.COMPLETED

    def test_running_that_finishes_first_is_completed(self, world: World) -> None:
        run_id = world.enqueue()
        world.cancel(run_id)
        world.advance(SECOND)
        assert world.run(run_id).state is RunState.COMPLETED

    @pytest.mark.slow
    def test_a_cancelled_run_gets_no_further_attempt(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        world.every("a", "1h", retry={"max_attempts": 5})
        world.advance(HOUR + SECOND)
        run = world.runs("a")[0]
        # The request is committed but its word is lost: the end of the attempt meets it in the database.
        world.store.runs.request_cancel(run.run_id)
        kind, body = fails("x")
        world.tell(kind, task_id=attempt_of(run.run_id), worker="w1", **body)
        world.reconcile()
        assert world.run(run.run_id).state is RunState.CANCELLED

    def test_a_request_whose_word_was_lost_is_found_in_the_database(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        world.store.runs.request_cancel(run_id)
        world.advance(10 * SECOND)
        assert attempt_of(run_id) in world.dispatcher.revoked


class TestEdits:
    def test_a_new_schedule_holds_at_once_and_never_re_fires_the_past(self, world: World) -> None:
        world.every("a", "10s")
        world.advance(25 * SECOND)
        world.every("a", "7s")
        world.advance(MINUTE)
        done = [run for run in world.runs("a") if run.state is RunState.COMPLETED]
        old = [r.scheduled_at - MONDAY for r in done if r.job_version == 1]
        new = [r.scheduled_at - MONDAY for r in done if r.job_version == 2]
        assert old == [10 * SECOND, 20 * SECOND]
        assert min(new) > 25 * SECOND
        assert all(world.starts(run.run_id) for run in done)

    def test_editing_back_and_forth_fires_no_instant_twice_and_loses_none(self, world: World) -> None:
        for _ in range(3):
            world.every("a", "10s")
            world.every("a", "5s")
        world.advance(MINUTE + SECOND)
        done = [run.scheduled_at for run in world.runs("a") if run.state is RunState.COMPLETED]
        assert done == [MONDAY + n * 5 * SECOND for n in range(1, 13)]

    def test_a_pending_run_keeps_the_definition_it_was_made_with(self, world: World) -> None:
        world.workers.listening = False
        world.every("a", "10s", kwargs={"v": 1})
        world.advance(11 * SECOND)
        world.every("a", "10s", kwargs={"v": 2})
        world.workers.listening = True
        world.advance(10 * SECOND)
        assert [run.kwargs for run in world.runs("a")][:2] == [{"v": 1}, {"v": 2}]

    def test_an_edit_that_nobody_told_the_leader_about_is_planned_by_the_watcher_s_way(self, world: World) -> None:
        world.every("a", "10s")
        world.store.jobs.set_paused("a", True, "quietly", None)
        world.advance(30 * SECOND)
        # The move's guard refuses what is not planned as it stands, message or no message.
        assert not world.workers.started

    def test_a_deleted_job_runs_no_more_and_its_running_run_may_finish(self, world: World) -> None:
        world.workers.seconds = 30
        world.every("a", "10s")
        world.advance(11 * SECOND)
        world.delete("a")
        world.workers.beat()
        world.advance(20 * SECOND)
        world.workers.beat()
        world.advance(20 * SECOND)
        assert world.states("a") == ["completed"]

    def test_deleting_a_job_cancels_what_is_pending(self, world: World) -> None:
        world.workers.listening = False
        world.every("a", "10s")
        world.advance(11 * SECOND)
        world.delete("a")
        assert world.states("a") == ["cancelled"]
        assert world.runs("a")[0].reason == "its job was deleted"

    def test_a_job_made_while_nobody_led_is_planned_from_its_making(self, world: World) -> None:
        world.workers.listening = False
        world.advance(15 * SECOND)
        world.store.jobs.replace(world_job(world, "a", {"kind": "interval", "every": "10s"}), None)
        world.lead(wait=7 * SECOND)
        world.workers.listening = True
        world.advance(30 * SECOND)
        assert world.states("a")[:3] == ["completed"] * 3

    def test_a_job_made_while_nobody_led_owes_nothing_from_before_its_making(self, world: World) -> None:
        world.every("z", "1h")  # so that there is a cursor from before
        world.advance(5 * SECOND)
        world.now += 30 * MINUTE
        made = world.now
        schedule = {"kind": "cron", "expr": "* * * * *"}
        job = world_job(world, "a", schedule, misfire={"policy": "fire_all"}, overlap="allow")
        world.store.jobs.replace(job, None)
        world.lead(wait=10 * MINUTE)
        world.advance(MINUTE)
        owed = [MONDAY + minute * MINUTE for minute in range(31, 42)]
        assert made < owed[0]
        assert [run.scheduled_at for run in world.runs("a") if run.scheduled_at <= world.now] == owed

    def test_a_due_row_that_was_cancelled_meanwhile_is_counted_as_stale(self, world: World) -> None:
        run_id = world.enqueue(after=5 * SECOND)
        world.store.runs.request_cancel(run_id)
        world.advance(6 * SECOND)
        assert world.starts(run_id) == []
        assert 'scheduler_stale_runs_total{cause="final"} 1.0' in world.meter.exposition()


class TestPause:
    def test_nothing_is_due_while_paused_and_nothing_is_owed_after(self, world: World) -> None:
        world.every("a", "10s")
        world.advance(15 * SECOND)
        world.pause("a")
        world.advance(MINUTE)
        world.resume("a")
        world.advance(20 * SECOND)
        done = [(run.scheduled_at - MONDAY) // SECOND for run in world.runs("a") if run.state is RunState.COMPLETED]
        assert done == [10, 80, 90]

    def test_no_rows_are_made_inside_a_pause_with_an_end(self, world: World) -> None:
        world.every("a", "10s")
        world.advance(12 * SECOND)
        world.pause("a", until=MONDAY + 95 * SECOND)
        world.advance(2 * MINUTE)
        rows = [(run.scheduled_at - MONDAY) // SECOND for run in world.runs("a") if run.scheduled_at <= world.now]
        assert rows == [10, 100, 110, 120, 130]

    def test_a_pause_with_an_end_ends_by_itself(self, world: World) -> None:
        world.every("a", "10s")
        world.pause("a", until=MONDAY + 35 * SECOND)
        world.advance(MINUTE + SECOND)
        done = [(run.scheduled_at - MONDAY) // SECOND for run in world.runs("a") if run.state is RunState.COMPLETED]
        assert done == [40, 50, 60]

    def test_what_a_stalled_leader_missed_within_a_pause_it_did_not_know_was_no_occurrence(self, world: World) -> None:
        world.every("a", "10s", misfire={"policy": "skip", "grace": "1s"})
        world.advance(5 * SECOND)
        world.store.jobs.set_paused("a", True, "quietly", None)
        world.now += 40 * SECOND
        world.advance(SECOND)
        assert world.store.tables.missed_ranges
        world.pause("a")
        world.advance(SECOND)
        assert not world.store.tables.missed_ranges

    def test_what_had_to_wait_when_the_job_was_paused_runs_after_the_resume(self, world: World) -> None:
        world.workers.seconds = 25
        world.every("a", "10s", overlap="queue_all")
        world.advance(31 * SECOND)  # one runs, two wait behind it
        world.pause("a")
        world.advance(5 * MINUTE)
        assert [when(run) for run in world.runs("a") if run.state is RunState.SCHEDULED] == [20, 30]
        assert len(world.workers.started) == 1
        world.lead()
        world.advance(10 * SECOND)
        world.resume("a")
        world.advance(2 * MINUTE)
        started = [world.run(split_task_id(attempt)[0]) for _, attempt in world.workers.started]
        assert [when(run) for run in started][:3] == [10, 20, 30]
        assert when(started[3]) > 5 * 60

    def test_what_had_to_wait_runs_when_a_pause_ends_by_itself(self, world: World) -> None:
        world.workers.seconds = 25
        world.every("a", "10s", overlap="queue_all")
        world.advance(31 * SECOND)
        world.pause("a", until=MONDAY + 95 * SECOND)
        world.advance(63 * SECOND)
        assert len(world.workers.started) == 1
        world.advance(2 * MINUTE)
        started = [when(world.run(split_task_id(attempt)[0])) for _, attempt in world.workers.started]
        assert started[:4] == [10, 20, 30, 100]

    def test_a_pause_can_skip_what_had_to_wait(self, world: World) -> None:
        world.workers.seconds = 25
        world.every("a", "10s", overlap="queue_all")
        world.advance(31 * SECOND)
        world.store.jobs.set_paused("a", True, "drop them", None, skips=True)
        world.tell("job_changed", job_id="a", change="modified")
        world.advance(SECOND)
        assert [(when(run), run.state.value, run.reason) for run in world.runs("a")] == [
            (10, "running", None), (20, "skipped", "its job is paused"), (30, "skipped", "its job is paused"),
        ]  # fmt: skip

    @pytest.mark.parametrize("skips", [False, True])
    def test_what_waited_is_not_forgotten_if_the_clock_steps_back_within_the_pause(
        self, world: World, skips: bool
    ) -> None:
        world.workers.seconds = 25
        world.every("a", "10s", overlap="queue_all")
        world.advance(31 * SECOND)
        world.pause("a")
        world.advance(MINUTE)
        world.store.leases.resign(world.renewer.lease)
        world.database_ahead = -3 * MINUTE
        world.lead()
        world.store.jobs.set_paused("a", skips, "drop them", None, skips=skips)
        world.tell("job_changed", job_id="a", change="modified")
        world.advance(5 * MINUTE)
        expected = RunState.SKIPPED if skips else RunState.COMPLETED
        assert [run.state for run in world.runs("a") if when(run) in (20, 30)] == [expected] * 2

    def test_what_waits_for_its_queue_s_window_is_kept_by_a_pause(self) -> None:
        world = World(settings=CoreSettings(publish_window=1))
        world.workers.listening = False
        world.every("first", "10s", overlap="allow")
        world.every("a", "10s", overlap="allow")
        world.advance(11 * SECOND)
        held = "a" if world.runs("a")[0].state is RunState.SCHEDULED else "first"
        world.pause(held)
        world.advance(MINUTE)
        world.resume(held)
        world.workers.listening = True
        world.advance(MINUTE)
        assert world.runs(held)[0].state is RunState.COMPLETED

    def test_what_comes_at_the_very_end_of_a_pause_that_skips_runs_though_it_is_read_before(self, world: World) -> None:
        world.every("a", "10s")
        world.store.jobs.set_paused("a", True, "quiet", MONDAY + MINUTE, skips=True)
        world.tell("job_changed", job_id="a", change="modified")
        world.reconcile()
        world.advance(55 * SECOND)
        world.lead()  # reads the row of the end of the pause
        world.advance(7 * SECOND)
        run = next(run for run in world.runs("a") if run.scheduled_at >= MONDAY + MINUTE)
        assert (run.scheduled_at, run.state) == (MONDAY + MINUTE, RunState.COMPLETED)


def when(run: Run) -> int:
    """Its nominal time, in seconds since the world began."""
    return (run.scheduled_at - MONDAY) // SECOND


class TestBounds:
    def test_occurrences_lie_within_start_at_and_end_at(self, world: World) -> None:
        bounds = {"start_at": "2026-11-30T10:00:20Z", "end_at": "2026-11-30T10:00:41Z"}
        world.every("a", "10s", **bounds)
        world.advance(2 * MINUTE)
        assert [(run.scheduled_at - MONDAY) // SECOND for run in world.runs("a")] == [20, 30, 40]

    def test_jitter_delays_the_release_and_never_the_name(self, world: World) -> None:
        world.every("a", "10s", jitter="5s")
        world.advance(2 * MINUTE)
        done = [run for run in world.runs("a") if run.state is RunState.COMPLETED]
        assert len({run.due_at - run.scheduled_at for run in done}) > 5
        for run in done:
            assert 0 <= run.due_at - run.scheduled_at < 5 * SECOND
            assert world.starts(run.run_id)[0] >= run.due_at
            assert run.run_id == occurrence_run_id("a", run.scheduled_at)


class TestMisfire:
    def outage(self, world: World, length: int, **job: object) -> list[Instant]:
        world.every("a", "1m", **job)
        world.advance(90 * SECOND)
        world.lead(wait=length)
        world.advance(5 * SECOND)
        return [run.scheduled_at for run in world.runs("a") if run.state is RunState.COMPLETED][1:]

    def test_fire_once_runs_the_newest_and_records_the_rest_as_one_gap(self, world: World) -> None:
        ran = self.outage(world, 3 * HOUR)
        assert ran == [MONDAY + 3 * HOUR + MINUTE]
        (missed_range,) = world.store.tables.missed_ranges
        assert missed_range.count == 179
        assert "fire_once" in missed_range.reason

    def test_fire_all_runs_as_many_as_its_cap(self, world: World) -> None:
        policy = {"policy": "fire_all", "max_catch_up": 10}
        assert len(self.outage(world, 3 * HOUR, misfire=policy, overlap="allow")) == 10

    def test_skip_runs_none_of_the_late(self, world: World) -> None:
        ran = self.outage(world, 3 * HOUR + 50 * SECOND, misfire={"policy": "skip", "grace": "5s"})
        assert all(at > world.now - 10 * SECOND for at in ran)

    def test_every_occurrence_of_an_outage_has_a_row_or_lies_in_a_gap(self, world: World) -> None:
        self.outage(world, HOUR, misfire={"policy": "fire_all", "max_catch_up": 7}, overlap="allow")
        rows = {run.scheduled_at for run in world.runs("a")}
        missed = sum(missed_range.count for missed_range in world.store.tables.missed_ranges)
        assert len({at for at in rows if at <= world.now}) + missed == (world.now - MONDAY) // MINUTE

    def test_a_stall_within_the_grace_runs_everything(self, world: World) -> None:
        ran = self.outage(world, 80 * SECOND, misfire={"policy": "skip", "grace": "10m"}, overlap="allow")
        assert ran == [MONDAY + 2 * MINUTE]

    def test_a_row_made_before_the_outage_is_judged_with_the_rest(self, world: World) -> None:
        world.every("a", "1m")
        world.advance(MINUTE + 55 * SECOND)
        world.lead(wait=10 * MINUTE)
        world.advance(5 * SECOND)
        states = {(run.scheduled_at - MONDAY) // MINUTE: run.state.value for run in world.runs("a")}
        assert states[2] == "missed"
        assert [minute for minute, state in states.items() if state == "completed"][1:] == [11]
        # Nine are owed no more, one as a row and eight in a gap: all are counted under the policy of the job.
        assert 'scheduler_misfires_total{policy="fire_once"} 9.0' in world.meter.exposition()


class TestOverlap:
    def long_runs(self, world: World, overlap: str, every: str = "10s") -> list[str]:
        world.workers.seconds = 25
        world.every("a", every, overlap=overlap)
        for _ in range(7):
            world.advance(10 * SECOND)
            world.workers.beat()
        return world.states("a")[:7]

    def test_skip_lets_the_running_one_finish_and_says_why(self, world: World) -> None:
        states = self.long_runs(world, "skip")
        assert states[:4] == ["completed", "skipped", "completed", "skipped"]
        assert world.runs("a")[1].reason == f"overlap skip: {world.runs('a')[0].run_id} is not final"

    def test_what_is_skipped_behind_the_first_for_the_same_reason_is_one_gap(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        world.every("a", "1s")
        for _ in range(60):
            world.advance(10 * SECOND)
            world.workers.beat()
        past = [run for run in world.runs("a") if run.scheduled_at < world.now]
        assert [run.state.value for run in past] == ["running", "skipped"]
        (missed_range,) = world.store.tables.missed_ranges
        reason = f"overlap skip: {past[0].run_id} is not final"
        first = past[1].scheduled_at
        assert missed_range == MissedRange(
            "a", first + SECOND, first + missed_range.count * SECOND + 1, missed_range.count, reason
        )
        assert missed_range.count > 590
        assert f'scheduler_skips_total{{reason="overlap"}} {missed_range.count + 1}.0' in world.meter.exposition()

    def test_another_run_in_the_way_is_another_row_and_another_gap(self, world: World) -> None:
        states = self.long_runs(world, "skip", every="5s")
        assert states[:4] == ["completed", "skipped", "completed", "skipped"]
        assert [missed_range.count for missed_range in world.store.tables.missed_ranges[:2]] == [3, 3]
        assert len({missed_range.reason for missed_range in world.store.tables.missed_ranges[:2]}) == 2

    def test_cancel_running_folds_what_newer_ones_replaced(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        world.every("a", "1s", overlap="cancel_running")
        world.advance(30 * SECOND)
        past = [run for run in world.runs("a") if run.scheduled_at < world.now - SECOND]
        assert [run.state.value for run in past] == ["running", "skipped"]
        (missed_range,) = world.store.tables.missed_ranges
        assert missed_range.reason == f"overlap cancel_running: newer ones came while {past[0].run_id} was not final"
        assert missed_range.count > 20

    def test_allow_runs_them_side_by_side(self, world: World) -> None:
        assert "skipped" not in self.long_runs(world, "allow")
        assert len(world.workers.started) == 7

    def test_queue_holds_one_back_and_skips_the_rest(self, world: World) -> None:
        states = self.long_runs(world, "queue")
        assert states[:3] == ["completed", "completed", "skipped"]
        starts = [world.starts(run.run_id)[0] for run in world.runs("a")[:2]]
        assert starts[1] - starts[0] >= 25 * SECOND

    def test_queue_all_runs_one_behind_the_other(self, world: World) -> None:
        self.long_runs(world, "queue_all")
        for _ in range(10):
            world.advance(10 * SECOND)
            world.workers.beat()
        starts = [at for run in world.runs("a")[:5] for at in world.starts(run.run_id)]
        assert all(b - a >= 25 * SECOND for a, b in itertools.pairwise(starts))
        assert "skipped" not in world.states("a")

    def test_cancel_running_stops_the_old_and_starts_the_new(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        world.every("a", "10s", overlap="cancel_running")
        world.advance(10 * SECOND)
        (first, *_) = world.runs("a")
        world.advance(10 * SECOND)
        assert world.dispatcher.revoked == [attempt_of(first.run_id)]
        kind, body = fails("Terminated")
        world.tell(kind, task_id=attempt_of(first.run_id), worker="w1", **body)
        world.advance(SECOND)
        assert world.states("a")[:2] == ["cancelled", "running"]

    def test_a_retry_in_waiting_counts_as_not_final(self, world: World) -> None:
        world.workers.behave = fails
        world.every("a", "10s", retry={"max_attempts": 2, "initial": "15s", "jitter": False})
        world.advance(21 * SECOND)
        assert world.states("a")[:2] == ["retrying", "skipped"]


class TestTakeOver:
    def test_what_was_moved_but_never_published_goes_out_by_the_next_leader(self, world: World) -> None:
        world.dispatcher.away = True
        world.renewer.trusted = lambda: False  # type: ignore[method-assign]
        run_id = _committed_pending(world)
        world.dispatcher.away = False
        world.lead()
        world.advance(SECOND)
        assert len(world.starts(run_id)) == 1

    def test_what_was_published_but_not_marked_is_sent_again_and_started_once(self, world: World) -> None:
        world.workers.listening = False
        run_id = world.enqueue()
        world.lead()
        world.workers.listening = True
        world.advance(5 * SECOND)
        sent = [run.run_id for run in world.dispatcher.published]
        assert sent.count(run_id) >= 2
        assert len(world.starts(run_id)) == 1

    def test_reports_that_waited_for_a_leader_are_applied(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        world.tell("succeeded", task_id=attempt_of(run_id), worker="w1", result=5)
        world.lead(wait=2 * MINUTE)
        assert world.run(run_id).state is RunState.COMPLETED

    def test_reading_the_inbox_twice_changes_nothing(self, world: World) -> None:
        runs = [world.enqueue() for _ in range(5)]
        world.advance(SECOND)
        before = [world.run(run_id) for run_id in runs]
        world.store.tables.cursors[0] = (world.store.tables.cursors[0][0], "0-0")
        world.lead()
        world.advance(SECOND)
        assert [world.run(run_id) for run_id in runs] == before

    def test_the_sequence_of_publishes_grows_over_leaders(self, world: World) -> None:
        world.enqueue()
        world.lead()
        world.enqueue()
        seqs = [run.seq for run in world.dispatcher.published]
        assert seqs == sorted(seqs)
        assert seqs[0] >> 32 < seqs[-1] >> 32


class TestLost:
    def test_a_run_that_no_worker_lists_any_more_is_lost_and_fails(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        world.workers.die()
        world.advance(2 * MINUTE)
        run = world.run(run_id)
        assert run.state is RunState.FAILED
        assert run.reason == "lost"

    @pytest.mark.slow
    def test_a_lost_attempt_is_followed_by_the_next_where_the_job_has_one(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        world.every("a", "1h", retry={"max_attempts": 2, "initial": "1s", "jitter": False})
        world.advance(HOUR + SECOND)
        world.workers.die()
        world.workers.behave = lambda attempt: ("succeeded", {"result": 1})
        world.workers.listening = True
        world.advance(2 * MINUTE)
        (run, *_) = world.runs("a")
        assert (run.state, run.attempt) == (RunState.COMPLETED, 2)
        assert attempt_of(run.run_id, 1) in world.claims.flagged

    def test_a_second_message_in_another_worker_keeps_no_lost_run_alive(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        world.workers.die()
        for _ in range(12):
            world.advance(5 * SECOND)
            world.tell(
                "heartbeat", worker="w2", running=[], received=[attempt_of(run_id)], concurrency=1, queues=["default"]
            )
        world.advance(SECOND)
        assert world.run(run_id).reason == "lost"

    def test_a_heartbeat_in_parts_shows_all_that_its_worker_runs(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        first, second = world.enqueue(), world.enqueue()
        world.workers.die()
        told = {"worker": "w1", "received": [], "concurrency": 4, "queues": ["default"]}
        world.tell("heartbeat", **told, running=[attempt_of(first)])
        world.tell("heartbeat", **told, running=[attempt_of(second)], part=1)
        world.advance(SECOND)
        assert world.state.workers.by_name["w1"].running == (first, second)

    def test_heartbeats_keep_a_long_run_alive(self, world: World) -> None:
        world.workers.seconds = 300
        run_id = world.enqueue()
        for _ in range(30):
            world.advance(10 * SECOND)
            world.workers.beat()
        world.advance(SECOND)
        assert world.run(run_id).state is RunState.COMPLETED

    def test_silence_means_nothing_while_the_inbox_cannot_be_read(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        world.deaf = True
        world.advance(100 * SECOND)
        assert world.run(run_id).state is RunState.RUNNING
        world.deaf = False
        world.advance(29 * SECOND)
        assert world.run(run_id).state is RunState.RUNNING
        world.advance(3 * SECOND)
        assert world.run(run_id).reason == "lost"

    def test_an_answer_that_comes_before_the_inbox_is_heard_again_loses_no_attempt(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        world.deaf = world.claims.away = True
        world.advance(50 * SECOND)
        world.claims.away = False
        world.mailbox.put(ResultsFound(((run_id, 1, None),)))
        world.reconcile()
        world.deaf = False
        world.workers.beat()
        world.advance(SECOND)
        assert world.run(run_id).state is RunState.RUNNING
        assert attempt_of(run_id) not in world.claims.flagged

    def test_who_is_heard_in_the_pass_of_the_verdict_is_not_lost(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        world.claims.away = True
        world.advance(50 * SECOND)
        beat = Heartbeat("w", world.now, ((run_id, 1),), (), 1, ("default",), None)
        world.mailbox.put(ResultsFound(((run_id, 1, None),)))
        world.mailbox.put(InboxRead((beat,), world.state.inbox.position))
        world.reconcile()
        assert world.run(run_id).state is RunState.RUNNING

    def test_a_clock_that_jumps_is_no_silence(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        world.advance(SECOND)
        world.database_ahead = 10 * MINUTE
        world.advance(SECOND)
        world.workers.beat()
        world.advance(2 * SECOND)
        assert world.run(run_id).state is RunState.RUNNING

    def test_a_report_left_beside_the_stream_is_found_before_the_verdict(self, world: World) -> None:
        from itinerary.protocol.wire import entry

        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        body = {"task_id": attempt_of(run_id), "worker": "w1", "result": "found"}
        world.claims.leave(attempt_of(run_id), entry("succeeded", world.now, body))
        world.advance(2 * MINUTE)
        assert world.run(run_id).result == "found"

    def test_a_run_past_its_timeout_is_ended_though_its_worker_still_lists_it(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue(timeout=10 * SECOND)
        for _ in range(10):
            world.advance(10 * SECOND)
            world.workers.beat()
        run = world.run(run_id)
        assert (run.state, run.reason) == (RunState.FAILED, "timed_out")

    @pytest.mark.parametrize("behind", [-2 * HOUR, 2 * HOUR])
    def test_a_timeout_is_counted_by_the_leaders_clock_however_wrong_the_workers_is(
        self, world: World, behind: int
    ) -> None:
        def tell(kind: str, **body: object) -> None:
            world.inbox.send(kind, world.now - (behind if "worker" in body else 0), body)

        world.tell = tell  # type: ignore[method-assign]
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue(timeout=2 * MINUTE)

        def run_on(seconds: int) -> RunState:
            for _ in range(seconds // 5):
                world.advance(5 * SECOND)
                world.workers.beat()
            world.reconcile()
            return world.run(run_id).state

        assert run_on(60) is RunState.RUNNING
        world.lead()
        assert run_on(60) is RunState.RUNNING
        assert run_on(60) is RunState.FAILED
        assert world.run(run_id).reason == "timed_out"


def test_a_leader_announces_its_broker_and_says_so_again_when_that_has_lost_its_mark(world: World) -> None:
    world.advance(2 * SECOND)
    first = world.claims.beacon
    assert first == {"v": 1, "protocol": 1, "broker": {"transport": "fake", "where": "here", "mark": "mark1"}}
    world.dispatcher.wipe()
    world.advance(11 * SECOND)
    assert world.claims.beacon == {
        "v": 1,
        "protocol": 1,
        "broker": {"transport": "fake", "where": "here", "mark": "mark2"},
    }


class TestRepublish:
    def test_a_message_that_was_popped_and_lost_is_sent_again_with_the_same_task_id(self, world: World) -> None:
        world.workers.listening = False
        run_id = world.enqueue()
        assert world.dispatcher.pop("default") == attempt_of(run_id)
        world.workers.listening = True
        world.advance(MINUTE)
        assert world.run(run_id).state is RunState.COMPLETED
        assert len(world.starts(run_id)) == 1
        seqs = [run.seq for run in world.dispatcher.published if run.run_id == run_id]
        assert seqs[0] < seqs[1]

    def test_a_lost_message_is_sent_again_while_its_queue_holds_only_somebody_else_s(self, world: World) -> None:
        world.workers.listening = False
        run_id = world.enqueue()
        assert world.dispatcher.pop("default") == attempt_of(run_id)
        for _ in range(3):
            world.dispatcher.push_foreign("default")
        world.advance(MINUTE)
        seqs = [run.seq for run in world.dispatcher.published if run.run_id == run_id]
        assert len(seqs) == 2
        world.advance(10 * MINUTE)
        assert [run.seq for run in world.dispatcher.published if run.run_id == run_id] == seqs

    def test_a_long_backlog_is_no_loss(self, world: World) -> None:
        world.workers.listening = False
        for _ in range(20):
            world.enqueue()
        world.advance(10 * MINUTE)
        assert len(world.dispatcher.published) == 20

    def test_what_a_worker_that_left_put_back_is_not_sent_again(self, world: World) -> None:
        """Its kombu puts the newest at the head, where it looks as if the older ones were gone."""
        world.workers.listening = False
        older, newer = world.enqueue(), world.enqueue()
        taken = [world.dispatcher.pop_run("default") for _ in range(2)]
        world.workers.leave()
        world.dispatcher.put_back(taken)
        world.advance(MINUTE)
        assert len(world.dispatcher.published) == 2
        world.workers.slots, world.workers.seconds = 1, 15
        world.workers.listening = True
        world.advance(MINUTE)
        assert [attempt for _, attempt in world.workers.started] == [attempt_of(newer), attempt_of(older)]
        assert len(world.dispatcher.published) == 2

    def test_what_was_lost_as_a_worker_left_is_sent_again_once_a_message_since_has_passed_it(
        self, world: World
    ) -> None:
        world.workers.listening = False
        lost, kept = world.enqueue(), world.enqueue()
        taken = [world.dispatcher.pop_run("default") for _ in range(2)]
        world.workers.leave()
        world.dispatcher.put_back(taken[1:])
        world.advance(MINUTE)
        assert len(world.dispatcher.published) == 2
        since = world.enqueue()
        world.dispatcher.pop("default")
        world.advance(MINUTE)
        assert [run.run_id for run in world.dispatcher.published[:4]] == [lost, kept, since, lost]

    def test_what_a_worker_holds_unstarted_is_not_sent_again(self, world: World) -> None:
        world.workers.listening = False
        run_id = world.enqueue()
        world.dispatcher.pop("default")
        for _ in range(30):
            world.tell(
                "heartbeat", worker="w1", running=[], received=[attempt_of(run_id)], concurrency=1, queues=["default"]
            )
            world.advance(2 * SECOND)
        assert len(world.dispatcher.published) == 1

    @pytest.mark.slow
    def test_a_message_that_vanishes_every_time_ends_as_unroutable(self, world: World) -> None:
        world.workers.listening = False
        run_id = world.enqueue()
        for _ in range(400):
            world.dispatcher.pop("default")
            world.advance(20 * SECOND)
            if world.run(run_id).state is RunState.FAILED:
                break
        run = world.run(run_id)
        assert (run.state, run.reason) == (RunState.FAILED, "unroutable")
        assert len(world.dispatcher.published) == 6
        assert not world.claims.claim(attempt_of(run_id), "late worker")


class TestWindow:
    def test_no_more_than_the_window_is_out_and_the_most_urgent_go_first(self) -> None:
        world = World(settings=CoreSettings(publish_window=3))
        world.workers.listening = False
        for priority in (9, 5, 0, 7, 1, 3):
            world.enqueue(after=SECOND, priority=priority)
        world.advance(2 * SECOND)
        assert sorted(run.priority for run in world.dispatcher.published) == [0, 1, 3]
        world.workers.listening = True
        world.advance(5 * SECOND)
        assert len(world.workers.started) == 6


def world_job(world: World, job_id: str, schedule: dict[str, object], **more: object) -> Job:
    """A job that is stored without a word to the leader."""
    body = {"job_id": job_id, "task": "demo.task", "schedule": schedule, **more}
    return read_job(body, created_at=world.now)[0]


def _committed_pending(world: World) -> str:
    """A run that is pending in the database and was never published: its leader died in between."""
    from scheduler_service.core.leader.commands import Dispatch
    from scheduler_service.core.model import NewRun, RunKind

    run = NewRun("adhoc_stranded", RunKind.ADHOC, "demo.task", world.now, world.now)
    world.store.runs.enqueue([run])
    moved = world.store.leader.dispatch_runs(world.renewer.lease, [Dispatch("adhoc_stranded", 1, 1)], world.now)
    assert len(moved.dispatched) == 1
    return "adhoc_stranded"
