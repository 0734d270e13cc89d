"""Jobs and runs as the JSON that the outside sees, and back: shapes, defaults and limits of one place.

`read_job` refuses everything wrong at once (BadValues); `job_body` and `run_body` give the outside's exact shape.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler_service.core.errors import BadValue, BadValues, TooLarge
from scheduler_service.core.identity import QUEUE, TASK, check_job_id
from scheduler_service.core.instants import (
    DAY,
    Instant,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)
from scheduler_service.core.model import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    Attempt,
    Job,
    Misfire,
    MisfirePolicy,
    Overlap,
    RetryPolicy,
    Run,
    TaskError,
)
from scheduler_service.core.schedule import canonical_spec, parse_schedule

MAX_PAYLOAD: Final = 256 * 1024
_MAX_TEXT: Final = 10_000
# As JSON writes a NUL; an even number of backslashes before it is text that only looks like one.
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_KEYS: Final = frozenset(
    {
        "job_id",
        "title",
        "task",
        "args",
        "kwargs",
        "queue",
        "priority",
        "schedule",
        "start_at",
        "end_at",
        "jitter",
    }
    | {"misfire", "overlap", "retry", "timeout", "tags", "description"}
)
_READ_ONLY: Final = frozenset({"paused", "pause_reason", "version", "next_runs", "warnings", "paused_until"})


class _Reader:
    """Takes fields one by one and keeps every complaint, so that all are told together."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self.errors: list[BadValue] = []

    def take(self, key: str, default: Any, read: Callable[[Any, str], Any]) -> Any:
        value = self.body.get(key)
        if value is None:
            return default
        try:
            return read(value, key)
        except BadValue as exc:
            self.errors.append(exc)
            return default


def read_job(body: Mapping[str, Any], *, made_at: Instant) -> tuple[Job, tuple[str, ...]]:
    """A job from its JSON, with the schedule's warnings. Read-only keys are ignored, unknown ones refused."""
    reader = _Reader(body)
    for key in sorted(set(body) - _KEYS - _READ_ONLY):
        reader.errors.append(
            BadValue(key, body[key], f"this field is not known; known are {', '.join(sorted(_KEYS))}")
        )
    job_id = _required(reader, "job_id", check_job_id)
    task = _required(reader, "task", read_task)
    parsed = _required(reader, "schedule", lambda v, k: _schedule(v, k, str(job_id), made_at))
    args = reader.take("args", [], read_list)
    kwargs = reader.take("kwargs", {}, read_object)
    start_at = reader.take("start_at", None, parse_instant)
    end_at = reader.take("end_at", None, parse_instant)
    if start_at is not None and end_at is not None and end_at <= start_at:
        reader.errors.append(BadValue("end_at", body["end_at"], "give a time after start_at"))
    check_payload(reader.errors, args, kwargs)
    fields: dict[str, Any] = {
        "title": reader.take("title", "", read_text),
        "queue": reader.take("queue", DEFAULT_QUEUE, read_queue),
        "priority": reader.take("priority", DEFAULT_PRIORITY, read_priority),
        "jitter": reader.take("jitter", 0, _up_to_a_day),
        "misfire": reader.take("misfire", Misfire(), _misfire),
        "overlap": reader.take("overlap", Overlap.SKIP, read_overlap),
        "retry": reader.take("retry", RetryPolicy(), read_retry),
        "timeout": reader.take("timeout", None, read_timeout),
        "tags": reader.take("tags", (), _tags),
        "description": reader.take("description", "", read_text),
    }
    if reader.errors:
        raise BadValues(reader.errors)
    schedule, warnings, spec = parsed
    job = Job(
        job_id=job_id, task=task, schedule=schedule, schedule_spec=spec, args=args, kwargs=kwargs,
        start_at=start_at, end_at=end_at, created_at=made_at, **fields,
    )  # fmt: skip
    return job, warnings


def definition_of(job: Job) -> dict[str, Any]:
    """What a version holds: the job's JSON without pause state and version. Equal jobs give equal definitions."""
    return {
        "job_id": job.job_id,
        "title": job.title,
        "task": job.task,
        "args": list(job.args),
        "kwargs": dict(job.kwargs),
        "queue": job.queue,
        "priority": job.priority,
        "schedule": dict(job.schedule_spec),
        "start_at": _instant(job.start_at),
        "end_at": _instant(job.end_at),
        "jitter": format_duration(job.jitter),
        "misfire": {
            "policy": job.misfire.policy.value,
            "grace": format_duration(job.misfire.grace),
            "max_catch_up": job.misfire.max_catch_up,
        },
        "overlap": job.overlap.value,
        "retry": retry_body(job.retry),
        "timeout": _duration(job.timeout),
        "tags": list(job.tags),
        "description": job.description,
    }


