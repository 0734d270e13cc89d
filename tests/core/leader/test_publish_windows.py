"""`PUBLISH_WINDOW=auto`: little lies in the queues, the workers stay busy, and priority is strict but for that."""

from itertools import count
from typing import Any

import pytest

from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import MILLISECOND, SECOND
from scheduler_service.core.leader.commands import DispatchRuns
from scheduler_service.core.leader.parts.windows import MOST, Windows
from scheduler_service.core.leader.publish_windows import WITHOUT_WORKERS, free_slots
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.run_state import RunState
from tests.support.world import World, attempt_of

AUTO = CoreSettings(publish_window=None)
DAYS = 1e6


def idle_world() -> World:
    """A worker of four places that takes nothing yet."""
    world = World(settings=AUTO)
    world.advance(9 * SECOND)
    world.workers.listening = False
    beat(world)
    return world


def beat(world: World, **more: object) -> None:
    world.workers.beat()
    world.reconcile()


def lying(world: World) -> int:
    return world.dispatcher.depth("default")


NUMBERS = count()


def fill(world: World, number: int, **more: Any) -> list[str]:
    """So many runs in one request."""
    ids = [adhoc_run_id(f"{next(NUMBERS):06}") for _ in range(number)]
    due = {"scheduled_at": world.now, "due_at": world.now}
    world.store.runs.enqueue([NewRun(run_id, RunKind.ADHOC, "demo.task", **due, **more) for run_id in ids])
    world.tell("run_enqueued", run_ids=ids)
    world.reconcile()
    return ids


def test_what_lies_is_a_message_for_each_free_slot_and_one() -> None:
    world = idle_world()
    fill(world, 20)
    assert lying(world) == 4 + 1


def test_running_tasks_take_their_slots() -> None:
    world = idle_world()
    world.workers.behave = lambda attempt: None
    fill(world, 3)
    world.workers.listening = True
    world.reconcile()
    world.workers.listening = False
    beat(world)
    assert free_slots(world.state, "default") == 1
    fill(world, 20)
    # The three starts count for two seconds, then a slot that is free, and one more.
    world.advance(3 * SECOND)
    assert lying(world) == 3 + 1 + 1


def test_long_tasks_leave_one_message_lying_however_many_end() -> None:
    world = idle_world()
    world.workers.listening, world.workers.slots, world.workers.seconds = True, 4, 10
    fill(world, 30)
    for _ in range(8):
        world.advance(4 * SECOND)
        beat(world)
        # What was started in the last two seconds, and one.
        assert lying(world) <= 4 + 1
    assert len(world.workers.started) >= 12


def test_short_tasks_get_what_was_started_in_two_seconds() -> None:
    world = idle_world()
    world.workers.listening = True
    world.workers.seconds = 0.001
    fill(world, 400)
    world.advance(2 * SECOND)
    assert len(world.workers.started) == 400
    world.workers.listening = False
    fill(world, 600)
    assert 400 <= lying(world) <= 420


def test_without_a_known_worker_a_hundred_lie() -> None:
    world = idle_world()
    world.tell("heartbeat", worker="w1", running=[], received=[], concurrency=0, queues=[], leaving=True)
    fill(world, WITHOUT_WORKERS + 20)
    assert lying(world) == WITHOUT_WORKERS + 1


def test_nothing_is_recalled_where_no_worker_would_clear_the_queue() -> None:
    world = idle_world()
    world.tell("heartbeat", worker="w1", running=[], received=[], concurrency=0, queues=[], leaving=True)
    fill(world, 300, priority=9)
    urgent = fill(world, 1, priority=0, start_within=30 * SECOND)
    world.advance(60 * SECOND)
    assert world.run(urgent[0]).state is RunState.MISSED
    assert lying(world) == WITHOUT_WORKERS + 1
    urgent = fill(world, 1, priority=0)
    beat(world)
    world.advance(3 * SECOND)
    assert world.run(urgent[0]).state is RunState.PENDING, "as soon as a worker is there"


def test_what_a_worker_has_received_does_not_lie() -> None:
    world = idle_world()
    first = fill(world, 20)
    received = [world.dispatcher.pop("default") for _ in range(5)]
    assert received == [attempt_of(run_id) for run_id in first[:5]]
    world.workers.waiting = [(attempt, None) for attempt in received if attempt is not None]
    world.workers.alive = False  # holds them, and starts none
    taken, world.workers.waiting = world.workers.waiting, []
    world.tell(
        "heartbeat", worker="w1", running=[], received=[a for a, _ in taken], concurrency=4, queues=["default"],
        recalls=True,
    )  # fmt: skip
    world.reconcile()
    assert lying(world) == 5
    # A worker that lists them no longer may have lost them: they count again.
    world.advance(16 * SECOND)
    assert world.state.unstarted.held == {}


