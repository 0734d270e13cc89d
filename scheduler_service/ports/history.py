"""The port through which pages read history: few columns, always bounded.

An implementation promises that each read is short, however many runs there are. It never writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.explain.facts import Version
from scheduler_service.core.model import MissedRange
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.sla import SlaMiss
from scheduler_service.ports.stores import JobFilter, RunFilter


@dataclass(frozen=True, slots=True)
class Outcome:
    """The fields of a run that a chart shows."""

    run_id: str
    job_id: str | None
    state: RunState
    scheduled_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    job_version: int | None = None

    @property
    def took(self) -> Duration | None:
        """How long the last attempt ran; None if it did not run or is not over."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(0, self.finished_at - self.started_at)


@dataclass(frozen=True, slots=True)
class Relatives:
    """The run before and the one after a run of a job, by scheduled time; and the newest that run it again."""

    earlier: str | None = None
    later: str | None = None
    again: tuple[Outcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Trouble:
    """A run that failed for good or was missed, with the first 200 letters of its error message."""

    run_id: str
    job_id: str | None
    task: str
    state: RunState
    reason: str | None
    error_type: str | None
    message: str | None
    finished_at: Instant


@dataclass(frozen=True, slots=True)
class Total:
    """The length of a list; `more`: at least this many, since counting stops before it costs too much."""

    number: int
    more: bool


class HistoryStore(Protocol):
    """Bounded queries of history, each by an index: none counts or scans all of it."""

    def count_runs(self, wanted: RunFilter) -> Total:
        """The number of runs that match this filter."""

    def count_jobs(self, wanted: JobFilter) -> Total:
        """The number of jobs that match these filters."""

    def latest(self, since: Instant, until: Instant, limit: int) -> list[Outcome]:
        """Runs with scheduled_at in [since, until), newest first."""

    def latest_of(self, job_ids: Sequence[str], until: Instant, limit: int) -> Mapping[str, list[Outcome]]:
        """The newest runs of each of these jobs with scheduled_at < until, newest first."""

    def relatives(self, run_id: str, limit: int) -> Relatives:
        """The runs beside a run, and at most `limit` that run it again."""

    def troubles(self, since: Instant, limit: int) -> list[Trouble]:
        """Runs that failed for good or were missed at or after `since`, the latest first."""

    def sla_misses(self, since: Instant, limit: int) -> list[SlaMiss]:
        """Runs that had to end at or after `since` and did not, the latest first."""

    def missed_ranges(self, since: Instant, limit: int) -> list[MissedRange]:
        """Missed ranges that end at or after `since`, latest end first, without those that an overlap rule skipped."""

    def missed_ranges_of(self, job_id: str, limit: int) -> list[MissedRange]:
        """The newest missed ranges of a job, by their start; none if the job never existed."""

    def versions(self, job_id: str, limit: int) -> list[Version]:
        """The newest versions of a job, newest first; none if it never existed."""

    def active_counts(self, most: int) -> Mapping[RunState, int]:
        """The number of runs in each state that is not final; `most` means that many or more."""