def job_body(job: Job) -> dict[str, Any]:
    """The job as the outside sees it."""
    return {
        **definition_of(job),
        "paused": job.paused,
        "pause_reason": job.pause_reason,
        "paused_until": _instant(job.paused_until),
        "version": job.version,
    }


def run_body(run: Run) -> dict[str, Any]:
    """The run as the outside sees it; its attempts are the ended ones and the present one."""
    return {
        "run_id": run.run_id,
        "job_id": run.job_id,
        "job_version": run.job_version,
        "task": run.task,
        "args": list(run.args),
        "kwargs": dict(run.kwargs),
        "queue": run.queue,
        "priority": run.priority,
        "retry_of": run.retry_of,
        "scheduled_at": format_instant(run.scheduled_at),
        "due_at": format_instant(run.due_at),
        "state": run.state.value,
        "attempt": run.attempt,
        "reason": run.reason,
        "cancel_requested_at": _instant(run.cancel_requested_at),
        "pending_at": _instant(run.pending_at),
        "published_at": _instant(run.published_at),
        "started_at": _instant(run.started_at),
        "finished_at": _instant(run.finished_at),
        "worker": run.worker,
        "term": run.term,
        "result": run.result,
        "error": _error(run.error),
        "attempts": [_attempt(a) for a in (*run.attempts, *_present_attempt(run))],
    }


def retry_body(retry: RetryPolicy) -> dict[str, Any]:
    """The retry policy as JSON."""
    return {
        "max_attempts": retry.max_attempts,
        "initial": format_duration(retry.initial),
        "factor": retry.factor,
        "max": format_duration(retry.max),
        "jitter": retry.jitter,
    }


def read_retry(value: Any, field: str) -> RetryPolicy:
    """A retry policy from its JSON; missing keys take their defaults."""
    body, default = (
        _object_of(value, field, {"max_attempts", "initial", "factor", "max", "jitter"}),
        RetryPolicy(),
    )
    factor = body.get("factor", default.factor)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 100:
        raise BadValue(f"{field}.factor", factor, "give a number from 1 to 100")
    jitter = body.get("jitter", default.jitter)
    if not isinstance(jitter, bool):
        raise BadValue(f"{field}.jitter", jitter, "give true or false")
    return RetryPolicy(
        max_attempts=_whole(body.get("max_attempts", 1), f"{field}.max_attempts", 1, 1000),
        initial=_duration_between(body.get("initial", "5s"), f"{field}.initial", 0, 30 * DAY),
        factor=float(factor) if factor != int(factor) else int(factor),
        max=_duration_between(body.get("max", "10m"), f"{field}.max", 0, 30 * DAY),
        jitter=jitter,
    )


def read_task(value: Any, field: str) -> str:
    """A Celery task name."""
    if not isinstance(value, str) or not TASK.fullmatch(value):
        raise BadValue(
            field, value, "give a Celery task name such as billing.close_month, 255 characters at most"
        )
    return value


def read_queue(value: Any, field: str) -> str:
    """A queue name."""
    if not isinstance(value, str) or not QUEUE.fullmatch(value):
        raise BadValue(field, value, "use letters, digits, '.', '_', ':' or '-', 128 characters at most")
    return value


def read_priority(value: Any, field: str) -> int:
    """A priority, 0 (first) to 9 (last)."""
    return _whole(value, field, 0, 9)


def read_overlap(value: Any, field: str) -> Overlap:
    """One of the overlap policies."""
    return Overlap(_choice(value, field, [o.value for o in Overlap]))


def read_timeout(value: Any, field: str) -> int:
    """How long an attempt may run: 1 s to 7 days."""
    return _duration_between(value, field, 1_000_000, 7 * DAY)


def read_list(value: Any, field: str) -> list[Any]:
    """Positional arguments."""
    if not isinstance(value, list):
        raise BadValue(field, value, "give a JSON list")
    return value


def read_object(value: Any, field: str) -> dict[str, Any]:
    """Keyword arguments."""
    if not isinstance(value, dict):
        raise BadValue(field, value, "give a JSON object")
    return value


