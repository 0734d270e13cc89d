"""The loop of one term of leadership: the only owner of the scheduling state. Does no I/O itself.

It sleeps until the next due instant, a message, or `loop_interval`, whichever is first. Each pass runs the pure step
and hands its commands to the threads around it.
"""

import gc
import threading
import time
from dataclasses import dataclass

import structlog

from itinerary.protocol.instants import SECOND, Duration
from scheduler_service.core.balancing.placements import BalancerCommand
from scheduler_service.core.leader.commands import BuildIndex, Command, Publish, RereadInbox, StoreCommand
from scheduler_service.core.leader.iteration import iterate, next_wake
from scheduler_service.core.leader.past_starts import ClockStepped
from scheduler_service.core.leader.rebuilding import IndexBuilder
from scheduler_service.core.leader.results import Shutdown
from scheduler_service.core.leader.state import CoreSettings, SchedulerState
from scheduler_service.core.leader.taking_over import take_over
from scheduler_service.core.limits import longest_windows
from scheduler_service.loops.balancer_thread import BalancerThread
from scheduler_service.loops.broker_thread import BrokerThread
from scheduler_service.loops.command_thread import CommandThread
from scheduler_service.loops.inbox_reader import InboxReader
from scheduler_service.loops.job_watcher import JobWatcher
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.mailbox import Mailbox, monotonic
from scheduler_service.loops.pipelined import side_by_side
from scheduler_service.loops.present_controls import present_controls
from scheduler_service.loops.pruner import Pruner, Retention
from scheduler_service.loops.publisher import Publisher
from scheduler_service.loops.repeating import Repeating
from scheduler_service.loops.sampler import Sampler, Sampling
from scheduler_service.loops.store_writer import StoreWriter
from scheduler_service.loops.wakeup_listener import WakeupListener
from scheduler_service.ports.broker import Claims, Dispatcher, Inbox
from scheduler_service.ports.records import Wakeups
from scheduler_service.ports.stores import LeaderStore, Meter
from scheduler_service.ports.zone_rules import ZoneRulesStore

log = structlog.get_logger(__name__)

_REST_SECONDS, _LONGEST_REST_SECONDS = 0.005, 0.03
_SHORT_REST_SECONDS = 0.001
_FLUSH_SECONDS = 8.0
_JOIN_SECONDS = 2.0
_BACKLOG = 200


@dataclass(frozen=True, slots=True)
class Adapters:
    """The adapters that a leader works with."""

    store: LeaderStore
    inbox: Inbox
    claims: Claims
    dispatcher: Dispatcher
    meter: Meter
    zone_rules: ZoneRulesStore
    wakeups: Wakeups | None = None
    retention: Retention | None = None
    sampling: Sampling | None = None


