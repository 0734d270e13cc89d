"""A Redis that takes long to answer delays each message by one answer, however much else the leader asks it."""

from collections.abc import Callable
from typing import Any

from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import MILLISECOND, SECOND, Duration, Instant
from scheduler_service.core.leader.commands import BrokerCommand, Command, Publish
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.loops.broker_thread import BrokerThread
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.loops.publisher import Publisher
from tests.support.world import World

SLOTS = 4
STEP = 100 * MILLISECOND


class Counting:
    """Passes every call on to `part` and counts it as one round trip."""

    def __init__(self, part: Any, lane: "Lane") -> None:
        self._part, self._lane = part, lane

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self._lane.trips += 1
            return getattr(self._part, name)(*args)

        return call


class Lane:
    """A thread that takes all that is queued at once, and is busy for a while with each call to Redis."""

    def __init__(self) -> None:
        self.carry_out: Callable[[list[Any]], None]
        self.queue: list[Command] = []
        self.in_hand: list[Command] = []
        self.mailbox = Mailbox()
        self.trips = 0
        self.free_at: Instant = 0

    def turn(self, world: "SlowWorld") -> None:
        if world.now < self.free_at:
            return None
        if self.in_hand:
            # Its first round trip is over; its answers come with the last.
            commands, self.in_hand, self.trips = self.in_hand, [], 0
            self.carry_out(commands)
            self.free_at += max(0, self.trips - 1) * world.trip
            return self.turn(world)
        for answer in self.mailbox.drain(0):
            world.mailbox.put(answer)
        if self.queue:
            self.in_hand, self.queue = self.queue, []
            self.free_at = world.now + world.trip
        return None


class SlowWorld(World):
    """Once it is slow, each call to Redis takes `trip`, and the inbox is read as often."""

    trip: Duration = 0
    _read_at: Instant = 0

    def slow_down(self, trip: Duration) -> None:
        self.trip = trip
        self.publishing, self.asking = Lane(), Lane()
        publisher: Any = Counting(self.dispatcher, self.publishing)
        self.publishing.carry_out = Publisher(
            publisher, self.meter, self.renewer, self.publishing.mailbox, self._no_stop, self._broke
        ).carry_out
        parts: list[Any] = [Counting(part, self.asking) for part in (self.dispatcher, self.claims, self.inbox)]
        self.asking.carry_out = BrokerThread(
            *parts, self.meter, self.renewer, self.asking.mailbox, self._broke
        ).carry_out

    def carry_out(self, commands: list[Command]) -> None:
        if self.trip:
            self.publishing.queue += [one for one in commands if isinstance(one, Publish)]
            self.asking.queue += [one for one in commands if isinstance(one, BrokerCommand)]
            commands = [one for one in commands if not isinstance(one, Publish | BrokerCommand)]
        super().carry_out(commands)

    def reconcile(self) -> None:
        if self.trip:
            self.publishing.turn(self)
            self.asking.turn(self)
        super().reconcile()

    def _read_inbox(self) -> None:
        if self.now >= self._read_at:
            super()._read_inbox()
            self._read_at = self.now + self.trip

    def _quiet(self) -> bool:
        return self.now < self._read_at or super()._quiet()


def seconds_for(number: int, trip: Duration, window: int | None, task_seconds: float = 0.01) -> float:
    """How long so many short runs take on workers of four places, beside a job that ticks."""
    world = SlowWorld(settings=CoreSettings(publish_window=window))
    world.workers.slots, world.workers.seconds = SLOTS, task_seconds
    world.every("tick", "1s", overlap="allow")
    world.advance(3 * SECOND)
    world.workers.beat()
    world.reconcile()
    world.slow_down(trip)
    ids = [adhoc_run_id(f"{n:06}") for n in range(number)]
    due = {"scheduled_at": world.now, "due_at": world.now}
    world.store.runs.enqueue([NewRun(run_id, RunKind.ADHOC, "demo.task", **due) for run_id in ids])
    world.tell("run_enqueued", run_ids=ids)
    began, left = world.now, set(ids)
    while left and world.now - began < 200 * SECOND:
        world.advance(STEP)
        left = {run_id for run_id in left if world.run(run_id).finished_at is None}
    return (world.now - began) / SECOND


def test_a_window_that_is_found_opens_within_a_few_answers() -> None:
    """The window is 5, 10, 20, ... and each time an answer, the way of the reports and a tick pass."""
    trip = 600 * MILLISECOND
    assert seconds_for(300, trip, 10_000) < 3
    assert seconds_for(300, trip, None) < 6
