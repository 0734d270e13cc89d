"""Many stored definitions, read at once: those that differ only in what each job has of its own are judged as one.

Its own are id, title, arguments, tags and description. Promises the job that `read_stored_job` makes of each, and its
refusals. Remembers a bounded number of definitions.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import isinf
from typing import Any, Final, NamedTuple, TypeAlias

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.identity import JOB_ID
from itinerary.protocol.instants import Instant
from itinerary.protocol.json_text import is_deep
from itinerary.protocol.run_fields import check_payload
from itinerary.protocol.run_request import read_fields
from itinerary.protocol.typed_values import may_need_care
from scheduler_service.core.compact_history import IN_TEXT, CompactHistory
from scheduler_service.core.contract.job_json import NO_ARGS, NO_KWARGS, read_stored_job
from scheduler_service.core.contract.job_table import JOB_TYPES
from scheduler_service.core.model import Job, JobHistory
from scheduler_service.core.schedules.schedule import Schedule, depends_on_creation, depends_on_id, parse_schedule

_OWN: Final = {name: JOB_TYPES[name].read for name in ("job_id", *IN_TEXT)}
_SHARED: Final = [name for name in JOB_TYPES if name not in _OWN] + ["schedule_spec", "unknown"]
# A definition begins and ends with these fields, in this order; one that does not is read alone.
_TEXT: Final = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_TO_ARGS: Final = re.compile(
    rf'\{{"job_id": ?"([^"\\]*)", ?("title": ?{_TEXT}, ?)("task": ?"[^"\\]*", ?)"args": ?(?=\[)'
)
_NO_ARGUMENTS: Final = re.compile(r'\[\], ?"kwargs": ?\{\}')
_TO_KWARGS: Final = re.compile(r', ?"kwargs": ?(?=\{)')
_TAGS: Final = re.compile(rf'"tags": ?(\[(?:{_TEXT}(?:, ?{_TEXT})*)?\]), ?"description": ?{_TEXT}\}}')
# Texts and payloads below these are within each of their bounds, however their numbers are written.
_SURELY_SHORT: Final = 4_096
_SURELY_SHORT_TAGS: Final = 100
# A definition in parts: the job's id, all of its own values as JSON, its tags as JSON, and the text of the others.
_Cut: TypeAlias = tuple[str, str, str, str]


class _Alike(NamedTuple):
    """The fields that jobs share; `spec` if the schedule of each counts from its creation.

    `samples`: by what is stored beside the definition, as its version, a job that others are like, and its own text.
    """

    fields: dict[str, Any]
    spec: Any
    samples: dict[tuple[Any, ...], tuple[tuple[Job], str]]


class StoredJobs:
    """The definitions of one read, of which it remembers `most`."""

    def __init__(self, most: int = 4_096) -> None:
        self._most = most
        self._alike: dict[str, _Alike] = {}

    def read(self, text: str, *, created_at: Instant, **stored: Any) -> Job:
        """Read a job from the text of its definition, as `read_stored_job` does."""
        return self._job(text, _cut(text), created_at, stored)

    def history(
        self, text: str, planned_version: int, created_at: Instant, effective_from: Instant, stored: Mapping[str, Any]
    ) -> JobHistory:
        """Read a job with one version, without building it if it is like one that was read before.

        `stored` has what is stored of each version beside its definition and these instants.
        """
        cut, beside = _cut(text), tuple(stored.values())
        alike = None if cut is None else self._alike.get(cut[3])
        sample = None if alike is None else alike.samples.get(beside)
        if cut is None or alike is None or sample is None:
            job = self._job(text, cut, created_at, {"effective_from": effective_from, **stored})
            alike = None if cut is None else self._alike.get(cut[3])
            if cut is not None and alike is not None and len(alike.samples) < self._most:
                alike.samples[beside] = (job,), cut[1]
            return JobHistory((job,), planned_version)
        job_id, own, tags, _ = cut
        like, judged = sample
        if own == judged and JOB_ID.fullmatch(job_id) is not None:
            own = judged  # one text serves both
        elif not _is_sure(job_id, own, tags):
            _judged(job_id, own)
        schedule = like[0].schedule if alike.spec is None else _counted_from(alike.spec, job_id, created_at)
        return CompactHistory(like, planned_version, job_id, created_at, effective_from, schedule, own)

    def _job(self, text: str, cut: _Cut | None, created_at: Instant, stored: Mapping[str, Any]) -> Job:
        alike = None if cut is None else self._alike.get(cut[3])
        if cut is not None and alike is not None:
            return _like(alike, *cut[:2], created_at, stored)
        definition = json.loads(text)
        job = read_stored_job(definition, created_at=created_at, **stored)
        if cut is not None and not depends_on_id(definition["schedule"]):
            self._keep(cut[3], job)
        return job

    def _keep(self, rest: str, job: Job) -> None:
        if len(self._alike) >= self._most:
            self._alike.clear()
        spec = job.schedule_spec if depends_on_creation(job.schedule_spec) else None
        self._alike[rest] = _Alike({name: getattr(job, name) for name in _SHARED}, spec, {})


def _cut(text: str) -> _Cut | None:
    """Cut a definition into the fields that each job has its own values of, and the text of the others, if it can."""
    head = _TO_ARGS.match(text)
    if head is None:
        return None
    start = head.end()
    none = _NO_ARGUMENTS.match(text, start)
    end = _end_of_arguments(text, start) if none is None else none.end()
    # The last one outside of a text; its object is the definition, since that ends with it.
    at = -1 if end is None else text.rfind('"tags"', end)
    tail = None if at < 0 else _TAGS.fullmatch(text, at)
    if tail is None:
        return None
    own = f'{{{head[2]}"args": {text[start:end]}, {text[at:]}'
    return head[1], own, tail[1], head[3] + text[end:at]


def _is_sure(job_id: str, own: str, tags: str) -> bool:
    """Whether these values are within all bounds, as nearly all are; else they are to be judged."""
    return (
        len(own) < _SURELY_SHORT
        and len(tags) < _SURELY_SHORT_TAGS
        and own.isascii()
        and "\\" not in own
        and '""' not in tags
        and JOB_ID.fullmatch(job_id) is not None
        and not (is_deep(own) or may_need_care(own))
    )


def _end_of_arguments(text: str, start: int) -> int | None:
    """Return where the arguments end; None if there is more in them than JSON, or not both."""
    with suppress(_NotFinite):
        _, end = _scan(text, start)
        between = _TO_KWARGS.match(text, end)
        if between is not None:
            _, end = _scan(text, between.end())
            return end
    return None


class _NotFinite(Exception):
    """A number that JSON cannot write again."""


def _finite(number: str) -> float:
    value = float(number)
    if isinf(value):
        raise _NotFinite
    return value


def _refuse(constant: str) -> None:
    raise _NotFinite(constant)


_decoder: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse)
_scan: Final[Callable[[str, int], tuple[Any, int]]] = _decoder.scan_once  # type: ignore[attr-defined]


def _like(alike: _Alike, job_id: str, own: str, created_at: Instant, stored: Mapping[str, Any]) -> Job:
    values = {**alike.fields, **_judged(job_id, own)}
    if alike.spec is not None:
        values["schedule"] = _counted_from(alike.spec, job_id, created_at)
    return Job(**values, created_at=created_at, **stored)


def _judged(job_id: str, own: str) -> dict[str, Any]:
    errors: list[BadValue] = []
    values = read_fields({"job_id": job_id, **json.loads(own)}, _OWN, errors)
    values["args"], values["kwargs"] = values.get("args") or NO_ARGS, values.get("kwargs") or NO_KWARGS
    check_payload(errors, values["args"], values["kwargs"])
    if errors:
        raise BadValues(errors)
    return values


def _counted_from(spec: Any, job_id: str, created_at: Instant) -> Schedule:
    return parse_schedule(spec, job_id=job_id, created_at=created_at).schedule
