"""Attempts of a run as history keeps them: their ends, their errors, and reports that came too late. Plain values."""

from dataclasses import dataclass

from itinerary.protocol.instants import Instant
from itinerary.protocol.progress import Progress


@dataclass(frozen=True, slots=True)
class TaskError:
    """The error of a failed attempt, truncated by the worker."""

    type: str
    message: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class LateReports:
    """Reports that arrived after the attempt was over, kept without effect. All fields but `count` are of the last."""

    count: int
    kind: str
    at: Instant
    worker: str
    error: TaskError | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One finished attempt of a run that was not its last."""

    attempt: int
    outcome: str
    reason: str | None
    pending_at: Instant | None
    published_at: Instant | None
    started_at: Instant | None
    finished_at: Instant | None
    worker: str | None
    error: TaskError | None
    late: LateReports | None = None
    progress: Progress | None = None
