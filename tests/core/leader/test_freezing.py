"""Freezes: nothing in scope is dispatched within one, nothing is lost, each occurrence is judged by its due time."""

from typing import Any

import pytest

from itinerary.protocol.instants import HOUR, MILLISECOND, MINUTE, SECOND, Duration
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.freezes import During, Scope
from scheduler_service.core.leader.frozen import freezes_of
from scheduler_service.core.leader.queries import oldest_due
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.run_state import RunState
from tests.support.world import EVERYTHING, SOMEBODY, World

DONE, LIES, WAITS, SKIPPED = RunState.COMPLETED, RunState.PENDING, RunState.SCHEDULED, RunState.SKIPPED
DEFAULT = Scope(queues=frozenset({"default"}))
BILLING = Scope(tags=frozenset({"billing"}))
TICK = Scope(jobs=frozenset({"tick"}))
ALL_MISSED = {"policy": "fire_all", "max_catch_up": 100}


@pytest.fixture
def world() -> World:
    """A leader that has listened for long enough."""
    world = World()
    world.advance(10 * SECOND)
    return world


def run_now(world: World, job_id: str = "tick", **more: Any) -> str:
    """Somebody runs the job now."""
    world.made += 1
    job = world.store.jobs.get(job_id)
    asked = NewRun(
        f"{job_id}_manual_{world.made}", RunKind.MANUAL, job.task, world.now, world.now, job_id, job.version, **more
    )
    world.store.runs.enqueue([asked])
    world.tell("run_enqueued", run_ids=[asked.run_id])
    world.reconcile()
    return asked.run_id


def due(world: World, job_id: str = "tick") -> list[RunState]:
    """The states of the job's runs that have fallen due."""
    return [run.state for run in world.runs(job_id) if run.due_at <= world.now]


def reasons(world: World) -> dict[str, int]:
    """How many occurrences have no row, by the reason."""
    found: dict[str, int] = {}
    for one in world.store.tables.missed_ranges:
        found[one.reason] = found.get(one.reason, 0) + one.count
    return found


def nightly(world: World, **more: Any) -> None:
    """A job with a tag, each ten seconds; no occurrence is late, none waits for another."""
    world.every("tick", "10s", tags=["billing"], overlap="allow", misfire=ALL_MISSED, **more)


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("scope", [EVERYTHING, DEFAULT])
def test_one_off_runs_of_a_frozen_scope_wait_in_the_database(world: World, scope: Scope, told: bool) -> None:
    freeze = world.freeze(scope, told=told)
    run_ids = [world.enqueue() for _ in range(3)]
    world.advance(MINUTE)
    assert [world.run(run_id).state for run_id in run_ids] == [WAITS] * 3
    if told:
        assert [run_id for run_id in run_ids if world.state.runs.get(run_id)] == []
    world.end_freeze(freeze, told=told)
    world.advance(6 * SECOND)
    assert [len(world.starts(run_id)) for run_id in run_ids] == [1] * 3


@pytest.mark.parametrize("scope", [EVERYTHING, DEFAULT, BILLING, TICK])
def test_occurrences_manual_runs_and_retries_of_a_job_wait_for_the_end(world: World, scope: Scope) -> None:
    world.workers.behave = lambda attempt: ("failed", {"error": {"type": "E", "message": "m", "traceback": None}})
    nightly(world)
    failing = run_now(world, retry=RetryPolicy(max_attempts=2, initial=10 * SECOND, jitter=False))
    world.advance(SECOND)
    world.workers.behave = lambda attempt: ("succeeded", {"result": 1})
    freeze = world.freeze(scope)
    asked, before = run_now(world), len(world.workers.started)
    world.advance(25 * SECOND)
    assert len(world.workers.started) == before
    assert (world.run(failing).state, world.run(asked).state) == (RunState.RETRYING, WAITS)
    assert due(world)[-2:] == [WAITS, WAITS]
    assert oldest_due(world.state, world.now) is None, "what is frozen is no lag"
    world.end_freeze(freeze)
    world.advance(SECOND)
    assert set(due(world)) == {DONE}
    assert len(world.starts(failing)) == 2
    assert not len(world.state.frozen)


