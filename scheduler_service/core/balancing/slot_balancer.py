"""The bucket map: the runs of each quarter of an hour of the next week, and the search for a rhythm's best place.

A load counts every occurrence of every active job that was added. Promises: the map depends on its first slot and its
jobs only, not on their order, so that it can be rebuilt. Equal places are ordered by their neighbours' load, then by
time. Knows no clock, and not why a job is placed.
"""

from collections.abc import Iterable, Mapping
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
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import next_after


def slot_key(instant: Instant) -> int:
    """Return the number of the quarter of an hour that holds an instant."""
    return instant // SLOT


def slot_time(key: int) -> Instant:
    """Return the beginning of a slot."""
    return key * SLOT


def _shares_of(jobs: Iterable[Job]) -> dict[str, Share]:
    """Return the share of each job that has one; equal shares of one schedule are one object, to save memory."""
    found: dict[str, Share] = {}
    of_schedule: dict[int, Share] = {}
    for job in jobs:
        share = share_of(job)
        if share is not None:
            same = of_schedule.setdefault(id(share.schedule), share)
            found[job.job_id] = same if (same.start, same.end) == (share.start, share.end) else share
    return found


def spread_of(job_id: str) -> Duration:
    """Return a job's second in its slot: a whole number below 900, the same in every process, always."""
    return crc32(job_id.encode()) % (SLOT // SECOND) * SECOND


class BucketMap:
    """The loads of the slots from `base` on, and the jobs that make them."""

    def __init__(self, base: int, jobs: Iterable[Job] = ()) -> None:
        self.base = base
        self._shares = _shares_of(jobs)
        self._counts = counts_of_all(self._shares.values(), base)

    def __len__(self) -> int:
        return len(self._shares)

    def add(self, job: Job) -> None:
        """Count the job's present occurrences instead of its previous ones."""
        self.remove(job.job_id)
        share = share_of(job)
        if share is not None:
            self._shares[job.job_id] = share
            self._counts += counts_of(share, self.base)

    def remove(self, job_id: str) -> None:
        """Remove the job's load."""
        share = self._shares.pop(job_id, None)
        if share is not None:
            self._counts -= counts_of(share, self.base)

    def load(self, key: int) -> int:
        """Return the runs of a slot; 0 for a slot outside the map."""
        return int(self._counts[key - self.base]) if 0 <= key - self.base < HORIZON_SLOTS else 0

    def slot_of(self, job_id: str) -> int | None:
        """Return the slot of the job's first occurrence in the map's time or after it."""
        share = self._shares.get(job_id)
        if share is None:
            return None
        at = next_after(share.schedule, slot_time(self.base) - 1, start_at=share.start, end_at=share.end)
        return None if at is None else slot_key(at)

    @property
    def shares(self) -> Mapping[str, Share]:
        """Return each job's contribution to the loads."""
        return self._shares

    def loads(self) -> Ints:
        """Return a copy of the load of each slot of the week."""
        return self._counts.copy()

    def day(self) -> tuple[int, ...]:
        """Return the loads of the first 96 slots: the next 24 hours."""
        return tuple(self._counts[:SLOTS_A_DAY].tolist())

    def least_loaded(self, job_id: str, every: Duration, earliest: Instant) -> Place:
        """Return the best place for a new rhythm, with its first occurrence within one interval from `earliest`."""
        return Search(self._counts, self.base, every).best(spread_of(job_id), earliest, earliest + every)
