"""Partitions as manual/scaling.md designs them, on the fake store: who owns which job, and what a move changes.

Every rule of the design is a field of `Design`, so that a test can break it. The leaders themselves are the real core.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.leader.commands import Apply, CreateRuns, Dispatch
from scheduler_service.core.model import Lease, NewRun
from scheduler_service.core.run_state import FINAL
from scheduler_service.ports.leases import LeaseView
from scheduler_service.ports.stores import Dispatched
from tests.support.fake_leader import FakeLeaderStore
from tests.support.fake_lease import FakeLeaseStore
from tests.support.fake_rows import JobRow, RunRow, Tables
from tests.support.fakes_redis import FakeInbox

if TYPE_CHECKING:
    from tests.support.partition_simulation import PartitionSimulation

SLICES: Final = 6
_OF_LIMITS: Final = 0
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Design:
    """The rules; each one is broken once in tests/replay/test_partitions.py."""

    ends_terms: bool = True
    """A move ends the terms of giver and receiver, so that a leader owns the same jobs for its whole term."""
    fences_late_leaders: bool = True
    """A write of a term that is over is refused."""
    needs_cursors_ahead: bool = True
    """No slice moves while a cursor of either partition lies in the past."""
    one_sequence_of_terms: bool = True
    """Terms of all partitions come from one sequence, and so do the numbers of messages."""
    begins_an_epoch: bool = True
    """A receiver accepts the epoch again, once it knows what every worker runs."""
    keeps_claims: bool = True
    """A claim of an attempt that was moved in flight expires, and is never removed before."""
    forwards_reports: bool = True
    """A leader forwards reports of runs that it does not own, before it commits its position."""
    limit_in_one_slice: bool = True
    """All runs that count for a limit are of one partition."""
    own_watermarks: bool = True
    """Each partition has low watermarks of its own."""


@dataclass(slots=True)
class Partition:
    """What the database and Redis keep of one partition: `moves`, how many slices it was given, is the database's."""

    number: int
    inbox: FakeInbox = field(default_factory=FakeInbox)
    moves: int = 0
    life: int = 0
    seen_moves: int = 0
    accepted: tuple[str, int, int] = ("", 0, 0)
    broker_accepted: tuple[str, int] = ("", 0)
    watermarks: dict[str, int] = field(default_factory=dict)

    def forget(self, life: int, *, broker: bool) -> None:
        """Redis has lost its data; another name stands for those that follow."""
        self.inbox.wipe()
        self.watermarks.clear()
        self.life, self.seen_moves, self.accepted = life, 0, ("", 0, 0)
        if broker:
            self.broker_accepted = ("", 0)


class Owners:
    """Which partition owns which slice; a job's slice never changes."""

    def __init__(self, tables: Tables, design: Design, partitions: int) -> None:
        self.design = design
        self.partitions = [Partition(number) for number in range(partitions)]
        self.of_slice = {number: number % partitions for number in range(SLICES)}
        self.moved: set[str] = set()
        self._tables = tables

    def slice_of(self, run: RunRow | NewRun) -> int:
        """By its limits, else by its job, else by its own id."""
        if run.limits and self.design.limit_in_one_slice:
            return _OF_LIMITS
        return slice_of_job(run.job_id or run.run_id)

    def owner(self, run: RunRow | NewRun) -> int:
        return self.of_slice[self.slice_of(run)]

    def owner_of_job(self, job_id: str) -> int:
        return self.of_slice[slice_of_job(job_id)]

    def slices_of(self, partition: int) -> frozenset[int]:
        return frozenset(number for number, owner in self.of_slice.items() if owner == partition)

    def move(self, number: int, to: int, now: Instant) -> bool:
        """Give the slice to another partition, in one transaction; refused while that could lose or double something.

        Both partitions have a leader that has planned ahead, and every edit of a job of the slice is planned. So
        nothing was dispatched, skipped or judged of what the receiver plans again, from its cursor to the cut.
        """
        giver, jobs = self.of_slice[number], self._jobs_of(number)
        cursors = [self._tables.cursors.get(partition, (None, ""))[0] for partition in (giver, to)]
        if giver == to or not (self._is_led(giver, now) and self._is_led(to, now)) or None in cursors:
            return False
        cut, *others = [cursor for cursor in cursors if cursor is not None]
        if self.design.needs_cursors_ahead and min(cut, *others) < now:
            return False
        if any(_is_unplanned(row, cut) for row in jobs):
            return False
        for row in jobs:
            row.versions.append(replace(row.current, version=len(row.versions) + 1, effective_from=cut))
            row.actors.append(None)
        self.moved |= {task_id(row.run_id, row.attempt) for row in self._in_flight(number)}
        self.of_slice[number] = to
        self.partitions[to].moves += self.design.begins_an_epoch
        for partition in (giver, to) if self.design.ends_terms else ():
            self._tables.leases[partition].resigned = True
        return True

    def _jobs_of(self, number: int) -> list[JobRow]:
        return [row for job_id, row in self._tables.jobs.items() if slice_of_job(job_id) == number]

    def _in_flight(self, number: int) -> list[RunRow]:
        """Those of which a message may be somewhere; what was recalled has one too."""
        rows = self._tables.runs.values()
        return [row for row in rows if self.slice_of(row) == number and row.seq and row.state not in FINAL]

    def _is_led(self, partition: int, now: Instant) -> bool:
        row = self._tables.leases.get(partition)
        return row is not None and not row.resigned and now < row.expires_at


