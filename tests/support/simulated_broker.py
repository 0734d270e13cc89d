"""The broker of a simulation: messages are overtaken, come twice or vanish, and replies are lost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler_service.core.errors import BrokerUnavailable
from scheduler_service.core.model import ReleasedRun
from tests.support.fakes_redis import FakeDispatcher

if TYPE_CHECKING:
    from tests.support.simulation import Simulation


class SimDispatcher(FakeDispatcher):
    """The broker's queues: messages are overtaken, come twice, and the reply to a publish may be lost."""

    def __init__(self, simulation: "Simulation") -> None:
        super().__init__()
        self._simulation = simulation

    def publish(self, runs: Sequence[ReleasedRun]) -> None:
        dice = self._simulation.random
        sent = runs if dice.random() >= self._simulation.unsure else runs[: dice.randint(0, len(runs))]
        super().publish(sent)
        if sent is not runs:
            self._simulation.note(f"publish broke after {len(sent)} of {len(runs)}")
            raise BrokerUnavailable("broke")

    def pop_run(self, queue: str) -> ReleasedRun | None:
        waiting, dice = self._queues[queue], self._simulation.random
        if len(waiting) > 1 and dice.random() < self._simulation.shuffling:
            waiting.rotate(-dice.randrange(len(waiting)))
        if waiting and dice.random() < self._simulation.doubling:
            waiting.append(waiting[0])
        return super().pop_run(queue)

    def revoke(self, task_ids: Sequence[str]) -> None:
        super().revoke(task_ids)
        for task_id in task_ids:
            if self._simulation.random.random() < 0.8:
                for worker in self._simulation.workers:
                    worker.stop_task(task_id)
