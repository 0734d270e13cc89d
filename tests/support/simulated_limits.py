"""Users that edit limits and ask for runs with them in a simulation, and what was more at once than a limit allows."""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from itinerary.protocol.identity import adhoc_run_id, split_task_id
from itinerary.protocol.instants import MILLISECOND, SECOND, Duration, Instant
from itinerary.protocol.limits import LimitUse, lane_of
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.limits import QUEUE, Bounds, Limit, Rate
from scheduler_service.core.model import DispatchedRun, NewRun, RunKind
from scheduler_service.core.run_state import IN_FLIGHT
from tests.support.fake_rows import QueueRow, RunRow

if TYPE_CHECKING:
    from tests.support.simulation import Simulation

_RATE: Final = Rate(3, 2 * SECOND)
_USES: Final = (
    (LimitUse("api"),), (LimitUse("tenant", "a"),), (LimitUse("tenant", "b"),), (LimitUse("rated"),),
    (LimitUse("api"), LimitUse("tenant", "a")), (LimitUse("tenant", "a"), LimitUse("rated")), (LimitUse("gone"),),
)  # fmt: skip


class Limits:
    """Limits and runs that count for them, in two thirds of the histories; `exceeded`: where there were too many."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        # Of its own, so that a seed is otherwise the history that it was.
        self._dice = random.Random(f"limits of {simulation.seed}")
        self._made = 0
        self._most: dict[str, int] = {}
        self._starts: dict[LimitUse, dict[str, Instant]] = defaultdict(dict)
        self.exceeded: list[str] = []

    def begin(self, length: Duration) -> None:
        if self._dice.random() < 0.33:
            return
        self._edit()
        for _ in range(self._dice.randint(1, 5)):
            self._later(length, self._edit)
        for _ in range(self._dice.randint(5, 25)):
            self._later(length, self._enqueue)

    def dispatched(self, runs: tuple[DispatchedRun, ...]) -> None:
        """Judge a dispatch at its commit: what is in flight by then, for each limit of what was dispatched."""
        rows = self._simulation.store.tables.runs
        for use in {use for run in runs for use in _uses(rows[run.run_id])}:
            in_flight = [row.run_id for row in rows.values() if row.state in IN_FLIGHT and use in _uses(row)]
            most = self._concurrency(use)
            if most is not None and len(in_flight) > most:
                self.exceeded.append(f"{use}: {in_flight} were in flight, of {most}")

    def started(self, attempt: str) -> None:
        """Judge a start: the tasks that run by then, those aside whose attempts were given up."""
        rows = self._simulation.store.tables.runs
        row = rows.get(split_task_id(attempt)[0])
        for use in () if row is None else _uses(row):
            self._starts[use].setdefault(attempt, self._simulation.t)
            running = {one for worker in self._simulation.workers for one in worker.running if self._counts(one, use)}
            running.add(attempt)
            if len(running) > self._most.get(use.name, len(running)):
                self.exceeded.append(f"{use}: {sorted(running)} ran, of {self._most[use.name]}")

    def too_fast(self) -> list[str]:
        """Windows in which more attempts started than the rate allows."""
        found = []
        for use, starts in self._starts.items():
            times = sorted(starts.values()) if use.name == "rated" else []
            for first, last in zip(times, times[_RATE.count :], strict=False):
                if last - first < _RATE.per:
                    found.append(f"{use}: {_RATE.count + 1} starts within {(last - first) / SECOND} s")
        return found

    def _counts(self, attempt: str, use: LimitUse) -> bool:
        run_id, number = split_task_id(attempt)
        row = self._simulation.store.tables.runs.get(run_id)
        return row is not None and row.attempt == number and row.state in IN_FLIGHT and use in _uses(row)

    def _concurrency(self, use: LimitUse) -> int | None:
        tables = self._simulation.store.tables
        if use.name.startswith(QUEUE):
            row = tables.queues.get(use.name.removeprefix(QUEUE))
            return None if row is None else row.bounds.concurrency
        limit = tables.limits.get(use.name)
        return None if limit is None else limit.bounds_of(use.key).concurrency

    def _later(self, length: Duration, action: object) -> None:
        self._simulation.push(self._simulation.t + self._dice.randrange(length), lambda: self._act(action))

    def _act(self, action: object) -> None:
        if not self._simulation.database_away and callable(action):
            action()

    def _edit(self) -> None:
        """Every limit has other bounds; now and then the queue has its own, or lanes that take turns."""
        dice, tables = self._dice, self._simulation.store.tables
        api, tenant = dice.randint(1, 3), dice.randint(1, 2)
        override = Bounds(dice.randint(1, 3))
        gone = {"gone": Limit("gone", Bounds(1))} if dice.random() < 0.5 else {}
        tables.limits = gone | {
            "api": Limit("api", Bounds(api)),
            "tenant": Limit("tenant", Bounds(tenant), per_key=True, overrides={"b": override}),
            "rated": Limit("rated", Bounds(rate=_RATE)),
        }
        concurrency = dice.choice((None, None, dice.randint(2, 4)))
        queue = tables.queues.get("default", QueueRow())
        bounds = replace(queue.bounds, concurrency=concurrency)
        tables.queues["default"] = replace(queue, bounds=bounds, fair=dice.random() < 0.5)
        tables.control += 1
        for name, most in (("api", api), ("tenant", max(tenant, override.concurrency or 0))):
            self._most[name] = max(most, self._most.get(name, 0))
        self._simulation.note(f"user: {tables.limits}, queue {tables.queues['default']}")
        if dice.random() >= 0.3:
            self._simulation.send("control_changed", {})

    def _enqueue(self) -> None:
        dice, at = self._dice, self._simulation.database_now()
        self._made += 1
        uses = dice.choice(_USES)
        if any(use.name not in self._simulation.store.tables.limits for use in uses):
            return
        retry = RetryPolicy(max_attempts=dice.randint(1, 3), initial=500 * MILLISECOND, jitter=False)
        run_id = adhoc_run_id(f"limited{self._made:03}")
        lane = lane_of(uses, dice.choice((None, "x", "y")))
        run = NewRun(
            run_id, RunKind.ADHOC, "demo.task", at, at, retry=retry, limits=uses, lane=lane, priority=dice.randint(4, 5)
        )
        self._simulation.note(f"user: {run_id} with {uses}")
        self._simulation.store.runs.enqueue([run])
        if dice.random() >= 0.1:
            self._simulation.send("run_enqueued", {"run_ids": [run_id]})


def _uses(row: RunRow) -> Iterable[LimitUse]:
    return (LimitUse(QUEUE + row.queue), *row.limits)
