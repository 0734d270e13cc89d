"""Runs as the API's JSON. Promises the whole run in its exact shape, hidden values masked; changes nothing."""

from collections.abc import Mapping
from typing import Any

from itinerary.protocol.instants import Instant, format_instant
from itinerary.protocol.limits import RUN_LIMITS, fair_key_of
from itinerary.protocol.progress import Progress
from itinerary.protocol.redaction import redacted
from scheduler_service.core.attempts import Attempt, LateReports, TaskError
from scheduler_service.core.contract.job_json import optional_instant
from scheduler_service.core.model import Run


def run_body(run: Run, progress: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the run as the API shows it, hidden values masked; its attempts are the ended ones and the present one.

    `progress` is that of the present attempt, as the leader knows it; an attempt that is over has its own.
    """
    return {
        "run_id": run.run_id,
        "job_id": run.job_id,
        "job_version": run.job_version,
        "task": run.task,
        "args": redacted(list(run.args) if isinstance(run.args, tuple) else run.args),
        "kwargs": redacted(run.kwargs),
        "headers": redacted(run.headers),
        "queue": run.queue,
        "priority": run.priority,
        "limits": RUN_LIMITS.write(run.limits),
        "fair_key": fair_key_of(run.lane),
        "force": run.forced,
        "retry_of": run.retry_of,
        "scheduled_at": format_instant(run.scheduled_at),
        "due_at": format_instant(run.due_at),
        "start_by": optional_instant(run.start_by),
        "end_by": optional_instant(run.end_by),
        "sla_missed": run.sla_missed,
        "state": run.state.value,
        "attempt": run.attempt,
        "reason": run.reason,
        "cancel_requested_at": optional_instant(run.cancel_requested_at),
        "pending_at": optional_instant(run.pending_at),
        "published_at": optional_instant(run.published_at),
        "started_at": optional_instant(run.started_at),
        "finished_at": optional_instant(run.finished_at),
        "worker": run.worker,
        "progress": progress or _progress(run.progress, run.finished_at),
        "term": run.term,
        "result": redacted(run.result),
        "error": _error(run.error),
        "attempts": [_attempt(a) for a in attempts_of(run)],
    }


def _error(error: TaskError | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {"type": error.type, "message": error.message, "traceback": error.traceback}


def attempts_of(run: Run) -> list[Attempt]:
    """Return the ended attempts, and the present one once it was dispatched."""
    if run.pending_at is None:
        return list(run.attempts)
    present = Attempt(
        run.attempt, run.state.value, run.reason, run.pending_at, run.published_at, run.started_at,
        run.finished_at, run.worker, run.error, run.late, run.progress,
    )  # fmt: skip
    return [*run.attempts, present]


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "outcome": attempt.outcome,
        "reason": attempt.reason,
        "pending_at": optional_instant(attempt.pending_at),
        "published_at": optional_instant(attempt.published_at),
        "started_at": optional_instant(attempt.started_at),
        "finished_at": optional_instant(attempt.finished_at),
        "worker": attempt.worker,
        "error": _error(attempt.error),
        "late_reports": _late(attempt.late),
        "progress": _progress(attempt.progress, attempt.finished_at),
    }


def _progress(last: Progress | None, ended_at: Instant | None) -> dict[str, Any] | None:
    """Return the last progress of an attempt that is over, as of its end."""
    if last is None or ended_at is None:
        return None
    return {**last._asdict(), "at": format_instant(ended_at)}


def _late(late: LateReports | None) -> dict[str, Any] | None:
    """Return reports that arrived after the attempt was over, and changed nothing."""
    if late is None:
        return None
    return {
        "count": late.count,
        "kind": late.kind,
        "at": format_instant(late.at),
        "worker": late.worker,
        "error": _error(late.error),
    }