def read_text(value: Any, field: str) -> str:
    """Free text that every database can keep."""
    if not isinstance(value, str) or len(value) > _MAX_TEXT or not _storable(value):
        raise BadValue(field, value, f"give a text of at most {_MAX_TEXT} characters without NUL")
    return value


def check_payload(errors: list[BadValue], args: Any, kwargs: Any) -> None:
    """Complain where args and kwargs together are over 256 KiB of JSON, or hold what JSON or a database cannot."""
    try:
        text = json.dumps([args, kwargs], allow_nan=False, ensure_ascii=False)
        size = len(text.encode("utf-8"))
    except (ValueError, TypeError, RecursionError, UnicodeEncodeError) as exc:
        errors.append(BadValue("args", "...", f"args and kwargs must be plain JSON ({str(exc)[:80]})"))
        return
    if _NUL.search(text):
        errors.append(BadValue("args", "...", "args and kwargs must hold no NUL character"))
    if size > MAX_PAYLOAD:
        errors.append(
            TooLarge("args", f"{size} bytes", "args and kwargs together may have 262144 bytes of JSON")
        )


def _required(reader: _Reader, key: str, read: Callable[[Any, str], Any]) -> Any:
    if reader.body.get(key) is None:
        reader.errors.append(BadValue(key, None, "this field is required"))
        return None
    return reader.take(key, None, read)


def _schedule(
    value: Any, field: str, job_id: str, made_at: Instant
) -> tuple[Any, tuple[str, ...], dict[str, Any]]:
    spec = read_object(value, field)
    parsed = parse_schedule(spec, job_id=job_id, made_at=made_at)
    return parsed.schedule, parsed.warnings, canonical_spec(spec, job_id=job_id)


def _object_of(value: Any, field: str, known: set[str]) -> dict[str, Any]:
    body = read_object(value, field)
    for key in sorted(set(body) - known):
        raise BadValue(
            f"{field}.{key}", body[key], f"this field is not known; known are {', '.join(sorted(known))}"
        )
    return body


def _misfire(value: Any, field: str) -> Misfire:
    body = _object_of(value, field, {"policy", "grace", "max_catch_up"})
    policy = _choice(body.get("policy", "fire_once"), f"{field}.policy", [p.value for p in MisfirePolicy])
    return Misfire(
        policy=MisfirePolicy(policy),
        grace=_duration_between(body.get("grace", "30s"), f"{field}.grace", 0, 365 * DAY),
        max_catch_up=_whole(body.get("max_catch_up", 100), f"{field}.max_catch_up", 1, 10_000),
    )


def _choice(value: Any, field: str, allowed: list[str]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise BadValue(field, value, f"choose one of {', '.join(allowed)}")
    return value


def _whole(value: Any, field: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadValue(field, value, f"give a whole number from {low} to {high}")
    return value


def _duration_between(value: Any, field: str, low: int, high: int) -> int:
    duration = parse_duration(value, field)
    if not low <= duration <= high:
        raise BadValue(
            field, value, f"give a duration from {format_duration(low)} to {format_duration(high)}"
        )
    return duration


def _up_to_a_day(value: Any, field: str) -> int:
    return _duration_between(value, field, 0, DAY)


def _tags(value: Any, field: str) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > 50:
        raise BadValue(field, value, "give a list of at most 50 texts")
    for tag in value:
        if not isinstance(tag, str) or not 0 < len(tag) <= 100 or not _storable(tag):
            raise BadValue(field, tag, "a tag is a text of 1 to 100 characters")
    return tuple(dict.fromkeys(value))


def _storable(text: str) -> bool:
    return "\x00" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def _instant(value: Instant | None) -> str | None:
    return None if value is None else format_instant(value)


def _duration(value: int | None) -> str | None:
    return None if value is None else format_duration(value)


def _error(error: TaskError | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {"type": error.type, "message": error.message, "traceback": error.traceback}


def _present_attempt(run: Run) -> list[Attempt]:
    if run.pending_at is None:
        return []
    return [
        Attempt(
            run.attempt, run.state.value, run.reason, run.pending_at, run.published_at, run.started_at,
            run.finished_at, run.worker, run.error,
        )
    ]  # fmt: skip


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "outcome": attempt.outcome,
        "reason": attempt.reason,
        "pending_at": _instant(attempt.pending_at),
        "published_at": _instant(attempt.published_at),
        "started_at": _instant(attempt.started_at),
        "finished_at": _instant(attempt.finished_at),
        "worker": attempt.worker,
        "error": _error(attempt.error),
    }