class SchedulerLoop:
    """One term: take over the committed state, then lead until stopped or no longer trusted.

    `stepped_before`: by how much the database's clock stepped ahead since the last leader, as far as this process saw.
    """

    def __init__(
        self,
        settings: CoreSettings,
        adapters: Adapters,
        renewer: LeaseRenewer,
        mailbox: Mailbox,
        inbox_buffer: int,
        stepped_before: Duration = 0,
    ) -> None:
        self._settings = settings
        self._adapters = adapters
        self._renewer = renewer
        self._mailbox = mailbox
        self._inbox_buffer = inbox_buffer
        self._stepped_before = stepped_before
        self._index = IndexBuilder()
        self._stopping = threading.Event()
        self._is_behind = False
        self._rests_until = float("-inf")
        self._hurried = False
        self._crash: BaseException | None = None

    def stop(self) -> None:
        """Finish the work in progress and return from `run`."""
        self._stopping.set()
        self._mailbox.wake()

    def pause(self) -> None:
        """Dispatch and plan nothing more; reports are still read and committed, until `stop`."""
        self._mailbox.put(Shutdown(draining=True))

    def run(self) -> None:
        """Lead until `stop`; raises LeaseLost if the lease is not confirmed, or the error that broke a thread."""
        # The garbage collector would stop all threads to scan all jobs: a second for a million, again and again.
        gc.disable()
        try:
            state = self._take_over()
            gc.freeze()
        finally:
            gc.enable()
        try:
            while not self._stopping.is_set():
                state = self._pass(state, next_wake(state, self._renewer.now()))
            self._flush(state)
        finally:
            self._stopping.set()
            self._stop_threads()
            gc.unfreeze()

    def _take_over(self) -> SchedulerState:
        store, lease = self._adapters.store, self._renewer.lease
        cursor = store.cursor(lease)
        controls = present_controls(store, cursor)
        jobs = store.job_histories(cursor.materialised_until)
        self._adapters.meter.jobs_refused(store.refused_jobs())
        runs = store.active_runs()
        if self._stepped_before:
            store.shift_starts(lease, self._stepped_before)
        starts = store.starts(longest_windows(controls.limits.values()))
        log.info("took over", term=lease.term, jobs=len(jobs), active_runs=len(runs), position=cursor.inbox_position)
        self._store_writer = StoreWriter(
            store, self._renewer, self._mailbox, self._stopping, self._broke, side_by_side, store.has_one_writer
        )
        self._renewer.watch_writer(self._store_writer.stuck_for)
        self._publisher = Publisher(
            self._adapters.dispatcher, self._adapters.meter, self._renewer, self._mailbox, self._stopping, self._broke
        )
        self._broker = BrokerThread(
            self._adapters.dispatcher, self._adapters.claims, self._adapters.inbox, self._adapters.meter,
            self._renewer, self._mailbox, self._broke,
        )  # fmt: skip
        self._builder: CommandThread[BuildIndex] = CommandThread("index-builder", self._build, self._broke)
        self._balancer = BalancerThread(self._mailbox, self._adapters.meter, self._broke)
        self._watcher = JobWatcher(store, self._mailbox, self._broke)
        self._reader = InboxReader(
            self._adapters.inbox, self._mailbox, self._adapters.meter, cursor.inbox_position,
            self._inbox_buffer, lambda: self._store_writer.backlog() > _BACKLOG, self._renewer.now, self._broke,
        )  # fmt: skip
        state, commands = take_over(
            self._settings, lease.term, cursor, jobs, runs, self._renewer.now(), controls, starts, monotonic()
        )
        self._besides = self._besides_the_loop()
        for part in (
            *self._store_writer.threads,
            self._publisher.thread,
            self._broker.thread,
            self._builder,
            self._balancer.thread,
            self._watcher,
            self._reader,
        ):
            part.start()
        for beside in self._besides:
            beside.start()
        self._submit(commands)
        return state

    def _besides_the_loop(self) -> list[Repeating]:
        """Create the optional background threads."""
        found: list[Repeating] = []
        if self._adapters.wakeups is not None:
            found.append(WakeupListener(self._adapters.wakeups, self._mailbox, self._watcher.poll_now, self._broke))
        if self._adapters.retention is not None:
            retention, meter = self._adapters.retention, self._adapters.meter
            found.append(Pruner(retention, self._renewer, meter, lambda: self._is_behind, self._broke))
        if self._adapters.sampling is not None:
            found.append(Sampler(self._adapters.sampling, self._renewer, self._broke))
        return found

    def _pass(self, state: SchedulerState, wake_at: int) -> SchedulerState:
        self._rest()
        messages = self._mailbox.drain_until(wake_at, self._renewer.now)
        listened = self._reader.listened  # before emptying the mailbox: all that was read by then is in it
        messages += [*self._mailbox.drain(0), listened]
        if self._crash is not None:
            raise self._crash
        self._renewer.check()
        began = time.monotonic()
        now, steady = self._renewer.now(), monotonic()
        if stepped := self._renewer.take_step():  # after `now`, which may have stepped: nothing is pruned before
            messages.append(ClockStepped(stepped))
        state, commands = iterate(state, messages, now, steady)
        self._submit(commands)
        self._is_behind = state.load.is_behind
        took = time.monotonic() - began
        self._rests_until = began + took + rest_after(took, is_awaited=state.awaits_slots())
        self._adapters.meter.iterated(state, took, commands)
        self._renewer.loop_passed()
        return state

    def _rest(self) -> None:
        """Rest, but publish what was dispatched meanwhile; not twice in turn, so that the others get to work."""
        left = self._rests_until - time.monotonic()
        if self._hurried:
            self._stopping.wait(max(0.0, left))
            self._hurried = False
        else:
            self._hurried = self._mailbox.rest(left)

    def _submit(self, commands: list[Command]) -> None:
        self._store_writer.put(*(command for command in commands if isinstance(command, StoreCommand)))
        for command in commands:
            if isinstance(command, BuildIndex):
                self._builder.put(command)
            elif isinstance(command, RereadInbox):
                self._reader.reread()
            elif isinstance(command, Publish):
                self._publisher.thread.put(command)
            elif isinstance(command, BalancerCommand):
                self._balancer.thread.put(command)
            elif not isinstance(command, StoreCommand):
                self._broker.thread.put(command)

    def _build(self, orders: list[BuildIndex]) -> None:
        for order in orders:
            began = time.perf_counter()
            built = self._index.build(order)
            self._adapters.meter.rebuilt(time.perf_counter() - began)
            self._adapters.meter.jobs_refused(self._adapters.store.refused_jobs())
            for job_id, reason in built.failures:
                log.error("job left out of the index", job_id=job_id, reason=reason)
            self._mailbox.put(built)

    def _flush(self, state: SchedulerState) -> None:
        """Finish the work in progress: publish the dispatched runs, and commit what was read."""
        log.info("told to stop, finishing what is in hand", term=self._renewer.lease.term)
        self._reader.stop(0)  # it stops while the others are being waited for
        self._stop_besides()
        self._reader.stop(_JOIN_SECONDS)
        self._mailbox.put(Shutdown())
        deadline = time.monotonic() + _FLUSH_SECONDS
        while time.monotonic() < deadline:
            busy = self._backlog()
            state = self._pass(state, self._renewer.now() + (SECOND // 50 if busy else 0))
            if not (busy or self._backlog()):
                return
        log.warning("stopped before everything in hand was done; the next leader takes it up")

    def _backlog(self) -> int:
        parts = (self._store_writer, self._publisher.thread, self._broker.thread)
        return sum(part.backlog() for part in parts)

    def _stop_threads(self) -> None:
        self._stop_besides()
        for part in (
            self._reader,
            self._watcher,
            self._builder,
            self._balancer.thread,
            self._publisher.thread,
            self._broker.thread,
            *self._store_writer.threads,
        ):
            part.stop(_JOIN_SECONDS)

    def _stop_besides(self) -> None:
        for seconds in (0, _JOIN_SECONDS):
            for beside in self._besides:
                beside.stop(seconds)

    def _broke(self, cause: BaseException) -> None:
        self._crash = cause
        self._mailbox.wake()


def rest_after(took: float, *, is_awaited: bool) -> float:
    """The seconds in which the loop rests after a pass of `took` seconds, so that the other threads get to work.

    Messages that arrive meanwhile share a pass and a transaction. `is_awaited`: a slot stands idle meanwhile.
    """
    return min(max(took, _SHORT_REST_SECONDS if is_awaited else _REST_SECONDS), _LONGEST_REST_SECONDS)
