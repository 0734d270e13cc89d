"""Several partitions under a seeded schedule of faults: `python -m tests.support.partition_simulation SEED [BROKEN]`.

The leaders are those of tests/support/simulated_leader.py, so the real core, one for each partition. Slices move, and
partitions come and go meanwhile. BROKEN names a rule of `partitions.Design` to leave out.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final

from itinerary.protocol.identity import split_task_id, task_id
from itinerary.protocol.instants import MILLISECOND, SECOND
from scheduler_service.core.invariants.check import violations
from scheduler_service.core.invariants.history import Tolerance
from scheduler_service.core.model import DispatchedRun, Lease
from scheduler_service.core.run_state import FINAL, IN_FLIGHT, RunState
from tests.support.fake_rows import QueueRow
from tests.support.history import history_of
from tests.support.partition_redis import (
    Claims,
    Dispatcher,
    Inboxes,
    TermClaims,
    TermDispatcher,
    TermInbox,
    heartbeat_for,
    run_of,
)
from tests.support.partitions import SLICES, Design, Owners, PartitionStore, Terms
from tests.support.simulated_leader import SimLeader
from tests.support.simulated_limits import Limits
from tests.support.simulated_trouble import Faults, Users
from tests.support.simulated_worker import SimWorker
from tests.support.simulation import START, TROUBLE, Simulation, without_logs

_MOST_PARTITIONS: Final = 4
_OF_ALL: Final = frozenset({"heartbeat", "control_changed"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What went wrong in one seed; `moves` says how often a slice was moved."""

    seed: int
    wrong: tuple[str, ...]
    moves: int
    runs: int
    trace: tuple[str, ...]

    def __str__(self) -> str:
        how = f"replay: python -m tests.support.partition_simulation {self.seed}"
        return "\n".join([f"seed {self.seed}: {self.runs} runs, {self.moves} moves", *self.wrong, how])


class _Of:
    """The simulation as the leader of one term of one partition meets it."""

    def __init__(self, simulation: "PartitionSimulation", number: int, lease: Lease) -> None:
        self._simulation = simulation
        partition = simulation.owners.partitions[number]
        own = PartitionStore(simulation, number, lease)
        self.store = SimpleNamespace(leader=own, leases=simulation.leases, tables=simulation.store.tables)
        self.inbox = TermInbox(simulation, partition)
        self.claims = TermClaims(simulation, partition, partition.moves)
        self.dispatcher = TermDispatcher(simulation, partition, partition.moves)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._simulation, name)


