"""Users that pause and resume queues in a simulation, and what a leader dispatched although a pause held it."""

import random
from typing import TYPE_CHECKING, Final

from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.model import DispatchedRun

if TYPE_CHECKING:
    from tests.support.simulation import Simulation

_BY: Final = AuditedChange("user", "operator", "queue.pause")


class Pauses:
    """Pauses of the queue of most runs, in half of the histories; `unheeded`: what was dispatched within one."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        # Of its own, so that a seed is otherwise the history that it was.
        self._dice = random.Random(f"pauses of {simulation.seed}")
        self.unheeded: list[str] = []

    def begin(self, length: Duration) -> None:
        if self._dice.random() < 0.5:
            for _ in range(self._dice.randint(1, 4)):
                at = self._simulation.t + self._dice.randrange(length)
                self._simulation.push(at, self._pause)
                self._simulation.push(at + self._dice.randrange(10 * SECOND), self._resume)

    def end(self) -> None:
        """No pause holds any more."""
        self._simulation.store.queues.resume("default", by=_BY)

    def dispatched(self, runs: tuple[DispatchedRun, ...], now: Instant) -> None:
        """Judge a dispatch at its commit."""
        for run in runs:
            row = self._simulation.store.tables.queues.get(run.queue)
            if row is not None and row.pause is not None and row.pause.holds(now):
                self.unheeded.append(run.run_id)

    def _pause(self) -> None:
        until = None
        if self._dice.random() < 0.5:
            until = self._simulation.database_now() + self._dice.randrange(1, 8 * SECOND)
        if not self._simulation.database_away:
            self._simulation.note(f"user: pause of the queue until {until}")
            self._simulation.store.queues.pause("default", "trouble", until, by=_BY)
            self._tell()

    def _resume(self) -> None:
        if not self._simulation.database_away:
            self._simulation.note("user: the queue goes on")
            self._simulation.store.queues.resume("default", by=_BY)
            self._tell()

    def _tell(self) -> None:
        if self._dice.random() >= 0.3:
            self._simulation.send("control_changed", {})