def test_urgent_runs_overtake_all_that_waits() -> None:
    world = idle_world()
    fill(world, 200, priority=9)
    urgent = fill(world, 10, priority=0)
    world.workers.listening = True
    world.reconcile()
    world.advance(SECOND)
    places = [[attempt for _, attempt in world.workers.started].index(attempt_of(run_id)) for run_id in urgent]
    assert max(places) < 40
    assert len(world.workers.started) == 210


def test_what_lies_too_long_while_something_better_waits_is_recalled() -> None:
    world = idle_world()
    low = fill(world, 20, priority=9)
    urgent = fill(world, 3, priority=0)
    for _ in range(4):
        beat(world)
        world.advance(2 * SECOND)
    assert [world.run(run_id).state for run_id in urgent] == [RunState.SCHEDULED] * 3, "what lies may soon be taken"
    for _ in range(2):
        beat(world)
        world.advance(2 * SECOND)
    states = [world.run(run_id).state for run_id in (*urgent, *low)]
    assert states == [RunState.PENDING] * 5 + [RunState.SCHEDULED] * 18
    assert world.run(low[4]).reason == "recalled: runs of a better priority waited"
    world.workers.listening = True
    world.advance(2 * SECOND)
    assert [attempt for _, attempt in world.workers.started][:3] == [attempt_of(run_id) for run_id in urgent]
    assert len(world.workers.started) == 23


def test_equals_are_not_recalled() -> None:
    world = idle_world()
    fill(world, 20)
    for _ in range(6):
        beat(world)
        world.advance(2 * SECOND)
    assert world.state.numbers.last & 0xFFFFFFFF <= 7
    assert lying(world) == 5


def test_a_queue_full_of_others_messages_gets_all_it_may() -> None:
    world = idle_world()
    for _ in range(200):
        world.dispatcher.push_foreign("default")
    fill(world, 300)
    world.advance(6 * SECOND)
    assert lying(world) == 500
    world.advance(11 * SECOND)
    assert world.state.windows.known(world.now) == {"default": 5}


def test_recalled_messages_that_still_lie_there_are_not_others() -> None:
    windows = Windows()
    windows.find("q", 4, 2 * SECOND, 0, is_late=False, is_dry=False)
    for _ in range(50):
        windows.recalled("q")
    for length, expected in ((60, 5), (61, MOST), (5, 5), (11, MOST)):
        windows.seen("q", length, 5, now=0)
        assert windows.known(0) == {"q": expected}
    assert windows.known(10 * SECOND) == {"q": 5}, "what was seen long ago"


def test_a_number_is_the_window_that_it_was() -> None:
    world = World(settings=CoreSettings(publish_window=7))
    world.workers.listening = False
    fill(world, 20)
    assert lying(world) == 7
    assert world.state.windows.known(world.now) == {}


def test_a_window_that_ran_dry_doubles_until_the_starts_are_counted() -> None:
    windows, now = Windows(), 100 * SECOND
    ask = {"is_late": False, "is_dry": True}
    sizes = [windows.find("q", 4, 2 * SECOND, now, **ask)]
    for _ in range(4):
        windows.refilled("q", is_full=True)
        sizes.append(windows.find("q", 4, 2 * SECOND, now, **ask))
    assert sizes == [5, 10, 20, 40, 80]
    assert windows.find("q", 4, 2 * SECOND, now, **ask) == 80, "nothing was refilled since"
    windows.refilled("q", is_full=False)
    assert windows.find("q", 4, 2 * SECOND, now, **ask) == 80, "nothing waited"
    assert windows.find("q", 4, 2 * SECOND, now + 2 * SECOND, **ask) == 5
    for _ in range(20):
        windows.refilled("q", is_full=True)
        windows.find("q", 4, 2 * SECOND, now + 2 * SECOND, **ask)
    assert windows.find("q", 4, 2 * SECOND, now + 2 * SECOND, **ask) == MOST


