"""Jobs as the API's JSON, and back.

`read_job` reports every error at once (BadValues); `job_body` returns the API's exact shape.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

from itinerary.protocol.attempt_logs import KeepLogs
from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import Instant, format_instant
from itinerary.protocol.limits import ARGUMENT_RULE, KeyFrom
from itinerary.protocol.redaction import is_hidden, redacted
from itinerary.protocol.run_fields import check_payload
from itinerary.protocol.run_request import read_fields, refuse_unknown
from scheduler_service.core.contract.calendar_uses import misfits
from scheduler_service.core.contract.fields import read_misfire, read_retry
from scheduler_service.core.contract.job_table import JOB_FIELDS, JOB_TYPES
from scheduler_service.core.contract.job_warnings import END_OF_TIME
from scheduler_service.core.contract.unknown_fields import joined, split
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import OnceSchedule, ParsedSchedule, own_schedule, parse_schedule

FIELDS: Final = frozenset(JOB_TYPES)
_REQUIRED: Final = ("job_id", "task", "schedule")
_READERS: Final = {name: of.read for name, of in JOB_TYPES.items()} | {"retry": read_retry, "misfire": read_misfire}
_VALUES: Final = attrgetter(*("schedule_spec" if name == "schedule" else name for name in JOB_TYPES))
_WRITERS: Final = [(name, of.write) for name, of in JOB_TYPES.items()]
_SPARSE: Final = [field.name for field in JOB_FIELDS if field.sparse]
# Shared by all jobs that omit them; a job's values are never changed in place.
NO_ARGS: Final[list[Any]] = []
NO_KWARGS: Final[dict[str, Any]] = {}
READ_ONLY: Final = frozenset(
    {"paused", "pause_reason", "version", "next_runs", "warnings", "paused_until", "pause_waiting", "source"}
)
_TAKEN: Final = FIELDS | READ_ONLY


def read_job(body: Mapping[str, Any], *, created_at: Instant, **stored: Any) -> tuple[Job, tuple[str, ...]]:
    """Read a job from its JSON, with the schedule's warnings.

    Read-only keys are ignored, unknown ones refused. `stored`: fields of Job that the JSON does not hold, if they are
    known.
    """
    errors: list[BadValue] = []
    values = _values(body, errors)
    _check_keys(values, errors)
    job, warnings = _judged(values, body, errors, created_at, stored)
    own = own_schedule(job.schedule)
    if isinstance(own, OnceSchedule) and own.at >= END_OF_TIME:  # no run would ever be shown as coming
        last = f"give a time before {format_instant(END_OF_TIME)}"
        raise BadValues([BadValue("schedule.at", job.schedule_spec["at"], last)])
    return job, warnings


def _values(body: Mapping[str, Any], errors: list[BadValue]) -> dict[str, Any]:
    if not body.keys() <= _TAKEN:
        refuse_unknown({name: value for name, value in body.items() if name not in READ_ONLY}, FIELDS, errors)
    errors += [BadValue(name, None, "this field is required") for name in _REQUIRED if body.get(name) is None]
    values = read_fields(body, _READERS, errors)
    values["args"], values["kwargs"] = values.get("args") or NO_ARGS, values.get("kwargs") or NO_KWARGS
    check_payload(errors, values["args"], values["kwargs"])
    return values


def _check_keys(values: Mapping[str, Any], errors: list[BadValue]) -> None:
    """Add an error for each key that the job's own arguments do not have, or that would show a hidden one."""
    keys = {f"limits.{place}.key": limit.key for place, limit in enumerate(values.get("limits", ()))}
    for field, key in {**keys, "fair_key": values.get("fair_key")}.items():
        if not isinstance(key, KeyFrom):
            continue
        if any(map(is_hidden, key.path.split("."))):
            rule = "take it from an argument that is not hidden: keys are shown"
            errors.append(BadValue(field, {"from": key.path}, rule))
            continue
        try:
            key.of(values["args"], values["kwargs"])
        except BadValue:
            rule = f"{key.path} must be {ARGUMENT_RULE} in the job's own args and kwargs, which a run may replace"
            errors.append(BadValue(field, {"from": key.path}, rule))