@pytest.mark.parametrize("scope", [BILLING, TICK])
def test_scopes_of_tags_and_jobs_leave_other_runs_alone(world: World, scope: Scope) -> None:
    nightly(world)
    world.every("other", "10s", tags=["else"], overlap="allow")
    world.freeze(scope)
    one_off = world.enqueue()
    world.advance(11 * SECOND)
    assert world.run(one_off).state is DONE
    assert due(world, "other") == [DONE]
    assert due(world) == [WAITS]


def test_a_forced_run_goes_through_a_freeze_and_not_through_a_pause(world: World) -> None:
    nightly(world)
    world.freeze()
    forced = run_now(world, forced=True)
    world.advance(SECOND)
    assert world.run(forced).state is DONE
    world.pause_queue()
    held = run_now(world, forced=True)
    world.advance(MINUTE)
    assert world.run(held).state is WAITS


def test_what_no_worker_has_started_is_recalled_and_what_runs_runs_on(world: World) -> None:
    nightly(world)
    world.workers.seconds = 30
    runs = run_now(world)
    world.workers.listening = False
    lies, forced = run_now(world), run_now(world, forced=True)
    other = world.enqueue()
    assert {world.run(run_id).state for run_id in (lies, forced, other)} == {LIES}
    freeze = world.freeze(BILLING)
    assert [world.run(run_id).state for run_id in (runs, lies, forced, other)] == [RunState.RUNNING, WAITS, LIES, LIES]
    reason = world.run(lies).reason
    assert reason is not None
    assert reason.startswith(f"recalled: held by freeze {freeze.freeze_id} since 2026-11-30T10:00:10")
    assert reason.endswith("by olga: a deploy")
    world.workers.listening = True
    world.advance(MINUTE)
    assert (world.run(runs).state, world.run(lies).state) == (DONE, WAITS)


def test_a_coming_freeze_begins_by_itself_and_one_with_an_end_ends_by_itself(world: World) -> None:
    world.workers.listening = False
    world.freeze(TICK)  # what is pending is recalled each second, and at once when another begins
    world.freeze(since=world.now + 5_500 * MILLISECOND, until=world.now + 20 * SECOND)
    lies = world.enqueue()
    assert world.run(lies).state is LIES
    world.advance(5_500 * MILLISECOND)
    assert world.run(lies).state is WAITS
    later = world.enqueue()
    world.workers.listening = True
    world.advance(13_500 * MILLISECOND)
    assert {world.run(run_id).state for run_id in (lies, later)} == {WAITS}
    world.advance(SECOND)
    assert world.starts(lies) == world.starts(later) == [world.now]


def test_a_freeze_that_is_ended_before_it_begins_never_holds(world: World) -> None:
    freeze = world.freeze(since=world.now + 5 * SECOND, during=During.SKIP)
    nightly(world)
    world.end_freeze(freeze)
    world.advance(31 * SECOND)
    assert due(world) == [DONE] * 3


def test_two_freezes_and_a_pause_hold_independently(world: World) -> None:
    nightly(world)
    first, second = world.freeze(BILLING), world.freeze(DEFAULT)
    world.pause_queue()
    world.advance(11 * SECOND)
    world.end_freeze(first)
    world.advance(10 * SECOND)
    world.resume_queue()
    world.advance(10 * SECOND)
    assert due(world) == [WAITS] * 3
    world.end_freeze(second)
    world.advance(SECOND)
    assert due(world) == [DONE] * 3


def test_a_job_that_loses_its_tag_goes_on(world: World) -> None:
    nightly(world)
    world.freeze(BILLING)
    world.advance(11 * SECOND)
    assert due(world) == [WAITS]
    world.every("tick", "10s", overlap="allow", misfire=ALL_MISSED)
    world.advance(SECOND)
    assert due(world) == [DONE]


