"""A rate of the queue of most runs in a simulation, and the windows in which more was started than it allows."""

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from itinerary.protocol.identity import split_task_id
from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.limits import Bounds, Rate
from tests.support.fake_rows import QueueRow

if TYPE_CHECKING:
    from tests.support.simulation import Simulation

_QUEUE: Final = "default"


class Rates:
    """A rate in half of the histories, from their beginning until the trouble is over.

    An attempt that a worker started and that another started again after Redis lost its claim is one start: no leader
    heard of the first.
    """

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        # Of its own, so that a seed without a rate is otherwise the history that it was.
        dice = random.Random(f"rates of {simulation.seed}")
        count, per = dice.choice((1, 3, 10, 40)), dice.choice((1, 2, 5, 10))
        self.rate = Rate(count, per * SECOND) if dice.random() < 0.5 else None
        self._starts: list[tuple[Instant, str]] = []
        self._set(Bounds(rate=self.rate))

    def end(self) -> None:
        """No rate holds any more: what waits may be much."""
        self._set(Bounds())
        self._judged, self._starts = self._over(), []

    def started(self, attempt: str) -> None:
        """A worker starts this attempt now."""
        row = self._simulation.store.tables.runs.get(split_task_id(attempt)[0])
        if row is not None and row.queue == _QUEUE:
            self._starts.append((self._simulation.t, attempt))

    def too_many(self) -> list[str]:
        """The windows with more starts than the rate allows, by their last start."""
        return self._judged

    def _over(self) -> list[str]:
        if self.rate is None:
            return []
        found = []
        for last, attempt in self._starts:
            within = {one for at, one in self._starts if last - self.rate.per < at <= last}
            if len(within) > self.rate.count:
                found.append(f"{attempt} was one of {len(within)} in {self.rate}")
        return found

    def _set(self, bounds: Bounds) -> None:
        tables = self._simulation.store.tables
        row = tables.queues.get(_QUEUE, QueueRow())
        if row.bounds != bounds:
            tables.queues[_QUEUE] = replace(row, bounds=bounds)
            tables.control += 1
