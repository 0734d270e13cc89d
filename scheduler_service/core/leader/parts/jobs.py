"""Jobs as the leader knows them, and which of them have changed since the index was built."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.parts.runs import RunTable
from scheduler_service.core.model import JobHistory


@dataclass(slots=True)
class Jobs:
    """Jobs by id. `changed`: those that the index does not show yet, each with the `revision` of its last change.

    `_aging`: jobs with old versions (or deleted) to drop once the cursor has passed them.
    """

    changed: dict[str, int] = field(default_factory=dict)
    revision: int = 0
    _histories: dict[str, JobHistory] = field(default_factory=dict)
    _aging: set[str] = field(default_factory=set)

    def __iter__(self) -> Iterator[str]:
        return iter(self._histories)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._histories

    def __getitem__(self, job_id: str) -> JobHistory:
        return self._histories[job_id]

    def get(self, job_id: str | None) -> JobHistory | None:
        """The job, or None for an unknown one and for a run of no job."""
        return None if job_id is None else self._histories.get(job_id)

    def histories(self) -> tuple[JobHistory, ...]:
        """All jobs with their versions."""
        return tuple(self._histories.values())

    def put(self, history: JobHistory) -> None:
        """Store a new or changed job, which the index does not show yet."""
        job_id, like = history.job_id, history.alike
        self.revision += 1
        self.changed[job_id] = self.revision
        self._histories[job_id] = history
        if len(like) > 1 or like[-1].deleted:
            self._aging.add(job_id)

    def put_calendars(self, history: JobHistory) -> None:
        """Store a job whose calendars changed: its versions are cut anew, from a time on that no plan has reached.

        The index shows it before that time comes, so it does not count as changed.
        """
        self._histories[history.job_id] = history
        if len(history.alike) > 1:
            self._aging.add(history.job_id)

    def all_are_in_the_next_index(self) -> None:
        """Record that the first index, still to be built, will show every job."""
        self.changed.clear()

    def indexed(self, revision: int) -> None:
        """Record that the index shows every change up to this revision."""
        self.changed = {job_id: changed_at for job_id, changed_at in self.changed.items() if changed_at > revision}

    def forget_old_versions(self, cursor: Instant, runs: RunTable) -> None:
        """Forget versions that ended before the cursor, and deleted jobs without live runs."""
        for job_id in list(self._aging):
            history = self._histories[job_id]
            if history.current.effective_from > cursor:
                continue
            if not history.current.deleted:
                self._histories[job_id] = JobHistory(history.versions[-1:], history.planned_version)
            elif job_id in self.changed or runs.live_of(job_id):
                continue
            else:
                del self._histories[job_id]
            self._aging.discard(job_id)