def test_a_job_that_gets_the_tag_is_frozen(world: World) -> None:
    world.every("tick", "10s", overlap="allow", misfire=ALL_MISSED)
    world.freeze(BILLING)
    world.advance(11 * SECOND)
    nightly(world)
    world.advance(10 * SECOND)
    assert due(world) == [DONE, WAITS]


def test_the_metrics_count_freezes_and_show_no_backlog_that_more_workers_would_shorten(world: World) -> None:
    freeze = world.freeze()
    world.enqueue()
    world.advance(2 * SECOND)
    assert "scheduler_freezes 1.0" in world.meter.exposition()
    assert 'backlog_runs{queue="default"} 1' not in world.meter.exposition()
    world.end_freeze(freeze)
    world.advance(2 * SECOND)
    assert "scheduler_freezes 0.0" in world.meter.exposition()


class TestSkipping:
    def test_occurrences_are_skipped_and_share_a_missed_range(self, world: World) -> None:
        nightly(world)
        freeze = world.freeze(TICK, during=During.SKIP)
        asked = run_now(world)
        world.advance(61 * SECOND)
        world.end_freeze(freeze)
        world.advance(10 * SECOND)
        states = due(world)
        assert states.count(SKIPPED) == 1
        assert reasons(world) == {freeze.skipped(): 5}
        assert world.run(asked).state is DONE, "what was asked for is held, not skipped"
        assert states[-1] is DONE

    def test_an_occurrence_due_after_an_end_that_the_leader_did_not_hear_of_runs(self, world: World) -> None:
        nightly(world)
        freeze = world.freeze(TICK, during=During.SKIP)
        world.advance(9 * SECOND)
        world.end_freeze(freeze, told=False)
        world.advance(2 * SECOND)
        assert due(world) == [DONE]

    def test_a_freeze_that_the_leader_did_not_hear_of_skips(self, world: World) -> None:
        nightly(world)
        world.workers.listening = False
        world.freeze(TICK, told=False, during=During.SKIP)
        world.advance(11 * SECOND)
        assert due(world) == [SKIPPED]

    @pytest.mark.parametrize("ended", [False, True])
    def test_a_new_leader_judges_by_the_freeze_at_the_due_time(self, world: World, ended: bool) -> None:
        nightly(world)
        world.advance(11 * SECOND)
        freeze = world.freeze(BILLING, during=During.SKIP)
        world.now += 100 * SECOND
        if ended:
            world.store.freezes.end(freeze.freeze_id, by=SOMEBODY)
            world.now += 20 * SECOND
        world.lead()
        world.advance(SECOND)
        states = due(world)
        assert states.count(DONE) == (3 if ended else 1)
        assert states.count(SKIPPED) + sum(reasons(world).values()) == 10
        assert set(reasons(world)) <= {freeze.skipped()}

    def test_each_part_of_an_outage_has_the_reason_of_its_time(self, world: World) -> None:
        world.every("tick", "1s", overlap="allow", misfire={"policy": "fire_all", "max_catch_up": 3})
        world.advance(SECOND)
        start = world.now + 100 * SECOND
        freeze = world.freeze(TICK, since=start, until=start + 200 * SECOND, during=During.SKIP)
        planned = len(world.runs("tick"))
        world.now += 400 * SECOND
        world.lead()
        world.advance(SECOND)
        found = reasons(world)
        assert set(found) == {"misfire fire_all: later than 30s", freeze.skipped()}
        assert found[freeze.skipped()] == 200
        missed = found["misfire fire_all: later than 30s"] + due(world).count(RunState.MISSED)
        assert missed == 100 + 70 - 3
        assert due(world).count(DONE) >= 3 + 30 > planned


