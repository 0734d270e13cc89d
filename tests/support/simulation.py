"""A whole scheduler under a seeded schedule of faults, in simulated time: `python -m tests.support.simulation SEED`.

Leaders, workers, users, a database, a broker and their clocks; every choice comes from one random generator, so a seed
is a history. Faults stop after a while; then everything must come to its end, and the invariants must hold.
"""

import heapq
import itertools
import logging
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from itinerary.protocol.identity import split_task_id
from itinerary.protocol.instants import DAY, MILLISECOND, SECOND, Duration, Instant, format_instant, parse_instant
from itinerary.protocol.wire import AGAIN_FIELD, entry
from scheduler_service.core.invariants.check import violations
from scheduler_service.core.invariants.history import Execution, ExecutionLog, Finding, Tolerance
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.run_state import FINAL
from scheduler_service.loops.clock_steps import ClockWatch
from tests.support.fake_store import FakeStore
from tests.support.fakes_redis import FakeInbox
from tests.support.history import history_of
from tests.support.simulated_broker import SimClaims, SimDispatcher
from tests.support.simulated_freezes import Freezes
from tests.support.simulated_leader import SimLeader
from tests.support.simulated_limits import Limits
from tests.support.simulated_patience import Patience
from tests.support.simulated_pauses import Pauses
from tests.support.simulated_rates import Rates
from tests.support.simulated_worker import SimWorker

