"""Balanced placement in a whole scheduler under a hand-moved clock: when jobs are placed, moved and left alone."""

from itertools import pairwise
from typing import Any

import pytest

from itinerary.protocol.identity import manual_run_id
from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant, format_instant, parse_instant
from scheduler_service.core.balancing.placements import (
    FollowJobs,
    JobsPlaced,
    PlaceJobs,
    Placement,
    PlacesFound,
    PlanRebalance,
    RebalanceAsked,
    RebalanceOrder,
    RebalancePlan,
    placed,
)
from scheduler_service.core.balancing.slot_balancer import slot_key
from scheduler_service.core.leader.commands import ReadJobs, Reply
from scheduler_service.core.leader.iteration import iterate
from scheduler_service.core.leader.messages import Query
from scheduler_service.core.leader.results import InboxRead
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.model import Job, NewRun, RunKind
from tests.support.world import MONDAY, World


@pytest.fixture
def world() -> World:
    """Whole days pass here: the loop looks around every eight seconds, still before rows are due."""
    return World(settings=CoreSettings(loop_interval=8 * SECOND))


def balanced(world: World, job_id: str, every: str, **more: Any) -> Job:
    """Make or replace the job, and what the database has of it once the leader has heard."""
    pinned = more.pop("pinned", False)
    world.job(job_id, {"kind": "interval", "every": every, "balanced": True, "pinned": pinned}, **more)
    return world.store.jobs.get(job_id)


def put_back(world: World, job_id: str, anchor: Instant) -> None:
    """As if the job had been placed there long ago; a leader that takes over finds it so."""
    row = world.store.tables.jobs[job_id]
    row.versions[-1] = placed(row.versions[-1], anchor, world.now - 2 * HOUR)


def clustered(world: World, number: int = 12) -> None:
    for n in range(number):
        balanced(world, f"job{n:02}", "6h")
        put_back(world, f"job{n:02}", MONDAY + 2 * HOUR + n * SECOND)
    world.lead()


def asks(world: World, kind: str, plan_id: str, *, known: bool = False) -> Any:
    """The leader's answer."""
    who = {"actor": "ann", "role": "operator"}
    wanted = {"kind": kind, "plan_id": plan_id, "known_plan": known, "reply_to": plan_id}
    world.inbox.send("rebalance", world.now, {**wanted, **who})
    world.reconcile()
    return world.inbox.await_reply(plan_id, 0)


def rebalances(world: World) -> list[str]:
    lines = world.meter.exposition().splitlines()
    return [line for line in lines if line.startswith("scheduler_rebalance_total")]


def distribution(world: World) -> Any:
    world.tell("query", what="distribution", reply_to="seen")
    world.reconcile()
    return world.inbox.await_reply("seen", 0)


def anchors(world: World) -> dict[str, Instant | None]:
    return {job_id: row.current.placed_anchor for job_id, row in world.store.tables.jobs.items()}


@pytest.mark.slow
def test_ten_new_jobs_of_one_interval_are_placed_in_ten_slots_and_run_in_their_rhythm(world: World) -> None:
    jobs = [balanced(world, f"job{n}", "3h") for n in range(10)]
    assert len({slot_key(job.placed_anchor or 0) for job in jobs}) == 10
    world.advance(7 * HOUR)
    for job in jobs:
        assert job.placed_anchor is not None
        first = job.placed_anchor
        planned = [run.scheduled_at for run in world.runs(job.job_id)]
        assert planned == list(range(first, world.now + 10 * SECOND, 3 * HOUR))
        assert all(len(world.starts(run.run_id)) == 1 for run in world.runs(job.job_id))


@pytest.mark.slow
def test_an_interval_below_a_slot_and_one_that_drifts_through_slots_keep_their_exact_rhythm(world: World) -> None:
    for job_id, every, step in (("fast", "40s", 40 * SECOND), ("drifting", "25m", 25 * MINUTE)):
        job = balanced(world, job_id, every)
        world.advance(HOUR)
        at = [run.scheduled_at for run in world.runs(job_id) if run.scheduled_at <= world.now]
        assert at[0] == job.placed_anchor
        assert {later - earlier for earlier, later in pairwise(at)} == {step}


