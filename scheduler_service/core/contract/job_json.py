"""Jobs as the API's JSON, and back.

`read_job` reports every error at once (BadValues); `job_body` returns the API's exact shape.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.identity import check_job_id
from itinerary.protocol.instants import Instant, format_duration, format_instant, parse_instant
from itinerary.protocol.redaction import redacted
from itinerary.protocol.run_fields import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    RetryPolicy,
    check_payload,
    read_list,
    read_object,
    read_priority,
    read_queue,
    read_start_within,
    read_task,
    read_timeout,
    retry_body,
)
from scheduler_service.core.contract.fields import (
    read_jitter,
    read_misfire,
    read_overlap,
    read_retry,
    read_tags,
    read_text,
)
from scheduler_service.core.contract.unknown_fields import joined, split
from scheduler_service.core.model import Job, Misfire, Overlap
from scheduler_service.core.schedules.schedule import ParsedSchedule, parse_schedule

FIELDS: Final = frozenset(
    {"job_id", "title", "task", "args", "kwargs", "queue", "priority", "schedule", "start_at", "end_at", "jitter"}
    | {"misfire", "overlap", "retry", "timeout", "start_within", "tags", "description"}
)
# Shared by all jobs that omit them; a job's values are never changed in place.
_NO_ARGS: Final[list[Any]] = []
_NO_KWARGS: Final[dict[str, Any]] = {}
_MISFIRE: Final = Misfire()
_RETRY: Final = RetryPolicy()
READ_ONLY: Final = frozenset(
    {"paused", "pause_reason", "version", "next_runs", "warnings", "paused_until", "pause_waiting", "source"}
)
_TAKEN: Final = FIELDS | READ_ONLY


class _Reader:
    """Reads fields one by one and collects every error, so that all are reported together."""

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


def read_job(body: Mapping[str, Any], *, created_at: Instant, **stored: Any) -> tuple[Job, tuple[str, ...]]:
    """Read a job from its JSON, with the schedule's warnings.

    Read-only keys are ignored, unknown ones refused. `stored`: fields of Job that the JSON does not hold, if they are
    known.
    """
    reader = _Reader(body)
    for key in sorted(set(body) - _TAKEN):
        known = ", ".join(sorted(FIELDS))
        reader.errors.append(BadValue(key, body[key], f"this field is not known; known are {known}"))
    job_id = _required(reader, "job_id", check_job_id)
    task = _required(reader, "task", read_task)
    parsed = _required(reader, "schedule", lambda v, k: _schedule(v, k, str(job_id), created_at))
    args = reader.take("args", _NO_ARGS, read_list) or _NO_ARGS
    kwargs = reader.take("kwargs", _NO_KWARGS, read_object) or _NO_KWARGS
    start_at = reader.take("start_at", None, parse_instant)
    end_at = reader.take("end_at", None, parse_instant)
    if start_at is not None and end_at is not None and end_at <= start_at:
        reader.errors.append(BadValue("end_at", body["end_at"], "give a time after start_at"))
    check_payload(reader.errors, args, kwargs)
    fields: dict[str, Any] = {
        "title": reader.take("title", "", read_text),
        "queue": reader.take("queue", DEFAULT_QUEUE, read_queue),
        "priority": reader.take("priority", DEFAULT_PRIORITY, read_priority),
        "jitter": reader.take("jitter", 0, read_jitter),
        "misfire": reader.take("misfire", _MISFIRE, read_misfire),
        "overlap": reader.take("overlap", Overlap.SKIP, read_overlap),
        "retry": reader.take("retry", _RETRY, read_retry),
        "timeout": reader.take("timeout", None, read_timeout),
        "start_within": reader.take("start_within", None, read_start_within),
        "tags": reader.take("tags", (), read_tags),
        "description": reader.take("description", "", read_text),
    }
    if reader.errors:
        raise BadValues(reader.errors)
    job = Job(
        job_id=job_id, task=task, schedule=parsed.schedule, schedule_spec=parsed.spec, args=args, kwargs=kwargs,
        start_at=start_at, end_at=end_at, created_at=created_at, **fields, **stored,
    )  # fmt: skip
    return job, parsed.warnings


def read_stored_job(definition: Mapping[str, Any], *, created_at: Instant, **stored: Any) -> Job:
    """Read a job from its stored definition; fields that only a newer release knows are kept as `unknown`.

    BadValues if the rest cannot be read either, as with a schedule of an unknown kind.
    """
    try:
        return read_job(definition, created_at=created_at, **stored)[0]
    except BadValues:
        known, unknown = split(definition, _TAKEN)
        if not unknown:
            raise
    return read_job(known, created_at=created_at, unknown=unknown, **stored)[0]


def definition_of(job: Job) -> dict[str, Any]:
    """Return a version's content: the job's JSON without pause state and version. Equal jobs have equal definitions."""
    known = known_definition(job)
    return joined(known, job.unknown) if job.unknown else known


def known_definition(job: Job) -> dict[str, Any]:
    """Return the definition without fields that only a newer release knows: `read_job` accepts it."""
    # Only if it is given: the previous release refuses definitions with fields that it does not know.
    within = {} if job.start_within is None else {"start_within": format_duration(job.start_within)}
    return {
        **within,
        "job_id": job.job_id,
        "title": job.title,
        "task": job.task,
        "args": list(job.args),
        "kwargs": dict(job.kwargs),
        "queue": job.queue,
        "priority": job.priority,
        "schedule": dict(job.schedule_spec),
        "start_at": optional_instant(job.start_at),
        "end_at": optional_instant(job.end_at),
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


def shown_body(job: Job) -> dict[str, Any]:
    """Return the job as the API shows it, hidden values masked."""
    return {**job_body(job), "args": redacted(list(job.args)), "kwargs": redacted(dict(job.kwargs))}


def job_body(job: Job) -> dict[str, Any]:
    """Return the job with all its values, as the audit log keeps it."""
    return {
        **known_definition(job),
        "start_within": _duration(job.start_within),
        "paused": job.paused,
        "pause_reason": job.pause_reason,
        "paused_until": optional_instant(job.paused_until),
        "pause_waiting": ("skip" if job.pause_skips else "keep") if job.paused else None,
        "source": job.source,
        "version": job.version,
    }


def _required(reader: _Reader, key: str, read: Callable[[Any, str], Any]) -> Any:
    if reader.body.get(key) is None:
        reader.errors.append(BadValue(key, None, "this field is required"))
        return None
    return reader.take(key, None, read)


def _schedule(value: Any, field: str, job_id: str, created_at: Instant) -> ParsedSchedule:
    return parse_schedule(read_object(value, field), job_id=job_id, created_at=created_at)


def optional_instant(value: Instant | None) -> str | None:
    """Return the text of an instant that may be absent."""
    return None if value is None else format_instant(value)


def _duration(value: int | None) -> str | None:
    return None if value is None else format_duration(value)
