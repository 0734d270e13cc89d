"""The processes of a simulation: leaders and workers whose threads take turns as the seed says.

Each thread of a real process is a turn here, taken at its own time: effects are carried out one by one, between any
two of which the process may die, freeze or be overtaken. The effect code and the pure step are the real ones.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from scheduler_service.adapters.metrics import PrometheusMeter
from scheduler_service.core.effects import BuildIndex, Effect, ReadInboxAnew, StoreEffect
from scheduler_service.core.errors import BrokerUnavailable, LeaseLost, StoreUnavailable
from scheduler_service.core.feedback import InboxRead, InboxSilent, JobsRead, Shutdown
from scheduler_service.core.identity import split_task_id, task_id
from scheduler_service.core.instants import MILLISECOND, MINUTE, SECOND, Duration, Instant, format_instant
from scheduler_service.core.iteration import iterate, next_wake, take_over
from scheduler_service.core.messages import decode
from scheduler_service.core.model import Lease
from scheduler_service.core.placements import BalancerEffect
from scheduler_service.core.rebuilding import build_index
from scheduler_service.core.wire import entry
from scheduler_service.loops.balancer_thread import BalancerThread
from scheduler_service.loops.broker_thread import BrokerThread
from scheduler_service.loops.inbox_reader import BEGINNING, parts
from scheduler_service.loops.lease_keeper import LeaseKeeper
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.loops.store_syncer import StoreSyncer

if TYPE_CHECKING:
    from tests.support.simulation import Simulation

METER = PrometheusMeter()


class Process:
    """Something that takes turns by name, until it is dead; while frozen, its turns wait."""

    def __init__(self, simulation: "Simulation", name: str) -> None:
        self.simulation = simulation
        self.name = name
        self.dead = False
        self.frozen_until: Instant = 0
        self._next: dict[str, Instant] = {}

    def kick(self, turn: str, delay: Duration) -> None:
        """Let this turn be taken after `delay`, if it is not to be taken sooner."""
        at = self.simulation.t + delay
        known = self._next.get(turn)
        if known is None or at < known:
            self._next[turn] = at
            self.simulation.push(at, lambda: self._take(turn, at))

    def _take(self, turn: str, at: Instant) -> None:
        if self.dead or self._next.get(turn) != at:
            return
        del self._next[turn]
        if self.frozen_until > self.simulation.t:
            self.kick(turn, self.frozen_until - self.simulation.t)
        else:
            getattr(self, f"turn_{turn}")()

    def freeze(self, duration: Duration) -> None:
        self.frozen_until = self.simulation.t + duration
        self.simulation.note(f"{self.name} freezes for {duration / SECOND:.1f} s")

    def die(self, why: str) -> None:
        if not self.dead:
            self.dead = True
            self.simulation.note(f"{self.name} is gone: {why}")


class _Keeper(LeaseKeeper):
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

        def call(*args: Any) -> Any:
            chance = simulation.random.random()
            if chance < simulation.unsure / 2:
                simulation.note(f"{self._leader.name}: connection broke before {name}")
                raise StoreUnavailable("broke before")
            answer = wanted(*args)
            if chance < simulation.unsure:
                simulation.note(f"{self._leader.name}: connection broke after {name}")
                raise StoreUnavailable("broke after")
            return answer

        return call


class SimLeader(Process):
    """One term of leadership with all its threads."""

    def __init__(self, simulation: "Simulation", lease: Lease) -> None:
        super().__init__(simulation, f"leader {lease.term}")
        store = simulation.store.leader
        self.mailbox = Mailbox()
        self.keeper = _Keeper(
            simulation.store.leases, lease, simulation.t, simulation.ttl, lambda: None, lambda: simulation.t
        )
        cursor = store.cursor(lease)
        self._since = cursor.materialised_until
        self._store: Any = _Unsure(self)
        no_wait = _NoWait()
        self._syncer = StoreSyncer(self._store, self.keeper, self.mailbox, self._since, no_wait, self._broke)
        self._broker = BrokerThread(
            simulation.dispatcher, simulation.claims, simulation.inbox, METER, self.keeper, self.mailbox, no_wait,
            self._broke,
        )  # fmt: skip
        self._stores: deque[StoreEffect] = deque()
        self._brokers: deque[Any] = deque()
        self._builds: deque[BuildIndex] = deque()
        self._balancer = BalancerThread(self.mailbox, METER, self._broke)
        self._balances: deque[BalancerEffect] = deque()
        self._position = cursor.inbox_position
        self._anew, self._read_to = False, BEGINNING
        self._at_end = False
        self.stopping = False
        self._effects_left: int | None = None
        jobs, runs = store.job_histories(self._since), store.active_runs()
        self.state, effects = take_over(simulation.settings, lease.term, cursor, jobs, runs, self.keeper.now())
        simulation.note(f"{self.name} takes over: cursor {cursor}, {len(runs)} runs, {len(jobs)} jobs")
        self._hand_out(effects)
        self.kick("loop", 0)
        self.kick("keep", simulation.ttl * 3 // 10)
        self.kick("watch", 2 * SECOND)
        self.kick("read", 0)

    def stop(self) -> None:
        """SIGTERM: finish what is in hand, then resign."""
        self.simulation.note(f"{self.name} is told to stop")
        self.stopping = True
        self.mailbox.put(Shutdown())
        self.kick("loop", 0)

    def die_after(self, effects: int) -> None:
        """Die between two effects, the last one carried out and nobody told of it."""
        self._effects_left = effects

    def _dies_now(self) -> bool:
        if self._effects_left is not None:
            self._effects_left -= 1
            if self._effects_left <= 0:
                self.die("killed between two effects")
        return self.dead

    def turn_loop(self) -> None:
        if not self.keeper.trusted():
            return self.step_down("its lease is not confirmed")
        messages = self.mailbox.drain(0)
        now = self.keeper.now()
        self.state, effects = iterate(self.state, messages, now)
        self.simulation.note_pass(self.name, messages, effects)
        self._hand_out(effects)
        if self.stopping and not (messages or effects or self._stores or self._brokers):
            self.keeper.stop(resign=True)
            return self.die("stopped cleanly")
        return self.kick("loop", max(next_wake(self.state, now) - now, MILLISECOND))

    def step_down(self, why: str) -> None:
        """What the dispatcher thread has in hand by then still goes out; nothing else does."""
        self.keeper.blind = True
        try:
            while self._brokers and self.simulation.random.random() < 0.8 and not self.simulation.redis_away:
                self._broker.carry_out([self._brokers.popleft()])
        finally:
            self.die(why)

    def _hand_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, BuildIndex):
                self._builds.append(effect)
            elif isinstance(effect, BalancerEffect):
                self._balances.append(effect)
            elif isinstance(effect, ReadInboxAnew):
                self._position, self._anew, self._read_to = BEGINNING, True, self._position
            elif isinstance(effect, StoreEffect):
                self._stores.append(effect)
            else:
                self._brokers.append(effect)
        self._go_on()

    def _go_on(self) -> None:
        latency = self.simulation.latency
        if self._stores:
            self.kick("store", latency())
        if self._brokers:
            self.kick("broker", latency())
        if self._builds:
            self.kick("build", latency() * 5)
        if self._balances:
            self.kick("balance", latency() * 5)

    def turn_store(self) -> None:
        if self.simulation.database_away:
            return self.kick("store", 200 * MILLISECOND)
        several = 1 if self._effects_left is not None else self.simulation.random.randint(1, len(self._stores))
        batch = [self._stores.popleft() for _ in range(several)]
        try:
            self._syncer.carry_out(batch)
        except LeaseLost as lost:
            return self.step_down(str(lost))
        return None if self._dies_now() else self._heard()

    def turn_broker(self) -> None:
        if self.simulation.redis_away:
            return self.kick("broker", 200 * MILLISECOND)
        effect = self._brokers.popleft()
        try:
            self._broker.carry_out([effect])
        except LeaseLost as lost:
            self._brokers.appendleft(effect)
            return self.step_down(str(lost))
        self.simulation.wake_workers()
        return None if self._dies_now() else self._heard()

    def turn_build(self) -> None:
        self.mailbox.put(build_index(self._builds.popleft()))
        self._heard()

    def turn_balance(self) -> None:
        self._balancer.carry_out([self._balances.popleft()])
        self._heard()

    def turn_read(self) -> None:
        if self.stopping:
            return
        try:
            batch = self.simulation.inbox.read(self._position, self.simulation.random.randint(1, 20), 0)
        except BrokerUnavailable:
            self._at_end = False
            self.mailbox.put(InboxSilent())
            self.kick("read", 500 * MILLISECOND)
            return
        self._position = batch.position
        if batch.entries or self._anew or batch.at_end != self._at_end:
            self._at_end = batch.at_end
            for part in parts(batch, self._read_to):
                messages = tuple(decode(fields) for _, fields in part.entries)
                self.mailbox.put(InboxRead(messages, part.position, part.at_end, self._anew, part.again))
                self._anew = False
            self._heard()
        self.kick("read", 0 if not batch.at_end else SECOND)

    def turn_watch(self) -> None:
        self.kick("watch", 2 * SECOND)
        if self.simulation.database_away:
            return
        store = self.simulation.store.leader
        job_ids = store.unplanned_jobs(1000)
        if job_ids:
            self.mailbox.put(JobsRead(tuple(store.histories_of(job_ids, self._since))))
            self._heard()

    def turn_keep(self) -> None:
        if self.simulation.database_away:
            return self.kick("keep", self.simulation.ttl // 10)
        try:
            self.keeper.confirm()
        except LeaseLost as lost:
            return self.step_down(str(lost))
        return self.kick("keep", self.simulation.ttl * 3 // 10)

    def _heard(self) -> None:
        self.kick("loop", self.simulation.latency())
        self._go_on()

    @staticmethod
    def _broke(cause: BaseException) -> None:
        raise cause


class SimWorker(Process):
    """A worker process: pops when it has a free slot, claims, runs, reports; says every two seconds what it has."""

    SLOTS = 2

    def __init__(self, simulation: "Simulation", name: str) -> None:
        super().__init__(simulation, name)
        self.received: list[tuple[str, int]] = []
        self._generation: str | None = None
        self._told: list[tuple[Instant, str, dict[str, Any]]] = []
        self.running: dict[str, Instant] = {}
        self._over: set[str] = set()
        self._reports: deque[tuple[str, str, dict[str, Any]]] = deque()
        self.kick("take", 0)
        self.kick("beat", simulation.random.randrange(2 * SECOND))

    def turn_take(self) -> None:
        """One message off the queue; some are lost on their way, some come twice."""
        self.kick("take", 500 * MILLISECOND)
        simulation = self.simulation
        if simulation.redis_away or len(self.received) + len(self.running) >= self.SLOTS:
            return
        run = simulation.dispatcher.pop_run("default")
        if run is None:
            return
        attempt = task_id(run.run_id, run.attempt)
        if simulation.random.random() < simulation.losing:
            simulation.note(f"{self.name}: {attempt} popped and lost")
        else:
            self.received.append((attempt, run.seq))
            self.kick("claim", simulation.latency())
        self.kick("take", simulation.latency())

    def turn_claim(self) -> None:
        """Whatever was received is claimed; the claim writes `started` in the same breath."""
        simulation = self.simulation
        if simulation.redis_away:
            return self.kick("claim", 300 * MILLISECOND)
        asked, self.received = self.received, []
        for attempt, seq in asked:
            token = f"{self.name}-{simulation.t}-{simulation.fresh()}"
            verdict = simulation.claims.ask(attempt, token, "default", seq)
            if verdict == "wait":
                self.received.append((attempt, seq))
                self._speak()
                self.kick("claim", 500 * MILLISECOND)
            if verdict != "won":
                simulation.note(f"{self.name}: claim of {attempt}: {verdict}")
                continue
            body = {"task_id": attempt, "worker": self.name, "seq": seq}
            simulation.send("started", body)
            simulation.log_start(attempt)
            self.running[attempt] = simulation.host_now()
            simulation.happened("start")
            simulation.push(simulation.t + simulation.lasting(), lambda a=attempt: self._come_to_end(a, None))
        return None

    def stop_task(self, attempt: str) -> None:
        """A revoke with terminate."""
        if attempt in self.running:
            error = {"type": "SystemExit", "message": "terminated", "traceback": None}
            self._come_to_end(attempt, ("failed", {"error": error, "reason": "terminated"}))

    def _come_to_end(self, attempt: str, how: tuple[str, dict[str, Any]] | None) -> None:
        if self.dead or attempt not in self.running or attempt in self._over:
            return
        simulation = self.simulation
        if self.frozen_until > simulation.t:
            simulation.push(self.frozen_until, lambda: self._come_to_end(attempt, how))
            return
        self._over.add(attempt)
        kind, details = how or simulation.outcome(attempt)
        if kind != "failed":
            simulation.log_end(attempt)
        started_at = format_instant(self.running[attempt])
        self._reports.append(
            (attempt, kind, {"task_id": attempt, "worker": self.name, "started_at": started_at, **details})
        )
        self.kick("report", simulation.latency())

    def turn_report(self) -> None:
        """Stream entry and result key in one breath; the slot is free after that."""
        simulation = self.simulation
        if simulation.redis_away:
            return self.kick("report", 300 * MILLISECOND)
        while self._reports:
            attempt, kind, body = self._reports.popleft()
            simulation.claims.leave(attempt, entry(kind, simulation.host_now(), body))
            simulation.send(kind, body)
            self._told.append((simulation.t, kind, body))
            self.running.pop(attempt, None)
            simulation.happened("report")
        return self.kick("take", 0)

    def turn_beat(self) -> None:
        self.kick("beat", 2 * SECOND)
        if not self.simulation.redis_away:
            self._speak()
            self._beat()

    def _speak(self) -> None:
        """In another generation of Redis: the reports of the last minute, then what runs."""
        simulation = self.simulation
        name = simulation.claims.look().name
        if name == self._generation:
            return
        self._told = [one for one in self._told if one[0] > simulation.t - MINUTE]
        for _, kind, body in self._told:
            simulation.send_again(kind, body)
        self._generation = name
        self._beat()

    def told_lately(self) -> list[str]:
        return [body["task_id"] for at, _, body in self._told if at > self.simulation.t - MINUTE]

    def _beat(self) -> None:
        body = {
            "worker": self.name, "running": list(self.running), "received": [attempt for attempt, _ in self.received],
            "concurrency": self.SLOTS, "queues": ["default"], "generation": self._generation,
        }  # fmt: skip
        self.simulation.send("heartbeat", body)


def run_of(attempt: str) -> str:
    return split_task_id(attempt)[0]