class PartitionSimulation(Simulation):
    """One history of two to four partitions."""

    def __init__(self, seed: int, design: Design, *, tracing: bool = False) -> None:
        super().__init__(seed, tracing=tracing)
        # Terms end more often than elsewhere, and a cursor that is stored far ahead lets slices move.
        self.settings = replace(self.settings, pre_schedule_interval=4 * SECOND)
        tables = self.store.tables
        tables.queues.clear()  # a rate of a queue belongs to one partition, and all share this queue
        self.rates.rate = None
        self.owners = Owners(tables, design, self.random.randint(2, 3))
        self.leases = Terms(tables, design)
        self.inbox, self.claims, self.dispatcher = Inboxes(self), Claims(self), Dispatcher(self)
        self.limits = _Limits(self)
        self.came_from: dict[str, int] = {}
        self.foreign: list[str] = []
        self.stale: list[str] = []
        self.unled: set[int] = set()
        self.moved = 0
        self.redelivering = self.random.choice((0.0, 0.1, 0.4))

    # What workers and users send

    def _append(self, fields: dict[str, str]) -> None:
        if self.redis_away:
            self.push(self.t + SECOND, lambda: self._append(fields))
            return
        for number in self._addressed(fields):
            for_it = heartbeat_for(fields, number) if fields["type"] == "heartbeat" else fields
            self.owners.partitions[number].inbox.append(for_it)
        for leader in self.leaders:
            leader.kick("read", self.latency())

    def _addressed(self, fields: Mapping[str, str]) -> list[int]:
        """The partitions that an entry goes to; whoever sends a hint may know older owners."""
        numbers = [partition.number for partition in self.owners.partitions]
        body = json.loads(fields["body"])
        if fields["type"] in _OF_ALL:
            return numbers
        if "task_id" in body:
            return [self.came_from.get(body["task_id"], 0)]
        if self.random.random() < 0.1:
            return [self.random.choice(numbers)]
        if "job_id" in body:
            return [self.owners.owner_of_job(body["job_id"])]
        rows = self.store.tables.runs
        named = [*body.get("run_ids", ()), *([body["run_id"]] if "run_id" in body else ())]
        return sorted({self.owners.owner(rows[run_id]) for run_id in named if run_id in rows})

    def owner_of_report(self, fields: Mapping[str, str]) -> int | None:
        """The partition that owns the run of this entry; None where it is about none that is there."""
        row = self.store.tables.runs.get(run_of(fields) or "")
        return None if row is None else self.owners.owner(row)

    def deliver_again(self, run: DispatchedRun) -> None:
        """The message comes once more, now and then, when its run may long be over or of another partition."""
        if self.random.random() < self.redelivering and not self.calm:
            later = self.t + self.random.randrange(10 * SECOND)
            self.push(later, lambda: self.dispatcher.queues[run.queue].append(run))

    def refused(self, attempt: str, seq: int | None) -> None:
        """A worker refuses a message as older than a recall: never the latest one of a run that waits for it."""
        row = self.store.tables.runs.get(split_task_id(attempt)[0])
        is_latest = row is not None and row.state is RunState.PENDING and row.seq == seq
        if row is not None and is_latest and task_id(row.run_id, row.attempt) == attempt:
            self.stale.append(f"{attempt} of partition {self.owners.owner(row)}")

    # The play

    def run_all(self) -> Outcome:
        with without_logs():
            self._stand_by()
            self.workers = [SimWorker(self, f"w{self.fresh()}") for _ in range(3)]
            operator = Operator(self)
            users, faults = _Users(self), _Faults(self, operator)
            for one in (users, faults, self.pauses, self.freezes, self.limits, operator):
                one.begin(TROUBLE)
            self.play_until(START + TROUBLE)
            for other in (faults, self.pauses, self.freezes, users):
                other.end()
            self._come_to_rest()
            return self.judged()

    def _stand_by(self) -> None:
        """For each partition there is always a process that would lead it."""
        for partition in () if self.database_away else self.owners.partitions:
            if partition.number in self.unled:
                continue
            lease = self.leases.acquire(partition.number, f"process {self.fresh()}", self.ttl)
            if lease is not None:
                self.leaders = [leader for leader in self.leaders if not leader.dead]
                self.leaders.append(SimLeader(_Of(self, partition.number, lease), lease))  # type: ignore[arg-type]
        self.push(self.t + 500 * MILLISECOND, self._stand_by)

    def _planned_out(self) -> bool:
        cursors = [self.store.tables.cursors.get(one.number, (None, ""))[0] for one in self.owners.partitions]
        return all(cursor is not None and cursor >= START + TROUBLE + 5 * SECOND for cursor in cursors)

    def judged(self) -> Outcome:
        rows, now = self.store.tables.runs.values(), self.database_now()
        cursors = [cursor for cursor, _ in self.store.tables.cursors.values() if cursor is not None]
        history = replace(history_of(self.store, now=now), cursor=min(cursors, default=None))
        tolerance = Tolerance(skew=0, stuck_after=60 * SECOND, window=self.settings.publish_window or 1)
        wrong = [f"{one.rule}: {one.subject}: {one.message}" for one in violations(history, self.log, tolerance)]
        wrong += [f"never ended: {row.run_id}" for row in rows if row.state not in FINAL and row.due_at <= now]
        for what, found in {
            "written by a partition that does not own it": self.foreign,
            "given up in time": self.patience.given_up,
            "called lost, yet heard": self.hasty,
            "its message was refused": [*self.passed, *self.stale],
            "dispatched though paused or frozen": [*self.pauses.unheeded, *self.freezes.unheeded],
            "misjudged": self.freezes.wrongly_judged(),
            "more than a limit allows": [*self.limits.exceeded, *self.limits.too_fast()],
        }.items():
            wrong += [f"{what}: {one}" for one in found]
        return Outcome(self.seed, tuple(wrong), self.moved, len(rows), tuple(self._trace or ()))


