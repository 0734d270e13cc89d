"""Missed ranges of runs that are skipped one after the other for one reason: they keep no row each."""

from dataclasses import dataclass, field

from itinerary.protocol.instants import MICROSECOND, Instant
from scheduler_service.core.model import MissedRange


@dataclass(slots=True)
class SkippedRanges:
    """By job: the reason of its last skipped run, and the end of the missed range that holds it (0: it has a row)."""

    _of_job: dict[str, tuple[str, Instant]] = field(default_factory=dict)

    def extend(self, job_id: str, at: Instant, reason: str) -> MissedRange | None:
        """Return the missed range of a skipped occurrence, or None for the first one with this reason."""
        known, end = self._of_job.get(job_id, ("", 0))
        if known != reason:
            self._of_job[job_id] = (reason, 0)
            return None
        if at < end:  # jitter made a later occurrence due first
            return None
        self._of_job[job_id] = (reason, at + MICROSECOND)
        return MissedRange(job_id, end or at, at + MICROSECOND, 1, reason)

    def close(self, job_id: str) -> None:
        """Let the next skipped run of the job keep its row."""
        self._of_job.pop(job_id, None)