def test_until_a_leader_has_placed_it_a_job_has_no_occurrence(world: World) -> None:
    world.job("a", {"kind": "interval", "every": "10s", "balanced": True})
    row = world.store.tables.jobs["a"]
    assert row.versions[0].placed_at == world.now
    assert world.runs("a") == []
    assert row.current.placed_anchor is not None
    assert row.current.placed_anchor >= world.now + world.settings.pre_schedule_interval


def test_a_place_makes_no_version(world: World) -> None:
    assert balanced(world, "a", "1h").version == 1
    assert len(world.store.tables.jobs["a"].versions) == 1


@pytest.mark.slow
def test_an_edit_that_leaves_the_interval_alone_keeps_the_place(world: World) -> None:
    before = balanced(world, "a", "1h")
    after = balanced(world, "a", "1h", title="another", priority=2)
    assert (after.version, after.placed_anchor, after.placed_at) == (2, before.placed_anchor, before.placed_at)
    world.advance(2 * HOUR)
    assert {run.scheduled_at for run in world.runs("a")} == set(range(before.placed_anchor or 0, world.now, HOUR))


@pytest.mark.slow
def test_a_changed_interval_is_placed_afresh_and_nothing_of_the_old_rhythm_is_left(world: World) -> None:
    before = balanced(world, "a", "1h")
    for n in range(4):
        balanced(world, f"other{n}", "1h")
    world.advance(HOUR + MINUTE)
    after = balanced(world, "a", "2h")
    assert after.placed_at == world.now
    assert after.placed_anchor != before.placed_anchor
    edited_at = world.now
    world.advance(5 * HOUR)
    later = [run.scheduled_at for run in world.runs("a") if run.scheduled_at > edited_at + 10 * SECOND]
    assert later == list(range(after.placed_anchor or 0, world.now, 2 * HOUR))


def test_a_resumed_job_is_placed_afresh_a_paused_one_weighs_nothing(world: World) -> None:
    before = balanced(world, "a", "1h")
    world.pause("a")
    assert distribution(world)["total_jobs"] == 0
    assert world.store.jobs.get("a").placed_anchor == before.placed_anchor
    world.advance(10 * MINUTE)
    world.resume("a")
    after = world.store.jobs.get("a")
    assert after.placed_at == world.now
    assert distribution(world)["total_jobs"] == 1


@pytest.mark.slow
def test_a_pause_with_an_end_keeps_the_place(world: World) -> None:
    before = balanced(world, "a", "1h")
    world.pause("a", until=world.now + 3 * HOUR)
    world.advance(5 * HOUR)
    at = [run.scheduled_at for run in world.runs("a")]
    assert at
    assert all((one - (before.placed_anchor or 0)) % HOUR == 0 and one >= MONDAY + 3 * HOUR for one in at)


def test_a_deleted_job_leaves_a_gap_and_the_others_stay(world: World) -> None:
    for n in range(4):
        balanced(world, f"job{n}", "1h")
    before = anchors(world)
    world.delete("job1")
    assert distribution(world)["total_jobs"] == 3
    assert {name: at for name, at in anchors(world).items() if name != "job1"} == {
        name: at for name, at in before.items() if name != "job1"
    }
    assert slot_key(balanced(world, "job1", "1h").placed_anchor or 0) % 4 == slot_key(before["job1"] or 0) % 4


def test_after_a_fail_over_places_and_map_are_what_they_were(world: World) -> None:
    for n, every in enumerate(["1h", "25m", "6h", "1d", "40s"]):
        balanced(world, f"job{n}", every)
    world.job("cron", {"kind": "cron", "expr": "*/20 * * * *"})
    before, places = distribution(world), anchors(world)
    world.lead()
    assert (distribution(world), anchors(world)) == (before, places)


