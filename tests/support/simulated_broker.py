"""The broker of a simulation: messages are overtaken, come twice or vanish, and replies are lost."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.identity import task_id
from scheduler_service.core.model import DispatchedRun
from scheduler_service.core.run_state import RunState
from tests.support.fakes_redis import FakeClaims, FakeDispatcher

if TYPE_CHECKING:
    from tests.support.simulation import Simulation


class SimDispatcher(FakeDispatcher):
    """The broker's queues: messages are overtaken, come twice, and the reply to a publish may be lost."""

    def __init__(self, simulation: "Simulation") -> None:
        super().__init__()
        self._simulation = simulation

    def publish(self, runs: Sequence[DispatchedRun]) -> None:
        dice = self._simulation.random
        sent = runs if dice.random() >= self._simulation.unsure else runs[: dice.randint(0, len(runs))]
        super().publish(sent)
        if sent is not runs:
            self._simulation.note(f"publish broke after {len(sent)} of {len(runs)}")
            raise BrokerUnavailable("broke")

    def pop_run(self, queue: str) -> DispatchedRun | None:
        waiting, dice = self._queues[queue], self._simulation.random
        if len(waiting) > 1 and dice.random() < self._simulation.shuffling:
            waiting.rotate(-dice.randrange(len(waiting)))
        if waiting and dice.random() < self._simulation.doubling:
            waiting.append(waiting[0])
        return super().pop_run(queue)

    def pop_next(self) -> DispatchedRun | None:
        """The next message of any queue; that of the one queue that every history has comes first."""
        queues = [queue for queue, waiting in self._queues.items() if waiting]
        return self.pop_run("default" if "default" in queues else queues[0]) if queues else None

    def is_empty(self) -> bool:
        return not any(self._queues.values())

    def revoke(self, task_ids: Sequence[str]) -> None:
        super().revoke(task_ids)
        for attempt in task_ids:
            if self._simulation.random.random() < 0.8:
                for worker in self._simulation.workers:
                    worker.stop_task(attempt)


class SimClaims(FakeClaims):
    """Claims that see whether a low watermark passes the message of a run that nobody has started."""

    def __init__(self, simulation: "Simulation") -> None:
        super().__init__()
        self._simulation = simulation
        self.recalled: dict[str, int] = {}
        self.taken: set[str] = set()

    def take(self, task_ids: Sequence[str]) -> list[bool] | None:
        won = super().take(task_ids)
        self.taken.update(one for one, is_won in zip(task_ids, won or (), strict=False) if is_won)
        return won

    def recall(self, messages: Sequence[tuple[str, int]]) -> list[bool] | None:
        won = super().recall(messages)
        for (attempt, seq), is_won in zip(messages, won or (), strict=False):
            if is_won:
                self.recalled[attempt] = max(seq, self.recalled.get(attempt, 0))
        return won

    def raise_watermarks(self, watermarks: Mapping[str, int], lowest: int) -> dict[str, int]:
        simulation, rows = self._simulation, self._simulation.store.tables.runs
        for sent in simulation.dispatcher.published:
            row, attempt = rows.get(sent.run_id), task_id(sent.run_id, sent.attempt)
            is_waited_for = row is not None and row.state is RunState.PENDING and row.attempt == sent.attempt
            # A wipe may lose the claim by which the leader withdrew it, before its end is committed.
            is_held = attempt in self.holders or attempt in self.taken
            has_started = (sent.run_id, sent.attempt) in simulation.log or is_held
            if sent.seq <= self.recalled.get(attempt, 0):
                continue  # a later message of it is waited for
            if is_waited_for and not has_started and sent.seq < max(lowest, watermarks.get(sent.queue, 0)):
                simulation.note(
                    f"PASSED {attempt}: its message {sent.seq} in {sent.queue}, by {watermarks} and {lowest}"
                )
                simulation.passed.append(attempt)
        return super().raise_watermarks(watermarks, lowest)
