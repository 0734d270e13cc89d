"""Runs as database rows and back. Owns which columns each read takes; never talks to the database."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import structlog
from sqlalchemy import BigInteger, Boolean, Integer, Text, cast

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant
from itinerary.protocol.limits import LimitUse, limits_of, limits_text
from itinerary.protocol.progress import read_last
from itinerary.protocol.run_fields import NO_RETRIES, RetryPolicy, retry_body
from scheduler_service.core.attempts import Attempt, LateReports, TaskError
from scheduler_service.core.contract.fields import read_retry, unread_retry
from scheduler_service.core.model import ActiveRun, DispatchedRun, NewRun, Overlap, Run, RunKind
from scheduler_service.core.run_state import RunState
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.column_types import InstantColumn, Payload, PayloadText, dump_json
from scheduler_service.sql.tables import run_attempts, runs

log = structlog.get_logger(__name__)

_R: Final = runs.c
_KINDS: Final = {kind.value: kind for kind in RunKind}
_STATES: Final = {state.value: state for state in RunState}
# A dictionary of our own answers four times as fast as the property of an enumeration.
_KIND_TEXTS: Final = {kind: kind.value for kind in RunKind}

ACTIVE_COLUMNS: Final = (
    _R.run_id, _R.kind, _R.job_id, _R.job_version, _R.queue, _R.priority, _R.scheduled_at, _R.due_at, _R.state,
    _R.attempt, _R.retry, _R.timeout, _R.overlap, _R.cancel_requested_at, _R.seq, _R.pending_at, _R.published_at,
    _R.started_at, _R.worker, _R.start_by, _R.limits, _R.lane, _R.forced,
)  # fmt: skip
DISPATCHED_COLUMNS: Final = (
    _R.run_id, _R.attempt, _R.seq, _R.term, _R.job_id, _R.task, cast(_R.args, PayloadText),
    cast(_R.kwargs, PayloadText), _R.queue, _R.priority, _R.scheduled_at, _R.due_at, _R.timeout, _R.retries,
    _R.traceparent, _R.overlap, cast(_R.headers, PayloadText), _R.limits,
)  # fmt: skip
RUN_COLUMNS: Final = (
    _R.run_id, _R.kind, _R.job_id, _R.job_version, _R.task, _R.args, _R.kwargs, _R.queue, _R.priority, _R.retry_of,
    _R.scheduled_at, _R.due_at, _R.state, _R.attempt, _R.retry, _R.timeout, _R.reason, _R.cancel_requested_at,
    _R.pending_at, _R.published_at, _R.started_at, _R.finished_at, _R.worker, _R.term, _R.result, _R.error,
    _R.traceparent, _R.owner, _R.start_by, _R.end_by, _R.sla_missed, _R.headers, _R.limits, _R.lane, _R.forced,
    _R.progress,
)  # fmt: skip
_A: Final = run_attempts.c
ATTEMPT_COLUMNS: Final = (
    _A.attempt, _A.outcome, _A.reason, _A.pending_at, _A.published_at, _A.started_at, _A.finished_at, _A.worker,
    _A.error, _A.progress, _A.late_reports, _A.late_kind, _A.late_at, _A.late_worker, _A.late_error,
)  # fmt: skip

NEW_RUNS: Final = Batch(
    run_id=Text, kind=Text, job_id=Text, job_version=Integer, task=Text, args=Payload, kwargs=Payload, queue=Text,
    priority=Integer, retry_of=Text, scheduled_at=InstantColumn, due_at=InstantColumn, retry=Text, timeout=BigInteger,
    overlap=Text, idempotency_key=Text, request_hash=Text, traceparent=Text, owner=Text, start_by=InstantColumn,
    end_by=InstantColumn, headers=Payload, limits=Text, lane=Text, forced=Boolean,
)  # fmt: skip


def new_run_row(run: NewRun, now: Instant) -> tuple[Any, ...]:
    """The row of NEW_RUNS; a time of 0 is `now`."""
    due_at = run.due_at or now
    return (
        run.run_id, _KIND_TEXTS[run.kind], run.job_id, run.job_version, run.task,
        dump_json(run.args) if run.args else "[]", dump_json(run.kwargs) if run.kwargs else "{}",
        run.queue, run.priority, run.retry_of, run.scheduled_at or now, due_at,
        None if run.retry is NO_RETRIES else _retry_text(run.retry),
        run.timeout, run.overlap.value if run.overlap else None, run.idempotency_key, run.request_hash,
        run.traceparent, run.owner, None if run.start_within is None else due_at + run.start_within,
        None if run.must_end_within is None else due_at + run.must_end_within,
        dump_json(run.headers) if run.headers else None, limits_text(run.limits) if run.limits else None, run.lane,
        run.forced or None,
    )  # fmt: skip


def active_run(row: Sequence[Any]) -> ActiveRun:
    """The leader's record of a run, from ACTIVE_COLUMNS."""
    (
        run_id, kind, job_id, job_version, queue, priority, scheduled_at, due_at, state, attempt, retry, timeout,
        overlap, cancel_requested_at, seq, pending_at, published_at, started_at, worker, start_by, limits, lane,
        forced,
    ) = row  # fmt: skip
    return ActiveRun(
        run_id, _KINDS[kind], job_id, job_version, queue, priority, scheduled_at, due_at, _STATES[state], attempt,
        _retry(retry), timeout, overlap_of(overlap), cancel_requested_at is not None, seq,
        pending_at, published_at, started_at, worker, start_by, _limits(limits), lane, bool(forced),
    )  # fmt: skip


