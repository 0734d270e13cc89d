"""Many stored definitions, read at once: those that differ in id, title and arguments only are judged as one.

Promises the job that `read_stored_job` makes of each, and its refusals. Remembers a bounded number of definitions.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import Instant
from itinerary.protocol.run_fields import check_payload
from itinerary.protocol.run_request import read_fields
from scheduler_service.core.contract.job_json import NO_ARGS, NO_KWARGS, read_stored_job
from scheduler_service.core.contract.job_table import JOB_TYPES
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import depends_on_creation, depends_on_id, parse_schedule

_OWN: Final = {name: JOB_TYPES[name].read for name in ("job_id", "title", "args", "kwargs")}
_SHARED: Final = [name for name in JOB_TYPES if name not in _OWN] + ["schedule_spec", "unknown"]
# A definition begins with these fields, in this order; one that does not is read alone.
_TO_ARGS: Final = re.compile(
    r'\{"job_id": ?"([^"\\]*)", ?"title": ?("(?:[^"\\]|\\.)*"), ?"task": ?("[^"\\]*"), ?"args": ?'
)
_TO_KWARGS: Final = re.compile(r', ?"kwargs": ?')
_scan: Final[Callable[[str, int], tuple[Any, int]]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


class _Alike(NamedTuple):
    """The fields that jobs share; `spec` if the schedule of each counts from its creation."""

    fields: dict[str, Any]
    spec: Any


class StoredJobs:
    """The definitions of one read, of which it remembers `most`."""

    def __init__(self, most: int = 4_096) -> None:
        self._most = most
        self._alike: dict[str, _Alike] = {}

    def read(self, text: str, *, created_at: Instant, **stored: Any) -> Job:
        """Read a job from the text of its definition, as `read_stored_job` does."""
        own, rest = _cut(text)
        alike = self._alike.get(rest)
        if alike is not None:
            return _like(alike, own, created_at, stored)
        definition = json.loads(text)
        job = read_stored_job(definition, created_at=created_at, **stored)
        if rest and not depends_on_id(definition["schedule"]):
            self._keep(rest, job)
        return job

    def _keep(self, rest: str, job: Job) -> None:
        if len(self._alike) >= self._most:
            self._alike.clear()
        spec = job.schedule_spec if depends_on_creation(job.schedule_spec) else None
        self._alike[rest] = _Alike({name: getattr(job, name) for name in _SHARED}, spec)


def _cut(text: str) -> tuple[dict[str, Any], str]:
    """Cut a definition into the fields that each job has its own values of, and the text of the others, if it can."""
    head = _TO_ARGS.match(text)
    if head is None:
        return {}, ""
    args, end = _scan(text, head.end())
    between = _TO_KWARGS.match(text, end)
    if between is None:
        return {}, ""
    kwargs, end = _scan(text, between.end())
    title, _ = _scan(text, head.start(2))
    return {"job_id": head[1], "title": title, "args": args, "kwargs": kwargs}, head[3] + text[end:]


def _like(alike: _Alike, own: dict[str, Any], created_at: Instant, stored: dict[str, Any]) -> Job:
    errors: list[BadValue] = []
    values = {**alike.fields, **read_fields(own, _OWN, errors)}
    values["args"], values["kwargs"] = values.get("args") or NO_ARGS, values.get("kwargs") or NO_KWARGS
    check_payload(errors, values["args"], values["kwargs"])
    if errors:
        raise BadValues(errors)
    if alike.spec is not None:
        values["schedule"] = parse_schedule(alike.spec, job_id=values["job_id"], created_at=created_at).schedule
    return Job(**values, created_at=created_at, **stored)
