"""One term of leadership in a simulation: each thread of a real leader is a turn here, taken at its own time.

Effects are carried out one by one, by the real effect code; between any two of them the process may die, freeze or be
overtaken.
"""

import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from itinerary.protocol.errors import BrokerUnavailable, LeaseLost, StoreUnavailable
from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import MILLISECOND, SECOND, Instant
from scheduler_service.core.balancing.placements import BalancerCommand
from scheduler_service.core.leader.commands import Apply, BuildIndex, Command, Publish, RereadInbox, StoreCommand
from scheduler_service.core.leader.iteration import iterate, next_wake
from scheduler_service.core.leader.messages import decode
from scheduler_service.core.leader.past_starts import ClockStepped
from scheduler_service.core.leader.poll_state import NEVER
from scheduler_service.core.leader.rebuilding import IndexBuilder
from scheduler_service.core.leader.recalling import recall
from scheduler_service.core.leader.results import InboxRead, Shutdown, UnplannedJobs
from scheduler_service.core.leader.step import Step
from scheduler_service.core.leader.taking_over import take_over
from scheduler_service.core.limits import longest_windows
from scheduler_service.core.model import Lease
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.loops.broker_thread import BrokerThread
from scheduler_service.loops.commit_order import CommitOrder
from scheduler_service.loops.inbox_reader import BEGINNING, parts
from scheduler_service.loops.lease_renewer import LeaseRenewer, renewed_every
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.loops.present_controls import present_controls
from scheduler_service.loops.publisher import Publisher
from scheduler_service.loops.store_writer import StoreWriter
from scheduler_service.loops.write_groups import DispatchCommand
from scheduler_service.metrics.leader import PrometheusMeter
from tests.support.simulated_process import Process

if TYPE_CHECKING:
    from tests.support.simulation import Simulation

METER = PrometheusMeter()


class _Renewer(LeaseRenewer):
    """A frozen process that wakes inside an effect does not look at its lease again: `blind` is that moment."""

    blind = False

    def trusted(self) -> bool:
        return self.blind or super().trusted()


