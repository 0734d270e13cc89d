"""What pages read history through: few columns, always bounded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.explain.facts import Version
from scheduler_service.core.model import MissedRange
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.stores import RunFilter


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a chart shows of a run."""

    run_id: str
    job_id: str | None
    state: RunState
    scheduled_at: Instant
    started_at: Instant | None
    finished_at: Instant | None

    @property
    def took(self) -> Duration | None:
        """How long its last attempt ran; None where it did not, or is not over."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(0, self.finished_at - self.started_at)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A run that failed for good or was missed, with the first 200 letters of what was said."""

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
    """How many a list holds; `more`: this many or more, as counting ends where it would cost too much."""

    number: int
    more: bool


class HistoryStore(Protocol):
    """Bounded looks into history, each by an index: none counts or walks all of it."""

    def count_runs(self, wanted: RunFilter) -> Total:
        """The length of the list of runs by this filter."""

    def count_jobs(self, *, tag: str | None, text: str | None, paused: bool | None, source: str | None = None) -> Total:
        """The length of the list of jobs by these filters."""

    def latest(self, since: Instant, until: Instant, limit: int) -> list[Outcome]:
        """Runs with scheduled_at in [since, until), newest first."""

    def latest_of(self, job_ids: Sequence[str], until: Instant, limit: int) -> Mapping[str, list[Outcome]]:
        """For each of these jobs its newest runs with scheduled_at < until, newest first."""

    def troubles(self, since: Instant, limit: int) -> list[Trouble]:
        """Runs that failed for good or were missed at or after `since`, the latest first."""

    def missed_ranges(self, since: Instant, limit: int) -> list[MissedRange]:
        """Gaps that end at or after `since`, the latest end first; what a job's overlap rule skipped is as it should be
        and not among them."""

    def missed_ranges_of(self, job_id: str, limit: int) -> list[MissedRange]:
        """The newest gaps of a job, by their start; none where it never was."""

    def versions(self, job_id: str, limit: int) -> list[Version]:
        """The newest versions of a job, newest first; none where it never was."""

    def active_counts(self, most: int) -> Mapping[RunState, int]:
        """How many runs are in each state that is not final; `most` stands for that many or more."""