@pytest.mark.slow
def test_a_job_that_was_saved_while_nobody_led_is_placed_by_the_next_leader(world: World) -> None:
    balanced(world, "a", "1h")
    row = world.store.tables.jobs["a"]
    row.versions[-1] = world.store.jobs.get("a")
    put_back(world, "a", MONDAY)
    world.store.jobs.set_paused("a", True, None, None)
    world.store.jobs.set_paused("a", False, None, None)
    assert world.store.jobs.get("a").placed_anchor is None
    world.lead(wait=20 * MINUTE)
    placed_at = world.store.jobs.get("a").placed_at
    assert placed_at == world.now
    world.advance(2 * HOUR)
    assert len([run for run in world.runs("a") if run.state.value == "completed"]) in (1, 2)


def test_preview_and_execution_are_one_plan_and_the_distribution_afterwards_is_as_projected(world: World) -> None:
    clustered(world)
    plan = asks(world, "preview", "p1")
    assert plan["would_move"] > 5
    assert plan["projected_score"] > plan["current_score"]
    done = asks(world, "rebalance", plan["plan_id"], known=True)
    assert [(m["job_id"], m["current_time"], m["proposed_time"]) for m in plan["preview"]] == [
        (m["job_id"], m["old_time"], m["new_time"]) for m in done["moved"]
    ]
    assert done["skipped"] == plan["skipped"]
    assert done["new_distribution_score"] == plan["projected_score"] == distribution(world)["distribution_score"]
    assert [slot["job_count"] for slot in distribution(world)["slot_distribution"]] == plan["projected_slots"]


@pytest.mark.slow
def test_a_moved_job_runs_once_at_its_new_time_and_not_at_its_old_one(world: World) -> None:
    clustered(world)
    moves = {m["job_id"]: m for m in asks(world, "rebalance", "p1")["moved"]}
    world.advance(12 * HOUR)
    for job_id, move in moves.items():
        at = [format_instant(run.scheduled_at) for run in world.runs(job_id)]
        assert at[0] == move["new_time"]
        assert at[1] == format_instant(parse_instant(move["new_time"]) + 6 * HOUR)
        assert move["old_time"] not in at


def test_a_job_that_was_edited_since_the_preview_is_left_alone_and_said_so(world: World) -> None:
    clustered(world)
    plan = asks(world, "preview", "p1")
    edited = plan["preview"][0]["job_id"]
    before = balanced(world, edited, "6h", title="edited")
    done = asks(world, "rebalance", plan["plan_id"], known=True)
    assert {"job_id": edited, "reason": "changed"} in done["skipped"]
    assert edited not in {move["job_id"] for move in done["moved"]}
    assert world.store.jobs.get(edited).placed_anchor == before.placed_anchor
    assert len(done["moved"]) == plan["would_move"] - 1
    assert done["new_distribution_score"] == distribution(world)["distribution_score"]


def test_a_plan_is_forgotten_after_ten_minutes_and_by_another_leader(world: World) -> None:
    clustered(world)
    plan = asks(world, "preview", "p1")
    world.advance(11 * MINUTE)
    assert "new preview" in asks(world, "rebalance", plan["plan_id"], known=True)["error"]
    plan = asks(world, "preview", "p2")
    world.advance(15 * SECOND)
    world.lead()
    assert "new preview" in asks(world, "rebalance", plan["plan_id"], known=True)["error"]


def test_a_plan_is_carried_out_once_and_only_the_newest_eight_are_kept(world: World) -> None:
    clustered(world)
    plans = [asks(world, "preview", f"p{number}")["plan_id"] for number in range(9)]
    assert len(set(plans)) == 9
    assert list(world.state.placing.plans) == plans[1:]
    assert asks(world, "rebalance", plans[8], known=True)["moved"]
    for plan_id in (plans[0], plans[8]):
        assert "new preview" in asks(world, "rebalance", plan_id, known=True)["error"]


