"""The bucket map: the runs of each quarter of an hour of the next week, and the search for a rhythm's best place.

A load counts every occurrence of every active job that was added. Promises: the map depends on its first slot and its
jobs only, not on their order, so that it can be rebuilt. Equal places are ordered by their neighbours' load, then by
time. Knows no clock, and not why a job is placed.
"""

from collections.abc import Iterable, Iterator
from zlib import crc32

from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.balancing.slot_counts import (
    HORIZON_SLOTS,
    SLOTS_A_DAY,
    Ints,
    Share,
    counts_of,
    counts_of_all,
    share_of,
)
from scheduler_service.core.balancing.slot_search import Place, Search
from scheduler_service.core.index.forecast import SLOT
from scheduler_service.core.model import JobHistory
from scheduler_service.core.schedules.schedule import next_after


def slot_key(instant: Instant) -> int:
    """Return the number of the quarter of an hour that holds an instant."""
    return instant // SLOT


def slot_time(key: int) -> Instant:
    """Return the beginning of a slot."""
    return key * SLOT


def spread_of(job_id: str) -> Duration:
    """Return a job's second in its slot: a whole number below 900, the same in every process, always."""
    return crc32(job_id.encode()) % (SLOT // SECOND) * SECOND


class BucketMap:
    """The loads of the slots from `base` on, and the jobs that make them. Counts all jobs when first asked for a load.

    Holds no share of a job: a million of them would take as much memory again, and few are ever needed.
    """

    def __init__(self, base: int, jobs: Iterable[JobHistory] = ()) -> None:
        self.base = base
        self.jobs = {job.job_id: job for job in jobs}
        self._loads: Ints | None = None
        self._active = 0

    def __len__(self) -> int:
        self._count_all()
        return self._active

    def at(self, base: int) -> "BucketMap":
        """Return the map of the same jobs from another slot on; from now on only one of both may be changed."""
        found = BucketMap(base)
        found.jobs = self.jobs
        return found

    def uncount(self) -> None:
        """Count all jobs again when a load is needed next, instead of each of the many that are about to come."""
        self._loads = None

    def add(self, job: JobHistory) -> None:
        """Count the job's present occurrences instead of its previous ones."""
        self.remove(job.job_id)
        self.jobs[job.job_id] = job
        self._count(job, 1)

    def remove(self, job_id: str) -> None:
        """Remove the job and its load."""
        job = self.jobs.pop(job_id, None)
        if job is not None:
            self._count(job, -1)

    def _count(self, job: JobHistory, sign: int) -> None:
        if self._loads is not None and (share := share_of(job)) is not None:
            self._loads += sign * counts_of(share, self.base)
            self._active += sign

    def _count_all(self) -> Ints:
        if self._loads is None:
            self._active = 0
            self._loads = counts_of_all(self._each_share(), self.base)
        return self._loads

    def _each_share(self) -> Iterator[Share]:
        for job in self.jobs.values():
            share = share_of(job)
            if share is not None:
                self._active += 1
                yield share

    def load(self, key: int) -> int:
        """Return the runs of a slot; 0 for a slot outside the map."""
        return int(self._count_all()[key - self.base]) if 0 <= key - self.base < HORIZON_SLOTS else 0

    def slot_of(self, job_id: str) -> int | None:
        """Return the slot of the job's first occurrence in the map's time or after it."""
        share = share_of(self.jobs[job_id]) if job_id in self.jobs else None
        if share is None:
            return None
        at = next_after(share.schedule, slot_time(self.base) - 1, start_at=share.start, end_at=share.end)
        return None if at is None else slot_key(at)

    def shares(self) -> dict[str, Share]:
        """Return each job's contribution to the loads; those without any are left out."""
        shares = ((job_id, share_of(job)) for job_id, job in self.jobs.items())
        return {job_id: share for job_id, share in shares if share is not None}

    def loads(self) -> Ints:
        """Return a copy of the load of each slot of the week."""
        return self._count_all().copy()

    def day(self) -> tuple[int, ...]:
        """Return the loads of the first 96 slots: the next 24 hours."""
        return tuple(self._count_all()[:SLOTS_A_DAY].tolist())

    def least_loaded(self, job_id: str, every: Duration, earliest: Instant) -> Place:
        """Return the best place for a new rhythm, with its first occurrence within one interval from `earliest`."""
        return Search(self._count_all(), self.base, every).best(spread_of(job_id), earliest, earliest + every)