class Operator:
    """Moves slices, adds partitions and empties them; what is refused is asked for again."""

    def __init__(self, simulation: PartitionSimulation) -> None:
        self._simulation, self._dice = simulation, simulation.random

    def begin(self, length: int) -> None:
        for _ in range(self._dice.randint(2, 8)):
            actions = (self.move_one, self.move_one, self.move_what_is_in_flight, self.grow, self.shrink)
            action = self._dice.choice(actions)
            self._simulation.push(self._simulation.t + self._dice.randrange(length), action)

    def move_one(self) -> None:
        self._move(self._dice.randrange(SLICES), self._dice.choice(self._simulation.owners.partitions).number)

    def move_what_is_in_flight(self) -> None:
        """Every slice of which an attempt may run moves somewhere, soon."""
        simulation = self._simulation
        rows = simulation.store.tables.runs.values()
        for number in sorted({simulation.owners.slice_of(row) for row in rows if row.state in IN_FLIGHT}):
            to = self._dice.choice(simulation.owners.partitions).number
            at = simulation.t + self._dice.randrange(2 * SECOND)
            simulation.push(at, lambda slice_=number, owner=to: self._move(slice_, owner))

    def grow(self) -> None:
        """A partition more, which gets every second slice of another one."""
        partitions = self._simulation.owners.partitions
        if len(partitions) < _MOST_PARTITIONS:
            giver = self._dice.choice(partitions).number
            partitions.append(self._simulation.inbox.add(len(partitions)))
            self._simulation.note(f"operator: partition {partitions[-1].number} is new")
            for number in sorted(self._simulation.owners.slices_of(giver))[::2]:
                self._move(number, partitions[-1].number)

    def shrink(self) -> None:
        """The last partition loses all its slices; its leader stays and forwards late reports."""
        last = self._simulation.owners.partitions[-1].number
        for number in self._simulation.owners.slices_of(last):
            self._move(number, self._dice.randrange(last))

    def _move(self, number: int, to: int) -> None:
        simulation = self._simulation
        if simulation.calm or simulation.owners.of_slice[number] == to:
            return
        giver = simulation.owners.of_slice[number]
        if not simulation.database_away and simulation.owners.move(number, to, simulation.database_now()):
            simulation.moved += 1
            simulation.note(f"operator: slice {number} moves from {giver} to {to}")
        else:
            simulation.push(simulation.t + 200 * MILLISECOND, lambda: self._move(number, to))


class _Users(Users):
    """As ever, with enough jobs for several partitions."""

    def __init__(self, simulation: PartitionSimulation) -> None:
        super().__init__(simulation)
        self._names = [f"j{number}" for number in range(4)]


class _Limits(Limits):
    """Named limits only: one of a queue would be of one partition, with all that is in the queue."""

    def _edit(self) -> None:
        super()._edit()
        tables = self._simulation.store.tables
        row = tables.queues["default"]
        tables.queues["default"] = QueueRow(fair=row.fair, pause=row.pause)


class _Faults(Faults):
    """Faults of one leader at a time as well as of all; clocks that step are for one partition to prove."""

    def __init__(self, simulation: PartitionSimulation, operator: Operator) -> None:
        super().__init__(simulation)
        self._operator = operator

    def _wipe(self) -> None:
        """What is worst: slices move while nobody knows what runs."""
        super()._wipe()
        self._operator.move_what_is_in_flight()

    def begin(self, length: int) -> None:
        self.recall()
        faults = (
            self.kill_leader, self.kill_one, self.kill_one, self.cut_one, self.cut_one, self.freeze_one,
            self.freeze_one, self.freeze_one, self.stop_one, self.kill_worker, self.freeze_worker, self.redis_away,
            self.freeze_redis, self.database_away, self.freeze_all, self.wipe_redis, self.wipe_redis,
            self.restart_redis,
        )  # fmt: skip
        for _ in range(self._dice.randint(1, 7)):
            at = self._simulation.t + self._dice.randrange(length)
            self._simulation.push(at, self._dice.choice(faults))

    def _one(self) -> list[SimLeader]:
        leaders = [leader for leader in self._simulation.leaders if not leader.dead]
        return [self._dice.choice(leaders)] if leaders else []

    def kill_one(self) -> None:
        for leader in self._one():
            leader.die("killed")

    def cut_one(self) -> None:
        for leader in self._one():
            leader.die_after(self._dice.randint(1, 6))

    def freeze_one(self) -> None:
        for leader in self._one():
            leader.freeze(self._length())

    def stop_one(self) -> None:
        for leader in self._one():
            leader.stop()


def simulate(seed: int, design: Design = Design(), *, tracing: bool = False) -> Outcome:  # noqa: B008
    """Play one seed."""
    return PartitionSimulation(seed, design, tracing=tracing).run_all()


def main(seed: int, *broken: str) -> int:
    """Play the seed and print all that happened; 1 where a promise was broken, else 0."""
    outcome = simulate(seed, Design(**dict.fromkeys(broken, False)), tracing=True)
    print("\n".join(outcome.trace))
    print(outcome)
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
