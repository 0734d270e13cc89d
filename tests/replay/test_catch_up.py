"""Under `fire_all` missed occurrences run one behind the other, oldest first, whatever the overlap rule."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from itinerary.protocol.identity import split_task_id
from itinerary.protocol.instants import SECOND, Duration
from scheduler_service.core.run_state import RunState
from tests.support.history import history_of
from tests.support.replay import world_at
from tests.support.world import World

pytestmark = pytest.mark.slow  # half a minute of each second's runs, under each rule
BEHIND = ("skip", "queue", "queue_all", "cancel_running")


def _ran(world: World, job_id: str) -> list[int]:
    """The nominal times in the order of the starts, in seconds."""
    times = {run.run_id: run.scheduled_at for run in world.runs(job_id)}
    started = [split_task_id(attempt)[0] for _, attempt in world.workers.started]
    return [times[run_id] // SECOND for run_id in started if run_id in times]


def _outage(overlap: str, *, dead: Duration, grace: str = "1s", most: int = 100, seconds: float = 0.05) -> World:
    world = world_at("2026-11-30T10:00:00.2Z")
    world.workers.seconds = seconds
    misfire = {"policy": "fire_all", "grace": grace, "max_catch_up": most}
    world.every("often", "1s", overlap=overlap, misfire=misfire)
    world.advance(5 * SECOND)
    world.lead(wait=dead)
    return world


@pytest.mark.parametrize("grace", ["1s", "30s"])
@pytest.mark.parametrize("overlap", BEHIND)
def test_after_half_a_minute_without_a_leader_all_owed_runs_go_in_order(overlap: str, grace: str) -> None:
    world = _outage(overlap, dead=28 * SECOND, grace=grace)
    world.advance(20 * SECOND)
    ran = _ran(world, "often")
    assert ran == sorted(ran)
    first = world.runs("often")[0].scheduled_at // SECOND
    assert set(range(first, first + 31)) <= set(ran)  # newer ones go by their overlap rule
    assert not world.store.tables.missed_ranges or "misfire" not in {
        missed_range.reason.split()[0] for missed_range in world.store.tables.missed_ranges
    }


@pytest.mark.parametrize("overlap", BEHIND)
@settings(max_examples=3, deadline=None)
@given(st.data())
def test_a_takeover_amid_the_catch_up_loses_and_disorders_nothing(overlap: str, data: st.DataObject) -> None:
    dead = data.draw(st.integers(12, 40)) * SECOND
    world = _outage(overlap, dead=dead, most=40, seconds=data.draw(st.sampled_from([0.05, 0.4])))
    owed = [run.run_id for run in world.runs("often") if run.scheduled_at < world.now - 2 * SECOND]
    for _ in range(data.draw(st.integers(1, 3))):
        world.advance(data.draw(st.integers(0, 3_000)) * 1000)
        world.lead(wait=data.draw(st.integers(0, 3)) * SECOND)
    for _ in range(18):
        world.advance(5 * SECOND)
        world.workers.beat()
    states = {world.run(run_id).state for run_id in owed}
    assert states == {RunState.COMPLETED}
    ran = [at for at in _ran(world, "often") if at <= max(world.run(r).scheduled_at for r in owed) // SECOND]
    assert ran == sorted(ran)
    assert len(ran) == len(set(ran))
    assert not [run for run in history_of(world.store, world.now).runs if run.state is RunState.CANCELLED]


@pytest.mark.parametrize("grace", ["1s", "15s"])
@pytest.mark.parametrize("overlap", BEHIND)
def test_nothing_newer_overtakes_what_is_owed_while_the_index_is_built(overlap: str, grace: str) -> None:
    world = world_at("2026-11-30T10:00:00.2Z")
    world.workers.seconds = 0.3
    world.every("often", "1s", overlap=overlap, misfire={"policy": "fire_all", "grace": grace})
    world.advance(5 * SECOND)
    world.hold_builder = True
    world.lead(wait=11 * SECOND)  # some of the rows that were made ahead are late by now, others are not yet
    world.advance(4 * SECOND + 100_000)
    world.release_builder()
    world.advance(30 * SECOND)
    ran = _ran(world, "often")
    assert ran == sorted(ran)
    first = world.runs("often")[0].scheduled_at // SECOND
    assert set(range(first, first + 14)) <= set(ran)


def test_a_cancel_of_one_lets_the_others_go_on_in_order() -> None:
    world = _outage("skip", dead=28 * SECOND, seconds=0.5)
    waiting = [run for run in world.runs("often") if run.state is RunState.SCHEDULED and run.scheduled_at < world.now]
    cancelled = world.cancel(waiting[3].run_id)
    assert cancelled.state is RunState.CANCELLED
    world.advance(40 * SECOND)
    ran = _ran(world, "often")
    assert waiting[3].scheduled_at // SECOND not in ran
    assert {run.scheduled_at // SECOND for run in waiting if run.run_id != cancelled.run_id} <= set(ran)
    assert ran == sorted(ran)


def test_a_missed_range_ends_before_the_first_occurrence_that_was_kept() -> None:
    world = world_at("2026-11-30T10:00:00Z")
    misfire = {"policy": "fire_all", "grace": "5s", "max_catch_up": 20}
    world.every("often", "2s", overlap="queue", misfire=misfire)
    world.workers.behave = lambda attempt: None
    world.advance(3 * SECOND)
    world.lead(wait=90 * SECOND)
    world.advance(20 * SECOND)
    (missed,) = [
        missed_range for missed_range in world.store.tables.missed_ranges if missed_range.reason.startswith("misfire")
    ]
    kept = [run.scheduled_at for run in world.runs("often") if missed.start < run.scheduled_at]
    assert missed.end <= min(kept)
    assert all(
        missed.end <= missed_range.start
        for missed_range in world.store.tables.missed_ranges
        if missed_range is not missed
    )