class Terms(FakeLeaseStore):
    """Leases of several partitions, whose terms come from one sequence."""

    def __init__(self, tables: Tables, design: Design) -> None:
        super().__init__(tables)
        self._design = design

    def acquire(self, shard: int, holder: str, ttl: Duration, stalled: LeaseView | None = None) -> Lease | None:
        highest = max((row.term for row in self._tables.leases.values()), default=0)
        lease = super().acquire(shard, holder, ttl, stalled)
        if lease is None or not self._design.one_sequence_of_terms:
            return lease
        self._tables.leases[shard].term = highest + 1
        return replace(lease, term=highest + 1)


class PartitionStore(FakeLeaderStore):
    """What the leader of one term reads and writes: the slices that its partition had when the term began."""

    def __init__(self, simulation: "PartitionSimulation", partition: int, lease: Lease) -> None:
        self._simulation, self._partition = simulation, partition
        self._owners = owners = simulation.owners
        own, shared = owners.slices_of(partition), simulation.store.tables
        runs = _Own(shared.runs, lambda row: owners.slice_of(row) in own)
        jobs = _Own(shared.jobs, lambda row: slice_of_job(row.current.job_id) in own)
        super().__init__(cast(Tables, _OwnTables(shared, runs, jobs, owners.design, lease)))

    def create_runs(self, lease: Lease, batch: CreateRuns) -> tuple[str, ...]:
        refused = super().create_runs(lease, batch)
        self._judge("planned", [run for run in batch.runs if run.run_id not in refused])
        return refused

    def dispatch_runs(self, lease: Lease, dispatches: Sequence[Dispatch], now: Instant, control: int = 0) -> Dispatched:
        found = super().dispatch_runs(lease, dispatches, now, control)
        rows = self._simulation.store.tables.runs
        self._judge("dispatched", [rows[run.run_id] for run in found.dispatched])
        return found

    def apply(self, lease: Lease, batch: Apply) -> tuple[str, ...]:
        rows = self._simulation.store.tables.runs
        named = [rows[change.run_id] for change in batch.transitions if change.run_id in rows]
        refused = super().apply(lease, batch)
        self._judge("changed", [row for row in named if row.run_id not in refused])
        return refused

    def _judge(self, what: str, runs: Sequence[RunRow | NewRun]) -> None:
        for run in runs:
            if (owner := self._owners.owner(run)) != self._partition:
                self._simulation.foreign.append(f"{run.run_id} {what} by {self._partition}, owned by {owner}")


class _Own(MutableMapping[str, Row]):
    """The rows of a table that some condition admits."""

    def __init__(self, rows: dict[str, Row], admits: Callable[[Row], bool]) -> None:
        self._rows, self._admits = rows, admits

    def __getitem__(self, key: str) -> Row:
        row = self._rows[key]
        if not self._admits(row):
            raise KeyError(key)
        return row

    def __setitem__(self, key: str, row: Row) -> None:
        self._rows[key] = row

    def __delitem__(self, key: str) -> None:
        del self._rows[key]

    def __iter__(self) -> Iterator[str]:
        return iter([key for key, row in self._rows.items() if self._admits(row)])

    def __len__(self) -> int:
        return sum(map(self._admits, self._rows.values()))


class _OwnTables:
    """The tables with only the jobs and runs of some slices; everything else is that of all."""

    def __init__(
        self, tables: Tables, runs: Mapping[str, RunRow], jobs: Mapping[str, JobRow], design: Design, lease: Lease
    ) -> None:
        own = {"_shared": tables, "runs": runs, "jobs": jobs, "_design": design, "_lease": lease}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def check(self, lease: Lease) -> None:
        """The fence."""
        if self._design.fences_late_leaders:
            self._shared.check(lease)
        elif lease.term != self._lease.term:
            raise LeaseLost("another term")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._shared, name, value)


def slice_of_job(name: str) -> int:
    """The slice of a job, or of a run that is of no job and counts for no limit."""
    return zlib.crc32(name.encode()) % SLICES


def _is_unplanned(row: JobRow, cut: Instant) -> bool:
    return row.planned_version != row.current.version or row.current.effective_from > cut
