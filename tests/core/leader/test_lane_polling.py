"""Queues in which more runs wait than a poll brings: a flood hides nobody, and memory holds a bounded part of it."""

from typing import Any

import pytest

from itinerary.protocol.identity import split_task_id
from itinerary.protocol.instants import HOUR, MINUTE, SECOND
from itinerary.protocol.limits import LimitUse, lane_of
from scheduler_service.core.leader.commands import DispatchRuns
from scheduler_service.core.leader.lane_reads import HeadsRead, LanePage, LanesRead, ReadHeads, ReadLanes
from scheduler_service.core.leader.parts.full_queues import FullQueues
from scheduler_service.core.leader.poll_state import ReadDue
from scheduler_service.core.leader.results import Woken
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.limits import Bounds, Limit, Rate
from scheduler_service.core.model import ActiveRun, NewRun, Overlap, RunKind
from scheduler_service.core.run_state import FINAL, RunState
from tests.support.world import World

PAGE = 16
ACME = 'limits:[["tenant","acme"]]'


def flooded(number: int, lane: str = ACME, *, window: int = 1) -> World:
    """A leader that nobody told of the runs that wait in one lane; no worker starts what it dispatches."""
    world = World(settings=CoreSettings(due_page=PAGE, publish_window=window))
    world.workers.slots = 0
    enqueue(world, *(lane for _ in range(number)))
    world.advance(6 * SECOND)
    return world


def enqueue(world: World, *lanes: str, **fields: Any) -> list[str]:
    """Runs without a job, one of each of these lanes."""
    first = len(world.store.tables.runs)
    runs = [
        NewRun(f"adhoc_{first + number:06}", RunKind.ADHOC, "pkg.task", world.now, world.now, lane=lane, **fields)
        for number, lane in enumerate(lanes)
    ]
    world.store.runs.enqueue(runs)
    return [run.run_id for run in runs]


def held(world: World) -> int:
    return world.state.runs.requested.in_queue("default")


def knows(world: World, run_id: str) -> bool:
    return world.state.runs.get(run_id) is not None


def started(world: World) -> list[str]:
    return [split_task_id(attempt)[0] for _, attempt in world.workers.started]


def test_of_a_flood_in_one_lane_memory_holds_a_few_pages() -> None:
    world = flooded(20 * PAGE)
    assert PAGE < held(world) <= 7 * PAGE
    world.advance(MINUTE)
    assert held(world) <= 7 * PAGE


@pytest.mark.parametrize("lane", ["", "key:other", 'limits:[["tenant","zeta"]]'])
def test_a_run_behind_a_flood_of_another_lane_is_found_with_a_wakeup(lane: str) -> None:
    world = flooded(20 * PAGE)
    (other,) = enqueue(world, lane)
    world.mailbox.put(Woken())
    world.advance(SECOND)
    assert knows(world, other)


@pytest.mark.parametrize("lane", ["", "key:other"])
def test_a_run_behind_a_flood_is_found_by_the_next_leader_at_once(lane: str) -> None:
    world = flooded(20 * PAGE)
    (other,) = enqueue(world, lane)
    world.lead()
    assert knows(world, other)
    assert held(world) <= 7 * PAGE