START: Final = parse_instant("2026-11-30T10:00:00Z")
TROUBLE: Final = 25 * SECOND
PATIENCE: Final = 240 * SECOND
SETTINGS: Final = CoreSettings(
    pre_schedule_interval=4 * SECOND,
    index_rebuild_interval=15 * SECOND,
    lookahead_window=40 * SECOND,
    grace_period=3 * SECOND,
    lost_after=6 * SECOND,
    redispatch_after=4 * SECOND,
    max_redispatch=4,
    due_poll_interval=2 * SECOND,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one seed; `trace` is empty unless asked for.

    `stuck` are runs that never ended, `impatient` occurrences that were given up as late and were not, `hasty` attempts
    that were given up as lost while their worker lived and said so, `passed` attempts that waited
    for a worker when a low watermark passed their message, `kept` queues of which Redis still has something,
    `unheeded` runs that were dispatched while their queue was paused or they were frozen, `misjudged` occurrences that
    ran though a freeze skips them, or were skipped without one, `too_many` starts beyond the rate of their queue,
    `exceeded` limits.
    """

    seed: int
    findings: tuple[Finding, ...]
    stuck: tuple[str, ...]
    impatient: tuple[str, ...]
    hasty: tuple[str, ...]
    runs: int
    trace: tuple[str, ...]
    passed: tuple[str, ...]
    kept: tuple[str, ...]
    unheeded: tuple[str, ...]
    misjudged: tuple[str, ...]
    too_many: tuple[str, ...]
    exceeded: tuple[str, ...]
    own_queues: bool

    @property
    def well(self) -> bool:
        wrong = (self.findings, self.stuck, self.impatient, self.hasty, self.passed, self.kept, self.unheeded)
        return not (any(wrong) or self.misjudged or self.too_many or self.exceeded)

    def __str__(self) -> str:
        lines = [f"{finding.rule}: {finding.subject}: {finding.message}" for finding in self.findings]
        lines += [f"never ended: {run_id}" for run_id in self.stuck]
        lines += [f"given up in time: {run_id}" for run_id in self.impatient]
        lines += [f"called lost, yet heard: {attempt}" for attempt in self.hasty]
        lines += [f"its message was refused: {attempt}" for attempt in self.passed]
        lines += [f"low watermark kept for ever: {queue}" for queue in self.kept]
        lines += [f"dispatched though paused or frozen: {run_id}" for run_id in self.unheeded]
        lines += [f"misjudged: {which}" for which in self.misjudged]
        lines += [f"over the rate: {which}" for which in self.too_many]
        lines += [f"more than a limit allows: {what}" for what in self.exceeded]
        how = f"{self.seed} own-queues" if self.own_queues else f"{self.seed}"
        return "\n".join([f"seed {self.seed}:", *lines, f"replay: python -m tests.support.simulation {how}"])


class Simulation:
    """One history: `run` plays it."""

    ttl: Final = 3 * SECOND

    def __init__(self, seed: int, *, tracing: bool = False, own_queues: bool = False) -> None:
        self.seed = seed
        self.own_queues = own_queues
        self.random = random.Random(seed)
        self.t: Instant = START
        self.offset: Duration = 0
        self.stepped: Duration = 0
        self.steps = 0
        self._latest: Instant = START
        self._events: list[tuple[Instant, float, int, Callable[[], None]]] = []
        self._numbers = itertools.count(1)
        self._trace: list[str] | None = [] if tracing else None
        self.settings = replace(
            SETTINGS,
            publish_window=self.random.choice((2, 5, 10_000, None)),
            pre_schedule_interval=self.random.choice((1, 4)) * SECOND,
            write_batch=self.random.choice((1, 3, 2_000)),
            due_page=2 if seed % 2 else 1_000,
        )
        self.store = FakeStore(self.database_now)
        self.inbox, self.claims, self.dispatcher = FakeInbox(), SimClaims(self), SimDispatcher(self)
        self.database_away = False
        self.leaders: list[SimLeader] = []
        self.workers: list[SimWorker] = []
        self.log: ExecutionLog = {}
        self.patience = Patience(self.store)
        self.pauses, self.freezes, self.rates = Pauses(self), Freezes(self), Rates(self)
        self.limits = Limits(self)
        self.clock_watch = ClockWatch()
        self.spoke: dict[str, Instant] = {}
        self.woke: dict[str, Instant] = {}
        self.redis_frozen = False
        self.redis_back_at: Instant = START
        self.hasty: list[str] = []
        self.passed: list[str] = []
        self.calm = False
        self.undisturbed_until: Instant = 0
        self.after_next: dict[str, Callable[[], None]] = {}
        level = self.random.choice((0.0, 0.02, 0.1))
        self.unsure = self.losing = self.doubling = self.shuffling = level
        self.slow = self.random.choice((5, 30, 200)) * MILLISECOND

    # Time

    def database_now(self) -> Instant:
        return self.t + self.offset

    def host_now(self) -> Instant:
        """What every host but the database's shows: never behind anything that was dated before."""
        leading = [leader.renewer.now() for leader in self.leaders if not leader.dead]
        self._latest = max(self._latest, self.database_now(), *leading)
        return self._latest

    def push(self, at: Instant, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(at, self.t), self.random.random(), next(self._numbers), action))

    def latency(self) -> Duration:
        """How long a thread or a network takes; now and then very long."""
        scale = self.slow if self.random.random() < 0.98 or self.calm else 2 * SECOND
        return int(self.random.random() * scale)

    def fresh(self) -> int:
        return next(self._numbers)

    def play_until(self, end: Instant) -> None:
        while self._events and self._events[0][0] <= end:
            at, _, _, action = heapq.heappop(self._events)
            self.t = max(self.t, at)
            action()
        self.t = max(self.t, end)

    # What is written down

    def note(self, text: str) -> None:
        if self._trace is not None:
            self._trace.append(f"{(self.t - START) / SECOND:8.3f}  {text}")

    def note_pass(self, name: str, messages: Sequence[object], commands: Sequence[object]) -> None:
        if self._trace is not None and (messages or commands):
            for one in messages:
                self.note(f"{name} hears  {_short(one)}")
            for one in commands:
                self.note(f"{name} wants  {_short(one)}")

    def log_start(self, attempt: str) -> None:
        self.note(f"START {attempt}")
        self.rates.started(attempt)
        self.log.setdefault(split_task_id(attempt), Execution()).starts.append(self.host_now())
        self.limits.started(attempt)

    def log_end(self, attempt: str) -> None:
        self.log.setdefault(split_task_id(attempt), Execution()).ends += 1

    # What leaders and workers meet

    @property
    def redis_away(self) -> bool:
        return self.inbox.away or self.redis_frozen

    def set_redis_away(self, away: bool) -> None:
        self.note(f"redis {'goes away' if away else 'is back'}")
        if self.inbox.away:
            self.redis_back_at = self.t
        self.inbox.away = self.claims.away = self.dispatcher.away = away

    def set_redis_frozen(self, frozen: bool) -> None:
        self.note(f"redis {'freezes' if frozen else 'thaws'}")
        if self.redis_frozen:
            self.redis_back_at = self.t
        self.redis_frozen = frozen

    def said(self, attempts: Iterable[str]) -> None:
        """A worker says that it has these attempts."""
        for attempt in attempts:
            if self.t - self.spoke.get(attempt, self.t) >= self.settings.lost_after:
                self.woke[attempt] = self.t
            self.spoke[attempt] = self.t

    def called_lost(self, attempt: str) -> None:
        """A leader gives it up: not while its worker says again and again that it runs, or nobody can hear it."""
        if self.t - self.woke.get(attempt, -DAY) < SECOND:
            return  # silent for long enough; what it says since then is not read yet
        awake = any(attempt in worker.running and worker.frozen_until <= self.t for worker in self.workers)
        unheard = self.t - max(self.spoke.get(attempt, self.t), self.redis_back_at)
        # A clock that steps by less than a leader takes note of may lengthen the silence.
        if awake and unheard < self.settings.lost_after - self.steps * 2 * SECOND:
            self.hasty.append(attempt)
            self.note(f"HASTY {attempt}")

    def send(self, kind: str, body: dict[str, Any]) -> None:
        """An entry into the inbox: at once, late or twice."""
        fields = entry(kind, self.host_now(), body)
        late = self.shuffling / 3 if kind != "heartbeat" else 0.0
        if self.random.random() < late and not self.calm:
            self.push(self.t + self.latency() * 5, lambda: self._append(fields))
        else:
            self._append(fields)
        if self.random.random() < self.doubling and not self.calm:
            self.push(self.t + self.latency() * 20, lambda: self._append(fields))

    def send_again(self, kind: str, at: Instant, body: dict[str, Any]) -> None:
        """An entry that was sent before, as of then, at once."""
        self._append({**entry(kind, at, body), AGAIN_FIELD: "1"})

    def _append(self, fields: dict[str, str]) -> None:
        if self.redis_away:
            self.push(self.t + SECOND, lambda: self._append(fields))
            return
        self.inbox.append(fields)
        for leader in self.leaders:
            leader.kick("read", self.latency())

    def happened(self, what: str) -> None:
        """A start or a report: a fault may have waited for it."""
        self.after_next.pop(what, lambda: None)()

    def wake_workers(self) -> None:
        for worker in self.workers:
            worker.kick("take", self.latency())

    def lasting(self) -> Duration:
        """How long a task takes."""
        return int(self.random.choice((0.01, 0.1, 0.1, 0.5, 3.0, 8.0)) * SECOND)

    def outcome(self, attempt: str) -> tuple[str, dict[str, Any]]:
        """How an attempt ends when nobody disturbs it."""
        chance = self.random.random()
        if chance < 0.75:
            return "succeeded", {"result": attempt}
        if chance < 0.9:
            return "failed", {"error": {"type": "ValueError", "message": "x", "traceback": None}}
        due_at = format_instant(self.host_now() + self.random.randrange(4 * SECOND))
        return "retry", {"due_at": due_at, "args": None, "kwargs": None, "retries": 1}

    # The play

    def run(self) -> Outcome:
        from tests.support.simulated_trouble import Faults, Users

        with without_logs():
            self._stand_by()
            self.workers = [SimWorker(self, f"w{self.fresh()}") for _ in range(2)]
            users, faults = Users(self), Faults(self)
            users.begin(TROUBLE)
            faults.begin(TROUBLE)
            self.pauses.begin(TROUBLE)
            self.freezes.begin(TROUBLE)
            self.limits.begin(TROUBLE)
            self.play_until(START + TROUBLE)
            faults.end()
            self.pauses.end()
            self.freezes.end()
            self.rates.end()
            users.end()
            self._come_to_rest()
            if self.own_queues:
                users.enqueue_last()
                self._come_to_rest()
                self.play_until(self.t + 3 * SECOND)
            return self._judge()

    def _come_to_rest(self) -> None:
        end = self.t + PATIENCE
        while self.t < end and not self._at_rest():
            self.play_until(self.t + 2 * SECOND)

    def _stand_by(self) -> None:
        """There is always a process that would lead."""
        if not self.database_away:
            self.clock_watch.see(self.store.leases.peek(0), self.t)
            lease = self.store.leases.acquire(0, f"process {self.fresh()}", self.ttl)
            if lease is not None:
                self.leaders = [leader for leader in self.leaders if not leader.dead]
                self.leaders.append(SimLeader(self, lease))
        self.push(self.t + 500 * MILLISECOND, self._stand_by)

    def _at_rest(self) -> bool:
        """Every run is final, and no occurrence is to come or unplanned."""
        tables = self.store.tables
        planned = all(row.planned_version == row.current.version for row in tables.jobs.values())
        over = all(row.state in FINAL for row in tables.runs.values()) and self.dispatcher.is_empty()
        return planned and over and self._planned_out()

    def _planned_out(self) -> bool:
        cursor, _ = self.store.tables.cursors.get(0, (None, ""))
        return cursor is not None and cursor >= START + TROUBLE + self.offset + 5 * SECOND

    def _judge(self) -> Outcome:
        self.note("the end")
        rows = self.store.tables.runs.values()
        stuck = tuple(row.run_id for row in rows if row.state not in FINAL and row.due_at <= self.database_now())
        history = history_of(self.store, now=self.database_now())
        tolerance = Tolerance(skew=self.stepped, stuck_after=60 * SECOND, window=self.settings.publish_window or 1)
        findings = tuple(violations(history, self.log, tolerance))
        impatient, hasty = tuple(self.patience.given_up), tuple(self.hasty)
        kept = tuple(self.claims.watermarks) if self.own_queues else ()
        trace = tuple(self._trace or ())
        return Outcome(
            self.seed,
            findings,
            stuck,
            impatient,
            hasty,
            len(rows),
            trace,
            tuple(self.passed),
            kept,
            (*self.pauses.unheeded, *self.freezes.unheeded),
            tuple(self.freezes.wrongly_judged()),
            tuple(self.rates.too_many()),
            (*self.limits.exceeded, *self.limits.too_fast()),
            self.own_queues,
        )


def simulate(seed: int, *, tracing: bool = False, own_queues: bool = False) -> Outcome:
    """Play one seed; with `own_queues`, half of the runs that are asked for go to queues that nobody uses again."""
    return Simulation(seed, tracing=tracing, own_queues=own_queues).run()


@contextmanager
def without_logs() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 4000 else f"{text[:4000]}..."


def main(seed: int, *, own_queues: bool = False) -> int:
    """Play the seed and print all that happened; 1 where a rule was broken, else 0."""
    outcome = simulate(seed, tracing=True, own_queues=own_queues)
    print("\n".join(outcome.trace))
    print(outcome)
    return 0 if outcome.well else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), own_queues="own-queues" in sys.argv[2:]))
