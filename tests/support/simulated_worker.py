"""A worker process in a simulation, which does what the real one promises; what it started is the truth."""

from collections import deque
from typing import TYPE_CHECKING, Any

from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import MILLISECOND, MINUTE, SECOND, Instant, format_instant
from itinerary.protocol.wire import RECALLS_FIELD, entry
from tests.support.simulated_process import Process

if TYPE_CHECKING:
    from tests.support.simulation import Simulation


class SimWorker(Process):
    """A worker process: pops when it has a free slot, claims, runs, reports; says every two seconds what it has."""

    SLOTS = 2

    def __init__(self, simulation: "Simulation", name: str) -> None:
        super().__init__(simulation, name)
        self.received: list[tuple[str, int, str]] = []
        self._epoch: str | None = None
        self._told: list[tuple[Instant, Instant, str, dict[str, Any]]] = []
        self.running: dict[str, Instant] = {}
        self._over: set[str] = set()
        self._reports: deque[tuple[str, str, dict[str, Any]]] = deque()
        self.kick("take", 0)
        self.kick("beat", simulation.random.randrange(2 * SECOND))

    def turn_take(self) -> None:
        """One message off the queue; some are lost on their way, some come twice."""
        self.kick("take", SECOND)
        simulation = self.simulation
        if simulation.redis_away or len(self.received) + len(self.running) >= self.SLOTS:
            return
        run = simulation.dispatcher.pop_next()
        if run is None:
            return
        attempt = task_id(run.run_id, run.attempt)
        if simulation.random.random() < simulation.losing:
            simulation.note(f"{self.name}: {attempt} popped and lost")
        else:
            self.received.append((attempt, run.seq, run.queue))
            self.kick("claim", simulation.latency())
        self.kick("take", simulation.latency())

    def turn_claim(self) -> None:
        """Whatever was received is claimed; the claim writes `started` in the same breath."""
        simulation = self.simulation
        if simulation.redis_away:
            return self.kick("claim", 300 * MILLISECOND)
        asked, self.received = self.received, []
        for attempt, seq, queue in asked:
            token = f"{self.name}-{simulation.t}-{simulation.fresh()}"
            verdict = simulation.claims.ask(attempt, token, queue, seq)
            if verdict == "wait":
                self.received.append((attempt, seq, queue))
                self._speak()
                self.kick("claim", 500 * MILLISECOND)
            if verdict != "won":
                simulation.note(f"{self.name}: claim of {attempt}: {verdict}")
                continue
            body = {"task_id": attempt, "worker": self.name, "seq": seq}
            simulation.send("started", body)
            simulation.log_start(attempt)
            self.running[attempt] = simulation.host_now()
            simulation.said([attempt])
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
            self._told.append((simulation.t, simulation.host_now(), kind, body))
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
        name = simulation.claims.query_epoch().name
        if name == self._epoch:
            return
        self._told = [one for one in self._told if one[0] > simulation.t - MINUTE]
        for _, said_at, kind, body in self._told:
            simulation.send_again(kind, said_at, body)
        self._epoch = name
        self._beat()

    def told_lately(self) -> list[str]:
        return [body["task_id"] for at, _, _, body in self._told if at > self.simulation.t - MINUTE]

    def _beat(self) -> None:
        body = {
            "worker": self.name, "running": list(self.running), "received": [attempt for attempt, *_ in self.received],
            "concurrency": self.SLOTS, "queues": ["default"], "generation": self._epoch,
            RECALLS_FIELD: True,
        }  # fmt: skip
        self.simulation.send("heartbeat", body)
        self.simulation.said(self.running)