def _judged(
    values: dict[str, Any],
    body: Mapping[str, Any],
    errors: list[BadValue],
    created_at: Instant,
    stored: Mapping[str, Any],
) -> tuple[Job, tuple[str, ...]]:
    start_at, end_at = values.get("start_at"), values.get("end_at")
    if start_at is not None and end_at is not None and end_at <= start_at:
        errors.append(BadValue("end_at", body["end_at"], "give a time after start_at"))
    parsed = _schedule(values, created_at, errors)
    if parsed is not None and (calendars := values.get("calendars")) is not None:
        errors += misfits(calendars, parsed.schedule)
    if errors or parsed is None:
        raise BadValues(errors)
    values["schedule"] = parsed.schedule
    return Job(**values, schedule_spec=parsed.spec, created_at=created_at, **stored), parsed.warnings


def read_stored_job(definition: Mapping[str, Any], *, created_at: Instant, **stored: Any) -> Job:
    """Read a job from its stored definition; fields that only a newer release knows are kept as `unknown`.

    BadValues if the rest cannot be read either, as with a schedule of an unknown kind.
    """
    try:
        return _stored(definition, created_at, stored)
    except BadValues:
        known, unknown = split(definition, _TAKEN)
        if not unknown:
            raise
    return _stored(known, created_at, {**stored, "unknown": unknown})


def _stored(definition: Mapping[str, Any], created_at: Instant, stored: Mapping[str, Any]) -> Job:
    """Keys were judged when the job was saved: later rules and names that hide cost no job."""
    errors: list[BadValue] = []
    return _judged(_values(definition, errors), definition, errors, created_at, stored)[0]


def definition_of(job: Job) -> dict[str, Any]:
    """Return a version's content: the job's JSON without pause state and version. Equal jobs have equal definitions."""
    known = known_definition(job)
    return joined(known, job.unknown) if job.unknown else known


def known_definition(job: Job) -> dict[str, Any]:
    """Return the definition without fields that only a newer release knows: `read_job` accepts it."""
    written = _written(job)
    for name in _SPARSE:
        if written[name] in (None, [], KeepLogs.FAILURES.value):
            del written[name]
    return written


def shown_body(job: Job) -> dict[str, Any]:
    """Return the job as the API shows it, hidden values masked."""
    body = job_body(job)
    return {**body, **{name: redacted(body[name]) for name in ("args", "kwargs", "headers")}}


def job_body(job: Job) -> dict[str, Any]:
    """Return the job with all its values, as the audit log keeps it."""
    return {
        **_written(job),
        "paused": job.paused,
        "pause_reason": job.pause_reason,
        "paused_until": optional_instant(job.paused_until),
        "pause_waiting": ("skip" if job.pause_skips else "keep") if job.paused else None,
        "source": job.source,
        "version": job.version,
    }


def _schedule(values: Mapping[str, Any], created_at: Instant, errors: list[BadValue]) -> ParsedSchedule | None:
    if "schedule" not in values:  # its error is there
        return None
    try:
        return parse_schedule(values["schedule"], job_id=str(values.get("job_id")), created_at=created_at)
    except BadValue as exc:
        errors.append(exc)
        return None


def _written(job: Job) -> dict[str, Any]:
    values = zip(_WRITERS, _VALUES(job), strict=True)
    return {name: None if value is None else write(value) for (name, write), value in values}


DEFAULTS: Final = {
    name: value
    for name, value in _written(
        read_job({"job_id": "a", "task": "a", "schedule": {"kind": "hourly", "minute": 0}}, created_at=0)[0]
    ).items()
    if name not in _REQUIRED
}
"""The JSON of each field of a job that omits it; those without are required."""


def optional_instant(value: Instant | None) -> str | None:
    """Return the text of an instant that may be absent."""
    return None if value is None else format_instant(value)