def test_a_new_leader_reads_a_few_runs_first_and_the_rest_while_those_are_dispatched() -> None:
    world = flooded(0)
    lanes = [f"key:{number}" for number in range(5)]
    enqueue(world, *(lane for lane in lanes for _ in range(6 * PAGE)))
    world.commands.clear()
    world.lead()
    dues = [one.limit for one in world.commands if isinstance(one, ReadDue)]
    heads = [one.limit for one in world.commands if isinstance(one, ReadHeads)]
    order = [type(one) for one in world.commands if isinstance(one, ReadDue | ReadHeads | DispatchRuns)]
    assert dues == [PAGE // 8], "the first page is an eighth"
    assert heads[0] == 1, "of each lane a sixty-fourth of a page, one at least"
    assert order.index(DispatchRuns) < order.index(ReadHeads), "what was read is dispatched before more is read"
    assert heads[1:] == [] or min(heads[1:]) > 1
    world.advance(SECOND)
    assert [one.limit for one in world.commands if isinstance(one, ReadDue)][1] == PAGE
    assert {lane for lane in lanes if world.state.runs.requested.in_lane("default", lane)} == set(lanes)


def test_a_whole_flood_is_dispatched_in_order_page_by_page() -> None:
    world = flooded(20 * PAGE, window=20)
    world.workers.slots = None
    world.advance(MINUTE)
    assert {run.state for run in world.store.tables.runs.values()} == {RunState.COMPLETED}
    assert started(world) == [run.run_id for run in sorted(world.store.tables.runs.values(), key=lambda run: run.id)]
    assert not world.state.full_queues, "the queue is empty"
    assert held(world) == 0


@pytest.mark.slow
def test_of_many_lanes_memory_holds_a_few_runs_each() -> None:
    world = flooded(0)
    enqueue(world, *(f"key:{number % 50}" for number in range(400)))
    world.advance(10 * SECOND)
    assert all(world.state.runs.requested.in_lane("default", f"key:{number}") for number in range(50))
    assert held(world) <= 15 * PAGE
    world.workers.slots = 4
    world.advance(MINUTE)
    assert all(run.state in FINAL for run in world.store.tables.runs.values())


def test_a_more_urgent_run_of_the_flooding_lane_is_taken_over_at_the_next_poll() -> None:
    world = flooded(20 * PAGE)
    (urgent,) = enqueue(world, ACME, priority=0)
    world.advance(5 * SECOND)
    assert knows(world, urgent)


def test_a_flood_of_notices_fills_no_memory_and_one_notice_brings_its_run_at_once() -> None:
    world = flooded(0)
    for _ in range(20):
        world.tell("run_enqueued", run_ids=enqueue(world, *(ACME for _ in range(2 * PAGE))))
        world.reconcile()
    assert held(world) <= 8 * PAGE
    (other,) = enqueue(world, "key:other")
    world.tell("run_enqueued", run_ids=[other])
    world.reconcile()
    assert knows(world, other)


@pytest.mark.slow
def test_more_urgent_runs_that_stayed_in_the_database_are_read_before_the_rest_of_their_lane() -> None:
    world = flooded(20 * PAGE)
    urgent = enqueue(world, *(ACME for _ in range(10 * PAGE)), priority=2)
    world.advance(6 * SECOND)
    world.workers.slots = 4
    world.advance(MINUTE)
    assert max(map(started(world).index, urgent)) < len(urgent) + 2 * PAGE


def test_runs_of_a_job_that_wait_for_one_another_hide_no_other_job() -> None:
    world = World(settings=CoreSettings(due_page=PAGE))
    world.workers.behave = lambda attempt: None
    for job_id in ("held", "free"):
        world.every(job_id, "1h")
    job, at = world.store.jobs.get("held"), world.now
    world.store.runs.enqueue([
        NewRun(f"held_manual-{n:04}", RunKind.MANUAL, job.task, at, at, job_id="held", job_version=1,
               overlap=Overlap.QUEUE_ALL, lane="job:held")
        for n in range(20 * PAGE)
    ])  # fmt: skip
    world.advance(6 * SECOND)
    run = NewRun("free_manual", RunKind.MANUAL, job.task, at + 1, at + 1, job_id="free", job_version=1, lane="job:free")
    world.store.runs.enqueue([run])
    world.advance(6 * SECOND)
    assert world.run("free_manual").state is RunState.RUNNING
    assert held(world) <= 7 * PAGE


def test_what_waits_in_a_paused_queue_is_not_read_lane_by_lane() -> None:
    world = flooded(20 * PAGE)
    world.pause_queue()
    world.advance(10 * SECOND)
    assert not world.state.full_queues
    world.commands.clear()
    world.advance(10 * SECOND)
    assert not [command for command in world.commands if isinstance(command, ReadLanes | ReadHeads)]


def test_reads_whose_answers_are_lost_are_asked_again() -> None:
    full, now = FullQueues(), 10**15
    full.note_full("default")
    assert full.begin_lanes("default", now) == ""
    assert full.begin_lanes("default", now + SECOND) is None
    assert full.begin_lanes("default", now + 2 * SECOND) == ""
    full.begin_heads(now)
    assert full.heads_awaited(now + SECOND)
    assert not full.heads_awaited(now + 2 * SECOND)


def test_a_page_that_began_anew_meanwhile_does_not_go_on_from_its_old_place() -> None:
    full, page = FullQueues(), LanePage("default", ACME)
    full.note_full("default")
    full.begin_lanes("default", 1)
    full.lanes_read(LanesRead("default", (ACME,), None), 2, ())
    first = page._replace(after=(5, 10, 3))
    full.heads_read(HeadsRead((page,), (), (first,)))
    assert full.next_pages("default", 9) == [first]
    urgent = ActiveRun("a", RunKind.ADHOC, None, None, "default", 2, 50, 50, RunState.SCHEDULED, lane=ACME)
    full.left(urgent)
    full.heads_read(HeadsRead((first,), (), (page._replace(after=(5, 99, 3)),)))
    anew = page._replace(after=(2, 50, 0))
    assert full.next_pages("default", 9) == [anew]
    full.left(urgent._replace(priority=9))
    full.heads_read(HeadsRead((anew,), (), ()))
    assert full.next_pages("default", 9) == []


def beat(world: World, seconds: int) -> None:
    """Time passes in which the worker goes on reporting."""
    for _ in range(seconds):
        world.workers.beat()
        world.advance(SECOND)


@pytest.mark.slow
def test_lanes_that_wait_for_limits_make_room_in_memory_for_others() -> None:
    world = flooded(0, window=10_000)
    world.workers.slots = 1_000
    world.store.tables.limits["tenant"] = Limit("tenant", Bounds(rate=Rate(1, HOUR)), per_key=True)
    world.store.tables.control += 1
    tenants = 25 * PAGE
    uses = [(LimitUse("tenant", f"t{number:03}"),) for number in range(tenants)]
    for use in uses:
        enqueue(world, *[lane_of(use)] * 3, limits=use)
    most = 0
    for _ in range(30):
        beat(world, 1)
        most = max(most, held(world))
    ended = [run for run in world.store.tables.runs.values() if run.state is RunState.COMPLETED]
    assert len(ended) == tenants, "each tenant has had its one start"
    assert most <= 22 * PAGE
    (other,) = enqueue(world, "key:other")
    world.mailbox.put(Woken())
    beat(world, 3)
    assert world.run(other).state is RunState.COMPLETED
