"""One run of the service in memory, and its JSON as the API has it."""

from dataclasses import dataclass, field
from typing import Any, Final

from itinerary.protocol.instants import Duration, Instant, format_instant
from itinerary.protocol.limits import RUN_LIMITS, LimitUse, fair_key_of
from itinerary.protocol.run_fields import DEFAULT_PRIORITY, DEFAULT_QUEUE, NO_RETRIES, RetryPolicy

WORKER: Final = "itinerary.testing"
WAITING: Final = ("scheduled", "retrying")
FINAL: Final = ("completed", "failed", "cancelled", "missed")


@dataclass
class Run:
    """A run from its enqueueing to its end; `failure` is the exception of the last attempt."""

    run_id: str
    task: str
    scheduled_at: Instant
    due_at: Instant
    job_id: str | None = None
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    retry: RetryPolicy = NO_RETRIES
    start_within: Duration | None = None
    must_end_within: Duration | None = None
    headers: dict[str, Any] | None = None
    limits: tuple[LimitUse, ...] = ()
    lane: str = ""
    force: bool = False
    retry_of: str | None = None
    key: str | None = None
    request_hash: str | None = None
    is_occurrence: bool = False
    state: str = "scheduled"
    attempt: int = 1
    retries: int = 0
    reason: str | None = None
    result: Any = None
    error: dict[str, str] | None = None
    failure: BaseException | None = None
    cancel_requested_at: Instant | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    attempts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def start_by(self) -> Instant | None:
        """The last instant at which it may start."""
        return None if self.start_within is None else self.scheduled_at + self.start_within

    @property
    def end_by(self) -> Instant | None:
        """The last instant at which it may end without missing its SLA."""
        return None if self.must_end_within is None else self.scheduled_at + self.must_end_within

    @property
    def sla_missed(self) -> bool | None:
        """Whether it ended too late; None until it is over, or without an SLA."""
        return None if self.end_by is None or self.finished_at is None else self.finished_at > self.end_by

    def end(self, state: str, reason: str | None, at: Instant) -> None:
        """Reach a final state, or wait for the next attempt, after an attempt that began at `at`."""
        self.state, self.reason, self.finished_at = state, reason, at
        if self.started_at is not None:
            self.attempts.append(self._attempt(state, reason, at))

    def _attempt(self, state: str, reason: str | None, at: Instant) -> dict[str, Any]:
        text = format_instant(at)
        times = {"pending_at": text, "published_at": text, "started_at": text, "finished_at": text}
        ended = {"attempt": self.attempt, "outcome": "failed" if state == "retrying" else state, "reason": reason}
        return {**ended, **times, "worker": WORKER, "error": self.error, "late_reports": None, "progress": None}

    def body(self) -> dict[str, Any]:
        """The run as the API shows it."""
        started = _text(self.started_at)
        return {
            "run_id": self.run_id,
            "job_id": self.job_id,
            "job_version": None if self.job_id is None else 1,
            "task": self.task,
            "args": self.args,
            "kwargs": self.kwargs,
            "headers": self.headers,
            "queue": self.queue,
            "priority": self.priority,
            "limits": RUN_LIMITS.write(self.limits),
            "fair_key": fair_key_of(self.lane),
            "force": self.force,
            "retry_of": self.retry_of,
            "scheduled_at": format_instant(self.scheduled_at),
            "due_at": format_instant(self.due_at),
            "start_by": _text(self.start_by),
            "end_by": _text(self.end_by),
            "sla_missed": self.sla_missed,
            "state": self.state,
            "attempt": self.attempt,
            "reason": self.reason,
            "cancel_requested_at": _text(self.cancel_requested_at),
            "pending_at": started,
            "published_at": started,
            "started_at": started,
            "finished_at": _text(self.finished_at),
            "worker": None if started is None else WORKER,
            "progress": None,
            "term": None,
            "result": self.result,
            "error": self.error,
            "attempts": list(self.attempts),
        }


def _text(instant: Instant | None) -> str | None:
    return None if instant is None else format_instant(instant)