class _NoWait(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        return False


class _Unsure:
    """The leader's store, whose connection breaks now and then: before or after the commit, nobody can tell."""

    def __init__(self, leader: "SimLeader") -> None:
        self._leader = leader

    def __getattr__(self, name: str) -> Callable[..., Any]:
        simulation = self._leader.simulation
        wanted = getattr(simulation.store.leader, name)

        def call(*args: Any, **more: Any) -> Any:
            chance = simulation.random.random()
            if chance < simulation.unsure / 2:
                simulation.note(f"{self._leader.name}: connection broke before {name}")
                raise StoreUnavailable("broke before")
            answer = wanted(*args, **more)
            if name == "dispatch_runs":
                simulation.pauses.dispatched(answer.dispatched, args[2])
                simulation.freezes.dispatched(answer.dispatched, args[2])
                simulation.limits.dispatched(answer.dispatched)
            if chance < simulation.unsure:
                simulation.note(f"{self._leader.name}: connection broke after {name}")
                raise StoreUnavailable("broke after")
            return answer

        return call


class _Lane:
    """One of the threads that write: what it still has to do, and how many of them are committed and not told."""

    def __init__(self, make: Callable[..., StoreWriter], *more: Any) -> None:
        self.mailbox = Mailbox()
        self.syncer = make(self.mailbox, *more)
        self.queue: deque[tuple[int, Any]] = deque()
        self.done = self.answers = 0

    @property
    def backlog(self) -> int:
        return len(self.queue) + self.answers


class SimLeader(Process):
    """One term of leadership with all its threads."""

    def __init__(self, simulation: "Simulation", lease: Lease) -> None:
        super().__init__(simulation, f"leader {lease.term}")
        store = simulation.store.leader
        self.mailbox = Mailbox()
        self.renewer = _Renewer(
            simulation.store.leases, lease, simulation.t, simulation.ttl, lambda: None, lambda: simulation.t
        )
        cursor = store.cursor(lease)
        if stepped := simulation.clock_watch.stepped(simulation.t, lease.now):
            store.shift_starts(lease, stepped)
        controls = present_controls(store, cursor)
        self._store: Any = _Unsure(self)
        no_wait = _NoWait()
        self._writer, self._mover = (
            _Lane(partial(StoreWriter, self._store, self.renewer), no_wait, self._broke) for _ in range(2)
        )
        self._publisher = Publisher(simulation.dispatcher, METER, self.renewer, self.mailbox, no_wait, self._broke)
        self._broker = BrokerThread(
            simulation.dispatcher, simulation.claims, simulation.inbox, METER, self.renewer, self.mailbox, self._broke
        )
        self._broker.thread.has_more = lambda: bool(self._brokers) and simulation.random.random() < 0.5  # type: ignore[method-assign]
        self._order = CommitOrder()
        self._brokers: deque[Any] = deque()
        self._publishes: deque[Publish] = deque()
        self._builds: deque[BuildIndex] = deque()
        self._index = IndexBuilder()
        self._position = cursor.inbox_position
        self._rereading, self._read_to = False, BEGINNING
        self._listened = NEVER
        self._asked_at: Instant | None = None
        self._waits_since: Instant | None = None
        self.stopping = False
        self._commands_left: int | None = None
        jobs, runs = store.job_histories(cursor.materialised_until), store.active_runs()
        self.state, commands = take_over(
            simulation.settings, lease.term, cursor, jobs, runs, self.renewer.now(), controls,
            store.starts(longest_windows(controls.limits.values())),
            simulation.t,
        )  # fmt: skip
        simulation.note(f"{self.name} takes over: cursor {cursor}, {len(runs)} runs, {len(jobs)} jobs")
        self._submit(commands)
        self.kick("loop", 0)
        self.kick("keep", renewed_every(simulation.ttl))
        self.kick("watch", 2 * SECOND)
        self.kick("read", 0)

    def stop(self) -> None:
        """SIGTERM: finish what is in hand, then resign."""
        self.simulation.note(f"{self.name} is told to stop")
        self.stopping = True
        self.mailbox.put(Shutdown())
        self.kick("loop", 0)

    def recall_some(self, dice: random.Random) -> None:
        """Some of what lies in the queues is to wait in the database again."""
        now = self.renewer.now()
        if self.dead or self.stopping or self.frozen_until > self.simulation.t or not self.renewer.trusted():
            return
        step = Step(now)
        lying = [run.run_id for run in self.state.runs if run.state is RunState.PENDING and dice.random() < 0.7]
        if recall(self.state, step, lying, "recalled: trouble"):
            self.simulation.note(f"{self.name} recalls of {lying}")
            self._submit(step.finish(self.state))

    def die_after(self, commands: int) -> None:
        """Die between two effects, the last one carried out and nobody told of it."""
        self._commands_left = commands

    def _dies_now(self) -> bool:
        if self._commands_left is not None:
            self._commands_left -= 1
            if self._commands_left <= 0:
                self.die("killed between two effects")
        return self.dead

    def turn_loop(self) -> None:
        if self._waits_for_a_confirmation("loop"):
            return None
        messages = self.mailbox.drain(0)
        if stepped := self.renewer.take_step():
            messages.append(ClockStepped(stepped))
        now = self.renewer.now()
        self.state, commands = iterate(self.state, [*messages, self._listened], now, self.simulation.t)
        self.simulation.note_pass(self.name, messages, commands)
        self.simulation.patience.see(commands, now)
        self._see_lost(commands)
        self._submit(commands)
        lanes = self._writer.backlog or self._mover.backlog
        if self.stopping and not (messages or commands or lanes or self._brokers or self._publishes):
            self.renewer.stop(resign=True)
            return self.die("stopped cleanly")
        return self.kick("loop", max(next_wake(self.state, now) - now, MILLISECOND))

    def _waits_for_a_confirmation(self, turn: str) -> bool:
        """As `LeaseRenewer.check`: a confirmation that is late is waited for, for up to a ttl."""
        if self.renewer.trusted():
            self._waits_since = None
            return False
        if self._waits_since is None:
            self._waits_since = self.simulation.t
        if self.simulation.t - self._waits_since < self.simulation.ttl:
            self.kick(turn, self.simulation.ttl // 20)
        else:
            self.step_down("its lease is not confirmed")
        return True

    def _see_lost(self, commands: Sequence[Command]) -> None:
        for command in commands:
            for change in command.transitions if isinstance(command, Apply) else ():
                if change.event is Event.LOSE:
                    self.simulation.called_lost(task_id(change.run_id, change.attempt))

    def step_down(self, why: str) -> None:
        """What the threads to Redis have in hand by then still goes out; nothing else does."""
        self.renewer.blind = True
        try:
            while self._publishes and self.simulation.random.random() < 0.8 and not self.simulation.redis_away:
                self._publisher.carry_out([self._publishes.popleft()])
            while self._brokers and self.simulation.random.random() < 0.8 and not self.simulation.redis_away:
                self._broker.carry_out([self._brokers.popleft()])
        finally:
            self.die(why)

    def _submit(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, BuildIndex):
                self._builds.append(command)
            elif isinstance(command, BalancerCommand):
                continue  # no job here is balanced, and counting a whole day's load for nothing is slow
            elif isinstance(command, RereadInbox):
                self._position, self._rereading, self._read_to = BEGINNING, True, self._position
            elif isinstance(command, Publish):
                self._publishes.append(command)
            elif isinstance(command, DispatchCommand):
                self._mover.queue.append((self._order.before(command, self._writer.done), command))
            elif isinstance(command, StoreCommand):
                self._order.take(command, self._writer.done)
                self._writer.queue.append((0, command))
            else:
                self._brokers.append(command)
        self._go_on()

    def _go_on(self) -> None:
        latency = self.simulation.latency
        for name, lane in (("store", self._writer), ("move", self._mover)):
            if lane.answers:
                self.kick(f"{name}_told", latency())
            elif any(number <= self._writer.done for number, _ in lane.queue):
                self.kick(name, latency())
        if self._brokers:
            self.kick("broker", latency())
        if self._publishes:
            self.kick("publish", latency())
        if self._builds:
            self.kick("build", latency() * 5)

    def turn_store(self) -> None:
        self._carry_out("store", self._writer, self._writer.syncer.carry_out)

    def turn_move(self) -> None:
        self._carry_out("move", self._mover, self._mover.syncer.dispatch)

    def _carry_out(self, name: str, lane: "_Lane", do: Callable[[list[Any]], None]) -> None:
        """Some of what is queued is committed; the loop hears of it later, when the other lane may have gone on."""
        if self.simulation.database_away:
            return self.kick(name, 200 * MILLISECOND)
        if self._waits_for_a_confirmation(name):
            return None
        free = [order for order in lane.queue if order[0] <= self._writer.done]
        several = 1 if self._commands_left is not None else self.simulation.random.randint(1, len(free))
        lane.answers = several
        for order in free[:several]:
            lane.queue.remove(order)
        try:
            do([command for _, command in free[:several]])
        except LeaseLost as lost:
            return self.step_down(str(lost))
        return None if self._dies_now() else self._go_on()

    def turn_store_told(self) -> None:
        self._tell(self._writer)

    def turn_move_told(self) -> None:
        self._tell(self._mover)

    def _tell(self, lane: "_Lane") -> None:
        for answer in lane.mailbox.drain(0):
            self.mailbox.put(answer)
        lane.done, lane.answers = lane.done + lane.answers, 0
        self._heard()

    def turn_broker(self) -> None:
        if self.simulation.redis_away:
            return self.kick("broker", 200 * MILLISECOND)
        if self._waits_for_a_confirmation("broker"):
            return None
        command = self._brokers.popleft()
        try:
            self._broker.carry_out([command])
        except LeaseLost as lost:
            self._brokers.appendleft(command)
            return self.step_down(str(lost))
        self.simulation.wake_workers()
        return None if self._dies_now() else self._heard()

    def turn_publish(self) -> None:
        """Some of what is queued, as one publish; the other thread may ask before or after it."""
        if self.simulation.redis_away:
            return self.kick("publish", 200 * MILLISECOND)
        if self._waits_for_a_confirmation("publish"):
            return None
        several = 1 if self._commands_left is not None else self.simulation.random.randint(1, len(self._publishes))
        commands = [self._publishes.popleft() for _ in range(several)]
        try:
            self._publisher.carry_out(commands)
        except LeaseLost as lost:
            self._publishes.extendleft(reversed(commands))
            return self.step_down(str(lost))
        self.simulation.wake_workers()
        return None if self._dies_now() else self._heard()

    def turn_build(self) -> None:
        self.mailbox.put(self._index.build(self._builds.popleft()))
        self._heard()

    def turn_read(self) -> None:
        if self.stopping:
            return None
        if self._asked_at is None:
            self._asked_at = self.renewer.now()
        if self.simulation.redis_frozen:
            return self.kick("read", 200 * MILLISECOND)
        asked_at, self._asked_at = self._asked_at, None
        try:
            batch = self.simulation.inbox.read(self._position, self.simulation.random.randint(1, 20), 0)
        except BrokerUnavailable:
            return self.kick("read", 500 * MILLISECOND)
        self._position = batch.position
        if batch.entries or self._rereading:
            for part in parts(batch, self._read_to):
                messages = tuple(decode(fields) for _, fields in part.entries)
                self.mailbox.put(InboxRead(messages, part.position, self._rereading, part.again))
                self._rereading = False
            self._heard()
        if batch.at_end:
            self._listened = self._listened.confirmed(asked_at)
        return self.kick("read", 0 if not batch.at_end else SECOND)

    def turn_watch(self) -> None:
        self.kick("watch", 2 * SECOND)
        if self.simulation.database_away:
            return
        store = self.simulation.store.leader
        if job_ids := store.unplanned_jobs(1000):
            self.mailbox.put(UnplannedJobs(tuple(job_ids)))
            self._heard()

    def turn_keep(self) -> None:
        if self.simulation.database_away:
            if not self.renewer.trusted():
                return self.step_down("its lease is not confirmed")
            return self.kick("keep", self.simulation.ttl // 10)
        try:
            self.renewer.confirm()
        except LeaseLost as lost:
            return self.step_down(str(lost))
        return self.kick("keep", renewed_every(self.simulation.ttl))

    def _heard(self) -> None:
        self.kick("loop", self.simulation.latency())
        self._go_on()

    @staticmethod
    def _broke(cause: BaseException) -> None:
        raise cause
