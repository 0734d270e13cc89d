"""Runs that wait behind their job's other runs, as the job's overlap rule says."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from scheduler_service.core.leader.parts.runs import RunTable
from scheduler_service.core.model import ActiveRun


@dataclass(slots=True)
class HeldRuns:
    """Held runs by job, in the order of their due times."""

    _of_job: dict[str, deque[str]] = field(default_factory=dict)

    def of(self, job_id: str | None) -> Sequence[str]:
        """The held runs of the job, the first to be admitted first."""
        return self._of_job.get(job_id or "", ())

    def hold(self, run: ActiveRun, runs: RunTable) -> None:
        """Queue the run behind its job's other runs, ordered by due time even if it was read late."""
        held = self._of_job.setdefault(run.job_id or "", deque())
        place = len(held)
        while place and (other := runs.get(held[place - 1])) and other.due_at > run.due_at:
            place -= 1
        held.insert(place, run.run_id)

    def pop_first(self, job_id: str) -> str:
        """Take out the job's first held run."""
        held = self._of_job[job_id]
        run_id = held.popleft()
        if not held:
            del self._of_job[job_id]
        return run_id

    def drop_rest(self, wanted: Callable[[str], bool]) -> list[str]:
        """Drop the wanted runs of each job behind its first one, and return them."""
        dropped: list[str] = []
        for job_id, held in list(self._of_job.items()):
            found = {run_id for place, run_id in enumerate(held) if place and wanted(run_id)}
            if found:
                self.drop(job_id, found)
                dropped += found
        return dropped

    def drop(self, job_id: str, run_ids: Collection[str]) -> None:
        """Hold these runs of the job no longer."""
        left = deque(run_id for run_id in self._of_job.get(job_id, ()) if run_id not in run_ids)
        if left:
            self._of_job[job_id] = left
        else:
            self._of_job.pop(job_id, None)
