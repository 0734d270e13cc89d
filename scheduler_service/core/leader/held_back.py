"""Runs that pauses and freezes hold back, in memory by what holds them: a schedule would fill it during a long one.

Promises to name each run once, and the oldest occurrences of a job first. Holds no rule: `holding.py` and `freezing.py`
decide what is held, for how long, and how many.
"""

import heapq
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import ActiveRun

Holder = TypeVar("Holder", str, int)


@dataclass(slots=True)
class HeldBack(Generic[Holder]):
    """Admitted occurrences by holder and job, and other runs. `_grown`: the holders and jobs with new occurrences."""

    _occurrences: dict[Holder, dict[str, list[tuple[Instant, str]]]] = field(default_factory=dict)
    _others: dict[Holder, dict[str, dict[str, None]]] = field(default_factory=dict)
    _ids: set[str] = field(default_factory=set)
    _grown: dict[tuple[Holder, str], None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._ids)

    def holders(self) -> list[Holder]:
        """The pauses or freezes that hold any run."""
        return list({**self._occurrences, **self._others})

    def hold(self, holder: Holder, run: ActiveRun) -> None:
        """Let this occurrence wait, once."""
        if run.run_id not in self._ids:
            job_id = run.job_id or ""
            self._ids.add(run.run_id)
            heap = self._occurrences.setdefault(holder, {}).setdefault(job_id, [])
            heapq.heappush(heap, (run.due_at, run.run_id))
            self._grown[holder, job_id] = None

    def hold_other(self, holder: Holder, run: ActiveRun) -> None:
        """Let this run, which no schedule planned or which was dispatched before, wait, once."""
        if run.run_id not in self._ids:
            self._ids.add(run.run_id)
            self._others.setdefault(holder, {}).setdefault(run.job_id or "", {})[run.run_id] = None

    def leave(self, run: ActiveRun) -> None:
        """Let this run wait here no longer."""
        if run.run_id not in self._ids:
            return
        self._ids.discard(run.run_id)
        job_id = run.job_id or ""
        for holder in self.holders():
            self._others.get(holder, {}).get(job_id, {}).pop(run.run_id, None)
            heap = self._occurrences.get(holder, {}).get(job_id, [])
            heap[:] = [one for one in heap if one[1] != run.run_id]
            heapq.heapify(heap)

    def take_grown(self) -> list[tuple[Holder, str]]:
        """Return the holders and jobs with new occurrences since the last call."""
        grown, self._grown = list(self._grown), {}
        return grown

    def take_beyond(self, holder: Holder, job_id: str, most: int) -> list[str]:
        """Take out the job's oldest occurrences, until `most` are left."""
        heap = self._occurrences.get(holder, {}).get(job_id, [])
        taken = [heapq.heappop(heap)[1] for _ in range(len(heap) - most)]
        self._ids.difference_update(taken)
        return taken

    def take_holder(self, holder: Holder) -> list[str]:
        """Take out all that it holds."""
        return [run_id for job_id in self._jobs_of(holder) for run_id in self._take(holder, job_id)]

    def take_job(self, job_id: str) -> list[str]:
        """Take out all of the job."""
        return [run_id for holder in self.holders() for run_id in self._take(holder, job_id)]

    def _jobs_of(self, holder: Holder) -> list[str]:
        return list({**self._occurrences.get(holder, {}), **self._others.get(holder, {})})

    def _take(self, holder: Holder, job_id: str) -> list[str]:
        taken = [run_id for _, run_id in self._occurrences.get(holder, {}).pop(job_id, ())]
        taken += self._others.get(holder, {}).pop(job_id, ())
        for jobs in (self._occurrences, self._others):
            if not jobs.get(holder, True):
                del jobs[holder]
        self._ids.difference_update(taken)
        return taken
