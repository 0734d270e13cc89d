"""The scheduled run index: what is due when, for any reader, while a new one is being made.

A generation is immutable: times and job ordinals side by side, ordered by (time, job id), 12 bytes a
run. Replacing it is one reference assignment, so that readers never lock and always see one whole
generation. Queries are [start, end): two binary searches and two views, no copy. Holds no definitions
and decides nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import lt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import Instant
from scheduler_service.core.index.expansion import Entry, Expansion, Roster, expand_roster
from scheduler_service.core.index.ordering import NO_RUNS, Runs, ordered_runs

Ints = NDArray[np.int64]
Ordinals = NDArray[np.int32]


class ScheduledRun(NamedTuple):
    """One planned run."""

    job_id: str
    scheduled_at: Instant


@dataclass(frozen=True, slots=True, eq=False)
class RunSlice:
    """Consecutive runs of one generation: views into its arrays, and its job table."""

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
class Generation:
    """All runs in [start, end) as they were known at `revision`; `job_ids` is indexed by ordinal."""

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


def _generation(found: Expansion, job_ids: Sequence[str], start: Instant, end: Instant, revision: int) -> Generation:
    found.times.flags.writeable = False
    found.ordinals.flags.writeable = False
    first = None
    if found.times.size:
        first = ScheduledRun(job_ids[int(found.ordinals[0])], int(found.times[0]))
    return Generation(found.times, found.ordinals, job_ids, start, end, revision, first, found.failures)


def build_generation(
    entries: Sequence[Entry] | Roster, job_ids: Sequence[str], start: Instant, end: Instant, revision: int
) -> Generation:
    """The generation of these entries (or of a roster kept since the last) over [start, end)."""
    roster = entries if isinstance(entries, Roster) else Roster.of(entries)
    return _generation(expand_roster(roster, start, end), job_ids, start, end, revision)


def from_unsorted(
    times: Ints, ordinals: Ordinals, job_ids: Sequence[str], start: Instant, end: Instant, revision: int = 0
) -> Generation:
    """The generation of runs in any order; the same run given twice is held once.

    `job_ids` is in order, so that ordinals order jobs as their ids do; ValueError where it is not.
    """
    if not all(map(lt, job_ids, islice(job_ids, 1, None))):
        raise ValueError("the job table is not in order of job ids")
    runs = ordered_runs(Runs(times, ordinals), len(job_ids)) if times.size else NO_RUNS
    return _generation(Expansion(runs.times, runs.positions, ()), job_ids, start, end, revision)


EMPTY: Final = Generation(NO_RUNS.times, NO_RUNS.positions, (), 0, 0, 0, None)


class ScheduledRunIndex:
    """The index that readers hold; each call works on the one generation that it finds at its start."""

    __slots__ = ("_generation",)

    def __init__(self, generation: Generation = EMPTY) -> None:
        self._generation = generation

    @property
    def generation(self) -> Generation:
        """The present generation; hold it to ask several questions of the same one."""
        return self._generation

    def swap(self, generation: Generation) -> Generation:
        """Puts a new generation in place and returns the one before; readers of that one go on with it."""
        before, self._generation = self._generation, generation
        return before

    def query(self, start: Instant, end: Instant) -> RunSlice:
        """The runs in [start, end), ordered by (time, job id): views, O(log n)."""
        return self._generation.query(start, end)

    def peek(self) -> ScheduledRun | None:
        """The earliest run, or None: O(1)."""
        return self._generation.first

    def __len__(self) -> int:
        return self._generation.times.size

    def __iter__(self) -> Iterator[ScheduledRun]:
        return iter(self._generation.all())