def dispatched_run(row: Sequence[Any]) -> DispatchedRun:
    """The values for a message, from DISPATCHED_COLUMNS."""
    return DispatchedRun._make(row)


def whole_run(row: Sequence[Any], attempts: tuple[Attempt, ...] = ()) -> Run:
    """The full record, from RUN_COLUMNS."""
    (
        run_id, kind, job_id, job_version, task, args, kwargs, queue, priority, retry_of, scheduled_at, due_at, state,
        attempt, retry, timeout, reason, cancel_requested_at, pending_at, published_at, started_at, finished_at,
        worker, term, result, error, traceparent, owner, start_by, end_by, sla_missed, headers, limits, lane,
        forced, progress,
    ) = row  # fmt: skip
    return Run(
        run_id, _KINDS[kind], job_id, job_version, task, args, kwargs, queue, priority, retry_of, scheduled_at,
        due_at, _STATES[state], attempt, _retry(retry), timeout, reason, cancel_requested_at, pending_at,
        published_at, started_at, finished_at, worker, term, result, _task_error(error), attempts,
        traceparent=traceparent, owner=owner, start_by=start_by, end_by=end_by, sla_missed=sla_missed, headers=headers,
        limits=_limits(limits), lane=lane, forced=bool(forced), progress=read_last(progress),
    )  # fmt: skip


def ended_attempt(row: Sequence[Any]) -> Attempt:
    """An ended attempt, from ATTEMPT_COLUMNS."""
    attempt, outcome, reason, pending_at, published_at, started_at, finished_at, worker, error, progress, *late = row
    return Attempt(
        attempt, outcome, reason, pending_at, published_at, started_at, finished_at, worker, _task_error(error),
        _late_reports(*late), read_last(progress),
    )  # fmt: skip


def _late_reports(
    count: int, kind: str | None, at: Instant | None, worker: str | None, error: Any
) -> LateReports | None:
    if not count or at is None:
        return None
    return LateReports(count, kind or "", at, worker or "", _task_error(error))


def _task_error(error: Any) -> TaskError | None:
    if error is None:
        return None
    return TaskError(str(error.get("type", "")), str(error.get("message", "")), error.get("traceback"))


@lru_cache(maxsize=4_096)
def _retry_text(retry: RetryPolicy) -> str | None:
    if retry == NO_RETRIES:
        return None
    return retry.unread or dump_json(retry_body(retry))


def _retry(text: str | None) -> RetryPolicy:
    """The policy of a row. One that this program rejects keeps its attempts and its text; the run's end names it."""
    if text is None:
        return NO_RETRIES
    try:
        return _read_retry(text)
    except (ValueError, RecursionError, BadValue) as error:
        policy = unread_retry(text)
        log.error(
            "a run's stored retry policy cannot be read; its pauses are the defaults",
            retry=text[:200], max_attempts=policy.max_attempts, reason=str(error)[:200],
        )  # fmt: skip
        return policy


@lru_cache(maxsize=4_096)
def _read_retry(text: str) -> RetryPolicy:
    return read_retry(json.loads(text), "retry")


def _limits(text: str | None) -> tuple[LimitUse, ...]:
    return () if text is None else _read_limits(text)


@lru_cache(maxsize=4_096)
def _read_limits(text: str) -> tuple[LimitUse, ...]:
    """The limits of a row; limits that this program rejects hold nothing back."""
    try:
        return limits_of(text)
    except (ValueError, TypeError, RecursionError) as error:
        problem = "a run's stored limits cannot be read; none holds it back"
        log.error(problem, limits=text[:200], reason=str(error)[:200])
        return ()


def overlap_of(text: str | None) -> Overlap | None:
    """A run's own overlap policy; None if it has none.

    A run whose policy this program cannot read waits for its turn: it is not skipped, and cancels and overtakes no run.
    """
    try:
        return Overlap(text) if text else None
    except ValueError:
        log.error("a run's stored overlap policy cannot be read; the run waits for its turn", overlap=str(text)[:200])
        return Overlap.QUEUE_ALL
