"""A whole scheduler under a hand-moved clock: the pure step, the real effect code, fakes for database and Redis.

Nothing here sleeps or starts a thread: time moves when a test says so, and every consequence has happened when the
call returns.
"""

import heapq
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from itinerary.protocol.identity import adhoc_run_id, split_task_id, task_id
from itinerary.protocol.instants import MILLISECOND, MINUTE, SECOND, Duration, Instant, parse_instant
from itinerary.protocol.wire import AGAIN_FIELD, RECALLS_FIELD, entry
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.balancing.placements import BalancerCommand
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.freezes import Freeze, NewFreeze, Scope
from scheduler_service.core.leader.commands import BuildIndex, Command, Publish, RereadInbox, StoreCommand
from scheduler_service.core.leader.iteration import iterate, next_wake
from scheduler_service.core.leader.messages import decode
from scheduler_service.core.leader.past_starts import ClockStepped
from scheduler_service.core.leader.poll_state import NEVER
from scheduler_service.core.leader.rebuilding import IndexBuilder
from scheduler_service.core.leader.recalling import recall
from scheduler_service.core.leader.results import Feedback, InboxRead
from scheduler_service.core.leader.state import CoreSettings, SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.leader.taking_over import take_over
from scheduler_service.core.limits import longest_windows
from scheduler_service.core.model import Job, NewRun, Run, RunKind
from scheduler_service.loops.balancer_thread import BalancerThread
from scheduler_service.loops.broker_thread import BrokerThread
from scheduler_service.loops.clock_steps import ClockWatch
from scheduler_service.loops.inbox_reader import parts
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.loops.present_controls import present_controls
from scheduler_service.loops.publisher import Publisher
from scheduler_service.loops.store_writer import StoreWriter
from scheduler_service.loops.write_groups import DispatchCommand
from scheduler_service.metrics.leader import PrometheusMeter
from scheduler_service.ports.stores import RunFilter
from tests.support.fake_store import FakeStore
from tests.support.fakes_redis import FakeClaims, FakeDispatcher, FakeInbox

MONDAY = parse_instant("2026-11-30T10:00:00Z")
TTL = 5 * SECOND
EVERYTHING = Scope(everything=True)
SOMEBODY = AuditedChange("olga", "operator", "queue.pause")


@dataclass(order=True)
class _Ending:
    at: Instant
    attempt: str
    report: dict[str, Any] = field(compare=False)


@dataclass
class Workers:
    """Simulated workers that take what their queue holds at once; `started` is the truth about starts.

    `behave` says how an attempt ends: (seconds, report type, report body). None: it never ends by itself. `slots`: how
    many they run at once, None for any number.
    """

    world: "World"
    listening: bool = True
    seconds: float = 0.05
    behave: Callable[[str], tuple[str, dict[str, Any]] | None] = lambda attempt: ("succeeded", {"result": "done"})
    started: list[tuple[Instant, str]] = field(default_factory=list)
    running: dict[str, str] = field(default_factory=dict)
    endings: list[_Ending] = field(default_factory=list)
    alive: bool = True
    waiting: list[tuple[str, int | None]] = field(default_factory=list)
    reports: list[tuple[Instant, str, dict[str, Any]]] = field(default_factory=list)
    epoch: str | None = None
    recalls: bool = True
    slots: int | None = None

    def take(self) -> None:
        """Pop what is there, claim it, start it."""
        self.speak()
        waiting, self.waiting = self.waiting, []
        for attempt, seq in waiting:
            self.deliver(attempt, seq)
        while self._has_room() and (run := self.world.dispatcher.pop_run("default")) is not None:
            self.deliver(task_id(run.run_id, run.attempt), run.seq)

    def _has_room(self) -> bool:
        return self.listening and (self.slots is None or len(self.running) < self.slots)

    def speak(self) -> None:
        """In another generation of Redis, say the reports of the last minute again, and what runs."""
        if self.alive and not self.world.claims.away and self.world.claims.query_epoch().name != self.epoch:
            self.epoch = self.world.claims.query_epoch().name
            for at, kind, body in self.reports:
                if at > self.world.now - MINUTE:
                    self.world.inbox.append({**entry(kind, at, body), AGAIN_FIELD: "1"})
            self.beat()

    def deliver(self, attempt: str, seq: int | None = None) -> None:
        """One delivery of this attempt, the first or another."""
        verdict = self.world.claims.ask(attempt, f"token-{len(self.started)}", "default", seq)
        if verdict == "wait":
            self.waiting.append((attempt, seq))
        if verdict != "won":
            return
        self.started.append((self.world.now, attempt))
        self.running[attempt] = "default"
        self.world.tell("started", task_id=attempt, worker="w1")
        how = self.behave(attempt)
        if how is not None:
            at = self.world.now + int(self.seconds * SECOND)
            heapq.heappush(self.endings, _Ending(at, attempt, {"type": how[0], **how[1]}))

    def end(self) -> None:
        """Report what has come to its end."""
        while self.endings and self.endings[0].at <= self.world.now:
            ending = heapq.heappop(self.endings)
            if self.running.pop(ending.attempt, None) is not None:
                body = {**ending.report, "task_id": ending.attempt, "worker": "w1"}
                self.reports.append((self.world.now, body.pop("type"), body))
                self.world.tell(self.reports[-1][1], **body)

    def beat(self) -> None:
        """One heartbeat that lists what runs."""
        listed = {"running": list(self.running), "received": [attempt for attempt, _ in self.waiting]}
        known = {"concurrency": 4, "queues": ["default"], "generation": self.epoch, RECALLS_FIELD: self.recalls}
        self.world.tell("heartbeat", worker="w1", **listed, **known)

    def leave(self) -> None:
        """The farewell of a warm stop."""
        self.world.tell("heartbeat", worker="w1", running=[], received=[], concurrency=0, queues=[], leaving=True)
        self.world.reconcile()

    def die(self) -> None:
        """What ran is gone, and nobody says so."""
        self.running.clear()
        self.endings.clear()
        self.listening = self.alive = False