def test_a_rebalance_is_undone_once_and_recorded_with_who_asked_for_it(world: World) -> None:
    clustered(world)
    before = anchors(world)
    moved = asks(world, "rebalance", "p1")["moved"]
    assert anchors(world) != before
    world.lead()
    before_undo = rebalances(world)
    undone = asks(world, "undo", "u1")
    assert rebalances(world) == before_undo  # an undo is none
    assert [(m["job_id"], m["old_time"], m["new_time"]) for m in undone["moved"]] == [
        (m["job_id"], m["new_time"], m["old_time"]) for m in moved
    ]
    assert anchors(world) == before
    assert "no rebalance to undo" in asks(world, "undo", "u2")["error"]
    records = [(entry.actor, entry.role, entry.action, entry.subject) for entry in world.store.tables.audit]
    assert records == [("ann", "operator", "scheduler.rebalance", "p1"), ("ann", "operator", "scheduler.undo", "u1")]
    assert world.store.tables.audit[0].after["moved"][0]["job_id"] == moved[0]["job_id"]


def test_right_after_a_rebalance_nothing_may_move_again(world: World) -> None:
    clustered(world)
    moved = {move["job_id"] for move in asks(world, "rebalance", "p1")["moved"]}
    again = asks(world, "preview", "p2")
    assert again["would_move"] == 0
    assert {skip["job_id"] for skip in again["skipped"] if skip["reason"] == "placement_cooldown"} == moved


def test_a_request_that_a_new_leader_reads_again_moves_nothing_a_second_time(world: World) -> None:
    clustered(world)
    asks(world, "rebalance", "p1")
    after = anchors(world)
    world.lead()
    asks(world, "rebalance", "p1")
    assert anchors(world) == after
    assert len(world.store.tables.audit) == 1


def test_a_pinned_job_is_placed_once_and_never_moved(world: World) -> None:
    clustered(world)
    job = balanced(world, "job03", "6h", pinned=True)
    plan = asks(world, "preview", "p1")
    assert {"job_id": "job03", "reason": "pinned"} in plan["skipped"]
    asks(world, "rebalance", plan["plan_id"], known=True)
    assert world.store.jobs.get("job03").placed_anchor == job.placed_anchor


def test_a_job_with_a_run_that_is_out_is_not_moved(world: World) -> None:
    clustered(world)
    world.workers.listening = False
    world.advance(HOUR)
    ((run, _),) = world.store.runs.enqueue([_manual(world.store.jobs.get("job05"), world.now)])
    world.tell("run_enqueued", run_ids=[run.run_id])
    world.reconcile()
    assert {"job_id": "job05", "reason": "job_running"} in asks(world, "preview", "p1")["skipped"]


def _manual(job: Job, at: Instant) -> NewRun:
    run_id = manual_run_id(job.job_id, "1")
    return NewRun(run_id, RunKind.MANUAL, job.task, at, at, job_id=job.job_id, job_version=job.version)


def test_the_figures_of_placement_are_told(world: World) -> None:
    clustered(world, 3)
    balanced(world, "new", "1d")
    balanced(world, "new", "2d")
    asks(world, "rebalance", "p1")
    world.advance(MINUTE + SECOND)
    told = world.meter.exposition()
    for line in (
        'scheduler_placements_total{type="new"} 4.0',
        'scheduler_placements_total{type="reschedule"} 1.0',
        'scheduler_placements_total{type="rebalance"}',
        "scheduler_placement_duration_seconds_count 5.0",
        "scheduler_rebalance_total 1.0",
        "scheduler_rebalance_jobs_moved ",
        "scheduler_rebalance_jobs_skipped 1.0",
        "scheduler_distribution_score ",
        'scheduler_slot_job_count{hour="23"}',
        "scheduler_peak_hour_job_count ",
    ):
        assert line in told
    world.meter.standing_by()
    told = world.meter.exposition()
    assert "scheduler_distribution_score 0.0" in told
    assert "scheduler_peak_hour_job_count 0.0" in told
    assert "scheduler_slot_job_count{" not in told