def test_what_is_on_its_way_to_a_slow_broker_and_back_does_not_lie() -> None:
    windows, now = Windows(), 100 * SECOND
    calm = {"is_late": False, "is_dry": False}
    for second in range(10):
        for _ in range(5):
            windows.started("q", now + second * SECOND)
    now += 10 * SECOND
    assert windows.find("q", 4, 2 * SECOND, now, **calm) == 4 + 2 * 5 + 1
    windows.confirmed("q", 3 * SECOND // 2)
    assert windows.find("q", 4, 2 * SECOND, now, **calm) == 4 + (2 + 3) * 5 + 1
    windows.refilled("q", is_full=True)
    grown = windows.find("q", 4, 2 * SECOND, now, is_late=False, is_dry=True)
    assert grown == 60
    assert windows.find("q", 4, 2 * SECOND, now + 4 * SECOND, **calm) == grown, "its starts cannot be counted yet"
    assert windows.find("q", 4, 2 * SECOND, now + 5 * SECOND, **calm) < grown


@pytest.mark.parametrize(("took", "held"), [(-SECOND, 2 * SECOND), (1_000 * SECOND, 22 * SECOND)])
def test_a_clock_that_is_set_or_an_outage_does_not_hold_a_window_open(took: int, held: int) -> None:
    windows, now = Windows(), 100 * SECOND
    windows.confirmed("q", took)
    windows.refilled("q", is_full=True)
    assert windows.find("q", 4, 2 * SECOND, now, is_late=False, is_dry=True) == 10
    sizes = [windows.find("q", 4, 2 * SECOND, now + held + past, is_late=False, is_dry=False) for past in (-1, 0)]
    assert sizes == [10, 5]


def test_a_window_keeps_its_best_second_for_ten_and_does_not_shrink_while_reports_are_late() -> None:
    windows, now = Windows(), 100 * SECOND
    for part in range(40):
        for _ in range(10 if part < 10 else 1):
            windows.started("q", now + part * 100 * MILLISECOND)
    calm = {"is_late": False, "is_dry": False}
    at = now + 4 * SECOND
    assert windows.find("q", 0, 2 * SECOND, at, **calm) == 100
    assert windows.find("q", 0, 2 * SECOND, at + 6 * SECOND, is_late=False, is_dry=False) >= 90
    before = windows.known(at)["q"]
    assert windows.find("q", 0, 2 * SECOND, at + 9 * SECOND, is_late=True, is_dry=False) == before
    assert windows.find("q", 0, 2 * SECOND, at + 20 * SECOND, **calm) == 1


def test_a_refill_waits_for_an_eighth_a_free_slot_or_a_moment() -> None:
    windows, now = Windows(), 100 * SECOND
    windows.find("q", 799, 2 * SECOND, now, is_late=False, is_dry=False)
    assert not windows.may_refill("q", 0, 1_000, now, is_free=False)
    assert windows.next_at(["q"]) is None
    assert windows.may_refill("q", 100, 1_000, now, is_free=False)
    assert windows.may_refill("q", 3, 3, now, is_free=False), "all that waits"
    assert windows.may_refill("q", 1, 1_000, now, is_free=True)
    assert not windows.may_refill("q", 99, 1_000, now, is_free=False)
    assert windows.next_at(["q"]) == now + 250 * MILLISECOND
    assert windows.next_at([]) is None, "nothing waits: nobody wakes for it"
    assert not windows.may_refill("q", 99, 1_000, now + 249 * MILLISECOND, is_free=False)
    assert windows.may_refill("q", 99, 1_000, now + 250 * MILLISECOND, is_free=False)
    assert windows.next_at(["q"]) is None


def test_small_refills_are_few_transactions() -> None:
    world = idle_world()
    world.workers.listening = True
    world.workers.seconds = 0.001
    fill(world, 2_000)
    world.advance(4 * SECOND)
    assert len(world.workers.started) == 2_000
    moves = [command for command in world.commands if isinstance(command, DispatchRuns)]
    assert len(moves) < 60


def test_queues_that_nobody_uses_are_forgotten() -> None:
    world = idle_world()
    for number in range(5):
        world.enqueue(queue=f"once.{number}")
    assert len(world.state.windows.known(world.now)) == 5
    for run in list(world.state.runs):
        world.cancel(run.run_id)
    world.advance(2 * SECOND)
    assert world.state.windows.known(world.now) == {}


def test_workers_are_known_by_the_queues_that_they_name_last() -> None:
    world = idle_world()
    for queues in (["a", "b"], ["b"], []):
        world.tell("heartbeat", worker="w1", running=[], received=[], concurrency=4, queues=queues, recalls=True)
        world.reconcile()
        for queue in ("default", "a", "b"):
            assert free_slots(world.state, queue) == (4 if queue in queues else None)