class World:
    """One leader over fakes; `advance` moves the clock, `reconcile` lets everything due happen.

    `now` is time as it passes; the database's clock may be `database_ahead` of it. While it is `deaf`, no read of the
    inbox comes back.
    """

    def __init__(self, at: Instant = MONDAY + MILLISECOND, settings: CoreSettings = CoreSettings()) -> None:  # noqa: B008
        self.now = at
        self.settings = settings
        self.database_ahead: Duration = 0
        self.store = FakeStore(lambda: self.now + self.database_ahead)
        self.inbox, self.claims, self.dispatcher = FakeInbox(), FakeClaims(), FakeDispatcher()
        self.workers = Workers(self)
        self.clock_watch = ClockWatch()
        self.meter = PrometheusMeter()
        self.made = 0
        self.hold_balancer = False
        self.hold_builder = False
        self.deaf = False
        self.commands: list[Command] = []
        self._held_orders: list[BalancerCommand] = []
        self._held_builds: list[BuildIndex] = []
        self._no_stop = threading.Event()
        self.lead()

    def lead(self, wait: Duration = 0) -> None:
        """A new leader takes over, `wait` after the last one was gone, from what is committed."""
        self.now += wait
        lease = self.store.leases.acquire(0, f"leader-{self.now}", TTL)
        if lease is None:
            self.now += TTL
            stalled = self.store.leases.peek(0)  # the database's clock may have been set back
            lease = self.store.leases.acquire(0, f"leader-{self.now}", TTL, stalled)
        assert lease is not None
        self._index = IndexBuilder()
        self.mailbox = Mailbox()
        self.renewer = LeaseRenewer(self.store.leases, lease, self.now, TTL, lambda: None, clock=lambda: self.now)
        store = self.store.leader
        cursor = store.cursor(lease)
        if stepped := self.clock_watch.stepped(self.now, lease.now):
            store.shift_starts(lease, stepped)
        controls = present_controls(store, cursor)
        stopping = self._no_stop
        since = cursor.materialised_until
        self._store_writer = StoreWriter(store, self.renewer, self.mailbox, stopping, self._broke)
        self._balancer = BalancerThread(self.mailbox, self.meter, self._broke)
        self._publisher = Publisher(self.dispatcher, self.meter, self.renewer, self.mailbox, stopping, self._broke)
        self._broker = BrokerThread(
            self.dispatcher, self.claims, self.inbox, self.meter, self.renewer, self.mailbox, self._broke
        )
        self.state, commands = take_over(
            self.settings,
            lease.term,
            cursor,
            store.job_histories(since),
            store.active_runs(),
            self.renewer.now(),
            controls,
            store.starts(longest_windows(controls.limits.values())),
            self.now,
        )  # fmt: skip
        self._position, self._rereading, self._read_to = cursor.inbox_position, False, "0-0"
        self._listened = NEVER
        self.carry_out(commands)
        self.reconcile()

    def reconcile(self) -> None:
        """Let everything that is due now happen, until nothing more does."""
        self.renewer.confirm()
        self.clock_watch.see(self.store.leases.peek(0), self.now)
        for _ in range(200):
            self.workers.end()
            self._read_inbox()
            messages = self.mailbox.drain(0)
            if stepped := self.renewer.take_step():
                messages.append(ClockStepped(stepped))
            self.state, commands = self.step([*messages, self._listened])
            self.meter.iterated(self.state, 0, commands)
            self.carry_out(commands)
            self.workers.take()
            if not messages and not commands and self._quiet():
                return
        raise AssertionError("the loop does not come to rest")

    def step(self, messages: list[Feedback]) -> tuple[SchedulerState, list[Command]]:
        """One pass of the rules."""
        return iterate(self.state, messages, self.renewer.now(), self.now)

    def advance(self, duration: Duration) -> None:
        """Move the clock, stopping wherever the leader or a worker has something to do."""
        until = self.now + duration
        while self.now < until:
            now = self.renewer.now()
            soonest = min(until, self.now + max(next_wake(self.state, now) - now, MILLISECOND))
            if self.workers.endings:
                soonest = min(soonest, max(self.workers.endings[0].at, self.now))
            self.now = soonest if soonest > self.now else self.now + MILLISECOND
            self.reconcile()

    def carry_out(self, commands: list[Command]) -> None:
        """What the threads around the loop would do, one after the other: the database's first, all at once."""
        self.commands += commands
        for_store = [command for command in commands if isinstance(command, StoreCommand)]
        self._store_writer.carry_out([command for command in for_store if not isinstance(command, DispatchCommand)])
        self._store_writer.dispatch([command for command in for_store if isinstance(command, DispatchCommand)])
        for command in commands:
            if isinstance(command, BuildIndex) and self.hold_builder:
                self._held_builds.append(command)
            elif isinstance(command, BuildIndex):
                self.mailbox.put(self._index.build(command))
            elif isinstance(command, BalancerCommand) and self.hold_balancer:
                self._held_orders.append(command)
            elif isinstance(command, BalancerCommand):
                self._balancer.carry_out([command])
            elif isinstance(command, RereadInbox):
                self._position, self._rereading, self._read_to = "0-0", True, self._position
            elif isinstance(command, Publish):
                self._publisher.carry_out([command])
            elif not isinstance(command, StoreCommand):
                self._broker.carry_out([command])

    def release_balancer(self) -> None:
        """The balancer goes on, with what it was told meanwhile."""
        self.hold_balancer = False
        held, self._held_orders = self._held_orders, []
        self._balancer.carry_out(held)
        self.reconcile()

    def release_builder(self) -> None:
        """The thread that builds the index goes on, with what it was asked for meanwhile."""
        self.hold_builder = False
        held, self._held_builds = self._held_builds, []
        for order in held:
            self.mailbox.put(self._index.build(order))
        self.reconcile()

    def tell(self, kind: str, **body: Any) -> None:
        """An entry into the inbox."""
        self.inbox.send(kind, self.now, body)

    def _read_inbox(self) -> None:
        if self.deaf:
            return
        asked_at = self.renewer.now()
        batch = self.inbox.read(self._position, 1000, 0)
        if batch.entries or self._rereading:
            self._position = batch.position
            for part in parts(batch, self._read_to):
                messages = tuple(decode(fields) for _, fields in part.entries)
                self.mailbox.put(InboxRead(messages, part.position, self._rereading, part.again))
                self._rereading = False
        self._listened = self._listened.confirmed(asked_at)

    def _quiet(self) -> bool:
        return (self.deaf or not self.inbox.read(self._position, 1, 0).entries) and not (
            self.workers.endings and self.workers.endings[0].at <= self.now
        )

    @staticmethod
    def _broke(cause: BaseException) -> None:
        raise cause

    def recall(self, *run_ids: str) -> int:
        """The leader recalls these runs, and all that follows happens; how many it asked for."""
        number = self.ask_recall(*run_ids)
        self.reconcile()
        return number

    def ask_recall(self, *run_ids: str) -> int:
        """The leader asks for the marks of these runs; the answer waits for its next pass."""
        step = Step(self.renewer.now())
        number = recall(self.state, step, run_ids, "recalled: a test wants it")
        self.carry_out(step.finish(self.state))
        return number

    def wipe(self) -> None:
        """FLUSHALL: claims, inbox and queues are gone."""
        for part in (self.claims, self.inbox, self.dispatcher):
            part.wipe()

    def restart_redis(self) -> None:
        """Redis is another process, with all its data."""
        self.claims.restart()
        self.dispatcher.server += "'"

    # What users do

    def job(self, job_id: str, schedule: dict[str, Any], **more: Any) -> Job:
        """Make or replace a job, and tell the leader."""
        body = {"job_id": job_id, "task": "demo.task", "schedule": schedule, **more}
        job, _ = read_job(body, created_at=self.now)
        job, _ = self.store.jobs.replace(job, None)
        self.tell("job_changed", job_id=job_id, change="modified")
        self.reconcile()
        return job

    def every(self, job_id: str, every: str, **more: Any) -> Job:
        """A job of this interval, anchored at the clock's present."""
        return self.job(job_id, {"kind": "interval", "every": every}, **more)

    def pause(self, job_id: str, until: Instant | None = None) -> None:
        self.store.jobs.set_paused(job_id, True, "testing", until)
        self.tell("job_changed", job_id=job_id, change="modified")
        self.reconcile()

    def resume(self, job_id: str) -> None:
        self.store.jobs.set_paused(job_id, False, None, None)
        self.tell("job_changed", job_id=job_id, change="modified")
        self.reconcile()

    def pause_queue(self, queue: str = "default", until: Instant | None = None, *, told: bool = True) -> None:
        """Somebody pauses the queue; the leader hears of it, unless the word is lost."""
        self.store.queues.pause(queue, "an incident", until, by=SOMEBODY)
        self._queue_changed(told)

    def resume_queue(self, queue: str = "default", *, told: bool = True) -> None:
        self.store.queues.resume(queue, by=SOMEBODY)
        self._queue_changed(told)

    def freeze(self, scope: Scope = EVERYTHING, *, told: bool = True, **asked: Any) -> Freeze:
        """Somebody freezes this scope; the leader hears of it, unless the word is lost."""
        freeze = self.store.freezes.start(NewFreeze(scope, "a deploy", **asked), by=SOMEBODY)
        self._queue_changed(told)
        return freeze

    def end_freeze(self, freeze: Freeze, *, told: bool = True) -> None:
        self.store.freezes.end(freeze.freeze_id, by=SOMEBODY)
        self._queue_changed(told)

    def _queue_changed(self, told: bool) -> None:
        if told:
            self.tell("control_changed")
        self.reconcile()

    def delete(self, job_id: str) -> None:
        self.store.jobs.delete(job_id, None)
        self.tell("job_changed", job_id=job_id, change="removed")
        self.reconcile()

    def enqueue(self, after: Duration = 0, **more: Any) -> str:
        """A one-off run, due `after` from now."""
        self.made += 1
        due = self.now + after
        run = NewRun(adhoc_run_id(f"{self.made:04}"), RunKind.ADHOC, "demo.task", due, due)
        ((made, _),) = self.store.runs.enqueue([replace(run, **more)])
        self.tell("run_enqueued", run_ids=[made.run_id])
        self.reconcile()
        return made.run_id

    def move(self, run_id: str, queue: str, *, told: bool = True) -> None:
        """Move the waiting run to another queue, as a bulk operation does."""
        self.store.tables.runs[run_id].queue = queue
        if told:
            self.tell("runs_moved", run_ids=[run_id])
        self.reconcile()

    def cancel(self, run_id: str) -> Run:
        run = self.store.runs.request_cancel(run_id)
        self.tell("cancel_run", run_id=run_id)
        self.reconcile()
        return self.run(run.run_id)

    # What can be seen

    def run(self, run_id: str) -> Run:
        return self.store.runs.get(run_id)

    def runs(self, job_id: str) -> list[Run]:
        """All runs of the job, oldest first."""
        page = self.store.runs.list(RunFilter(job_id=job_id), 10_000, None)
        return sorted(page.items, key=lambda run: (run.scheduled_at, run.run_id))

    def states(self, job_id: str) -> list[str]:
        return [run.state.value for run in self.runs(job_id)]

    def starts(self, run_id: str) -> list[Instant]:
        """When any attempt of this run was started."""
        return [at for at, attempt in self.workers.started if split_task_id(attempt)[0] == run_id]


def attempt_of(run_id: str, number: int = 1) -> str:
    return task_id(run_id, number)
