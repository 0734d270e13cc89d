"""The scheduled run index: the coming runs by time, for any reader, while a new snapshot is being built.

A snapshot is immutable: times and job ordinals side by side, ordered by (time, job id), 12 bytes a run. Replacing it is
one reference assignment, so readers never lock and always see one whole snapshot. Queries are [start, end): two binary
searches and two views, no copy. Holds no definitions and decides nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import lt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import Instant
from scheduler_service.core.index.expansion import Entry, Expansion, ScheduleTable, expand_table
from scheduler_service.core.index.ordering import NO_RUNS, Runs, ordered_runs

Ints = NDArray[np.int64]
Ordinals = NDArray[np.int32]


class ScheduledRun(NamedTuple):
    """One planned run."""

    job_id: str
    scheduled_at: Instant


@dataclass(frozen=True, slots=True, eq=False)
class RunSlice:
    """Consecutive runs of one snapshot: views into its arrays, and its job table."""

    times: Ints
    ordinals: Ordinals
    job_ids: Sequence[str]

    def __len__(self) -> int:
        return self.times.size

    def __iter__(self) -> Iterator[ScheduledRun]:
        ids = self.job_ids
        for ordinal, time in zip(self.ordinals.tolist(), self.times.tolist(), strict=True):
            yield ScheduledRun(ids[ordinal], time)


@dataclass(frozen=True, slots=True, eq=False)
class IndexSnapshot:
    """All runs in [start, end) as of `revision`; `job_ids` is indexed by ordinal."""

    times: Ints
    ordinals: Ordinals
    job_ids: Sequence[str]
    start: Instant
    end: Instant
    revision: int
    first: ScheduledRun | None
    failures: tuple[tuple[int, str], ...] = ()

    def query(self, start: Instant, end: Instant) -> RunSlice:
        """The runs in [start, end), in order."""
        low = self.times.searchsorted(start)
        high = self.times.searchsorted(end)
        return RunSlice(self.times[low:high], self.ordinals[low:high], self.job_ids)

    def all(self) -> RunSlice:
        """Every run, in order."""
        return RunSlice(self.times, self.ordinals, self.job_ids)


def _snapshot(found: Expansion, job_ids: Sequence[str], start: Instant, end: Instant, revision: int) -> IndexSnapshot:
    found.times.flags.writeable = False
    found.ordinals.flags.writeable = False
    first = None
    if found.times.size:
        first = ScheduledRun(job_ids[int(found.ordinals[0])], int(found.times[0]))
    return IndexSnapshot(found.times, found.ordinals, job_ids, start, end, revision, first, found.failures)


def build_snapshot(
    entries: Sequence[Entry] | ScheduleTable, job_ids: Sequence[str], start: Instant, end: Instant, revision: int
) -> IndexSnapshot:
    """Build the snapshot of these entries (or of a kept schedule table) over [start, end)."""
    table = entries if isinstance(entries, ScheduleTable) else ScheduleTable.of(entries)
    return _snapshot(expand_table(table, start, end), job_ids, start, end, revision)


def from_unsorted(
    times: Ints, ordinals: Ordinals, job_ids: Sequence[str], start: Instant, end: Instant, revision: int = 0
) -> IndexSnapshot:
    """Build the snapshot of runs in any order, without duplicates.

    `job_ids` must ascend, so that ordinals order jobs as their ids do; raises ValueError otherwise.
    """
    if not all(map(lt, job_ids, islice(job_ids, 1, None))):
        raise ValueError("the job table is not in order of job ids")
    runs = ordered_runs(Runs(times, ordinals), len(job_ids)) if times.size else NO_RUNS
    return _snapshot(Expansion(runs.times, runs.positions, ()), job_ids, start, end, revision)


EMPTY: Final = IndexSnapshot(NO_RUNS.times, NO_RUNS.positions, (), 0, 0, 0, None)


class ScheduledRunIndex:
    """The index that readers hold; each call works on the snapshot current at its start."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: IndexSnapshot = EMPTY) -> None:
        self._snapshot = snapshot

    @property
    def snapshot(self) -> IndexSnapshot:
        """The current snapshot; hold it to run several queries against the same one."""
        return self._snapshot

    def swap(self, snapshot: IndexSnapshot) -> IndexSnapshot:
        """Install a new snapshot and return the previous one, which its readers keep using."""
        before, self._snapshot = self._snapshot, snapshot
        return before

    def query(self, start: Instant, end: Instant) -> RunSlice:
        """The runs in [start, end), ordered by (time, job id): views, O(log n)."""
        return self._snapshot.query(start, end)

    def peek(self) -> ScheduledRun | None:
        """The earliest run, or None: O(1)."""
        return self._snapshot.first

    def __len__(self) -> int:
        return self._snapshot.times.size

    def __iter__(self) -> Iterator[ScheduledRun]:
        return iter(self._snapshot.all())