class TestLateness:
    """After a freeze that holds, lateness counts from its end."""

    @pytest.mark.parametrize(("found", "state"), [(20 * SECOND, DONE), (MINUTE, RunState.MISSED)])
    def test_of_what_a_leader_finds_after_the_freeze(self, world: World, found: Duration, state: RunState) -> None:
        world.every("tick", "10s", overlap="allow", misfire={"policy": "skip", "grace": "30s"})
        end = world.now + 50 * SECOND
        world.freeze(TICK, until=end)
        world.advance(25 * SECOND)  # two have fallen due, the third has a row
        world.now = end + found
        world.lead()
        world.advance(SECOND)
        within = [run.state for run in world.runs("tick") if run.due_at < end]
        assert set(within) == {state}
        assert len(within) + sum(reasons(world).values()) == (5 if state is DONE else 8), "later ones are missed, too"

    def test_a_start_deadline_counts_from_the_end_of_the_freeze(self, world: World) -> None:
        freeze = world.freeze()
        run_id = world.enqueue(start_within=20 * SECOND)
        world.advance(MINUTE)
        assert world.run(run_id).state is WAITS
        world.workers.listening = False
        world.end_freeze(freeze)
        world.advance(19 * SECOND)
        assert world.run(run_id).state is LIES
        world.advance(6 * SECOND)
        assert world.run(run_id).state is RunState.MISSED

    def test_a_run_due_before_the_freeze_keeps_its_deadline(self, world: World) -> None:
        world.pause_queue("default")
        run_id = world.enqueue(start_within=20 * SECOND)
        world.advance(SECOND)
        world.freeze()
        world.resume_queue()
        world.advance(25 * SECOND)
        run = world.run(run_id)
        assert run.state is RunState.MISSED
        assert run.reason is not None
        assert "held by freeze 1 since" in run.reason


def test_of_a_job_only_so_many_occurrences_wait_and_older_ones_become_a_missed_range(world: World) -> None:
    misfire = {"policy": "fire_all", "max_catch_up": 3}
    world.every("tick", "1s", overlap="allow", misfire=misfire)
    freeze = world.freeze(TICK)
    world.advance(MINUTE)
    assert due(world).count(WAITS) == 3
    assert len(world.runs("tick")) < 20
    (reason,) = reasons(world)
    assert reason == f"held by freeze {freeze.name()}; of one job at most 3 occurrences wait for its end"
    world.end_freeze(freeze)
    world.advance(SECOND)
    assert due(world).count(DONE) >= 3


def test_after_a_long_freeze_without_a_leader_the_newest_occurrences_are_held(world: World) -> None:
    world.every("tick", "1s", overlap="allow", misfire={"policy": "fire_all", "max_catch_up": 5})
    freeze = world.freeze(TICK)
    world.now += HOUR
    world.lead()
    world.advance(SECOND)
    assert due(world).count(WAITS) == 5
    assert set(reasons(world)) == {f"held by freeze {freeze.name()}; of one job at most 5 occurrences wait for its end"}
    assert sum(reasons(world).values()) + len(due(world)) == HOUR // SECOND + 1


def test_manual_runs_beyond_a_bound_stay_in_the_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_service.core.leader.freezing._MOST_IN_MEMORY", 3)
    world.every("tick", "1h", overlap="allow")
    freeze = world.freeze(TICK)
    run_ids = [run_now(world) for _ in range(6)]
    world.advance(10 * SECOND)
    assert sum(world.state.runs.get(run_id) is not None for run_id in run_ids) == 3
    world.end_freeze(freeze)
    world.advance(6 * SECOND)
    assert [len(world.starts(run_id)) for run_id in run_ids] == [1] * 6


def test_an_edit_of_freezes_between_choice_and_dispatch_moves_nothing(world: World) -> None:
    run_id = world.enqueue(after=5 * SECOND)
    world.freeze(told=False)
    world.advance(5 * SECOND)
    assert world.starts(run_id) == []


def test_what_falls_due_is_judged_without_the_freezes_that_ended_before(world: World) -> None:
    for _ in range(3):
        world.end_freeze(world.freeze(BILLING))
    held = world.freeze(BILLING)
    nightly(world)
    world.advance(20 * SECOND)
    assert len(world.state.controls.freezes) == 4
    assert [one.freeze_id for one in freezes_of(world.state, "default", "tick", world.now)] == [held.freeze_id]
    assert world.state.controls.next_change(world.now) is None