def test_a_job_that_is_edited_while_its_place_is_looked_for_gets_one_for_what_it_is_now(world: World) -> None:
    world.hold_balancer = True
    schedule = {"kind": "interval", "every": "2h", "balanced": True}
    world.job("a", schedule)
    world.job("a", schedule, title="edited")
    world.release_balancer()
    world.advance(5 * SECOND)
    stored, led = world.store.jobs.get("a"), world.state.jobs["a"].current
    assert (stored.version, led.version) == (2, 2)
    assert stored.placed_anchor is not None
    assert led.placed_anchor == stored.placed_anchor


@pytest.mark.slow
def test_a_place_that_comes_too_late_to_be_planned_is_looked_for_again(world: World) -> None:
    """The balancer may be busy for longer than a place lies ahead: what is behind the cursor is not taken."""
    world.hold_balancer = True
    world.job("a", {"kind": "interval", "every": "2h", "balanced": True})
    world.advance(20 * MINUTE)
    world.release_balancer()
    job = world.store.jobs.get("a")
    assert job.placed_anchor is not None
    assert job.placed_anchor > world.now
    world.advance(2 * HOUR)
    assert world.runs("a")[0].scheduled_at == job.placed_anchor


def test_places_are_whole_seconds_though_the_clock_is_not(world: World) -> None:
    """An occurrence's name is shorter, and nobody wants the microseconds."""
    assert world.now % SECOND
    for n, every in enumerate(["1s", "7s", "10s", "40s", "25m", "1h", "1d"]):
        assert (balanced(world, f"job{n}", every).placed_anchor or 0) % SECOND == 0


def test_a_place_that_was_found_for_a_job_without_one_is_not_given_to_a_job_that_has_one(world: World) -> None:
    job = balanced(world, "a", "2h")
    assert job.placed_anchor is not None
    found = Placement("a", job.version, None, job.placed_anchor + MINUTE)
    world.state, commands = iterate(world.state, [PlacesFound((found,), world.now)], world.now)
    assert world.state.jobs["a"].current.placed_anchor == job.placed_anchor
    assert not [one for one in commands if isinstance(one, PlaceJobs)]


def test_a_move_that_the_database_refused_is_not_known_as_one(world: World) -> None:
    """What is known would be planned, until the job is read again."""
    clustered(world, 3)
    before = anchors(world)
    plan = RebalancePlan("p", "rebalance", 0, world.now, (), (), (), ())
    asked = RebalanceAsked("rebalance", "p", "p", False, "ann", "operator")
    moves = tuple(
        Placement(job_id, 1, before[job_id], MONDAY + 4 * HOUR, cause="rebalance") for job_id in ("job00", "job01")
    )
    done = JobsPlaced(PlaceJobs(moves, world.now, RebalanceOrder(plan, asked)), frozenset({"job00"}))
    world.state, commands = iterate(world.state, [done], world.now)
    known = {job_id: world.state.jobs[job_id].current.placed_anchor for job_id in before}
    assert known == {**before, "job01": MONDAY + 4 * HOUR}
    assert [one.job_ids for one in commands if isinstance(one, ReadJobs)] == [("job00",)]
    assert [[job.job_id for job in one.jobs] for one in commands if isinstance(one, FollowJobs)] == [["job01"]]


def test_a_request_that_is_read_once_more_is_not_carried_out_twice(world: World) -> None:
    """The inbox is read from its start when an epoch of Redis is accepted."""
    asked = RebalanceAsked("preview", "p", "p", False, "ann", "operator")
    for again, planned in ((False, 1), (True, 0)):
        read = InboxRead((asked, Query("queue_depth", None, "q")), "1-0", again=again)
        world.state, commands = iterate(world.state, [read], world.now)
        assert len([one for one in commands if isinstance(one, PlanRebalance)]) == planned
        assert len([one for one in commands if isinstance(one, Reply)]) == planned
