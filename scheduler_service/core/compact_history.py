"""Histories of jobs that only wait: what a job has of its own, and a sample that it is like in all else.

A leader holds a million jobs of few definitions, of which few fire soon. A `Job` for each would cost 320 bytes more,
and 1,000 where each has its own tags and arguments. Such a history builds its job when it is asked for. The newest are
kept, so that a job which fires is built once for its plan, its dispatch and its end. Promises the same answers as a
`JobHistory`.
"""

import json
from collections import deque
from contextlib import suppress
from dataclasses import fields, replace
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import Job, JobHistory

if TYPE_CHECKING:  # schedules load numpy
    from scheduler_service.core.schedules.schedule import Schedule

_NAMES: Final = [field.name for field in fields(Job)]
_VALUES: Final = attrgetter(*_NAMES)
# Twice as fast as Job's own __init__, which looks each field up by its name.
_SETTERS: Final = [getattr(Job, name).__set__ for name in _NAMES]
_OWN: Final = ("job_id", "created_at", "effective_from", "schedule")
_OWN_VALUES: Final = attrgetter(*_OWN)
IN_TEXT: Final = ("title", "args", "kwargs", "tags", "description")
_PLACES: Final = [_NAMES.index(name) for name in (*_OWN, *IN_TEXT)]
_BUILT_AT_MOST: Final = 32_768
_TEXTS_AT_MOST: Final = 64
_PARSED: Final = json.JSONDecoder().raw_decode
_IN_ORDER: Final = itemgetter(*IN_TEXT)
_built: Final[deque["CompactHistory"]] = deque()
_set: Final = object.__setattr__  # an instance is frozen, as each JobHistory


class CompactHistory(JobHistory):
    """A job with one version, which is like the `sample` in all but the fields that stand here.

    `own` is the JSON of title, args, kwargs, tags and description, judged before.
    """

    __slots__ = ("alike", "created_at", "effective_from", "job_id", "own", "schedule")

    job_id: str
    own: str
    created_at: Instant
    effective_from: Instant
    schedule: "Schedule"
    alike: tuple[Job, ...]

    def __init__(
        self,
        sample: tuple[Job, ...],
        planned_version: int,
        job_id: str,
        created_at: Instant,
        effective_from: Instant,
        schedule: "Schedule",
        own: str,
    ) -> None:
        _set(self, "alike", sample)
        _set(self, "planned_version", planned_version)
        _set(self, "job_id", job_id)
        _set(self, "created_at", created_at)
        _set(self, "effective_from", effective_from)
        _set(self, "schedule", schedule)
        _set(self, "own", own)

    def __getattr__(self, name: str) -> tuple[Job, ...]:
        """Build `versions`, the one attribute that may be unset; keep it until as many others were built since."""
        if name != "versions":
            raise AttributeError(name)
        values = list(_VALUES(self.alike[0]))
        for place, value in zip(_PLACES, (*_OWN_VALUES(self), *_read(self.own)), strict=True):
            values[place] = value
        job = object.__new__(Job)
        for set_field, value in zip(_SETTERS, values, strict=True):
            set_field(job, value)
        versions = (job,)
        _set(self, "versions", versions)
        _built.append(self)
        if len(_built) > _BUILT_AT_MOST:
            _built.popleft()._forget()
        return versions

    def _forget(self) -> None:
        with suppress(AttributeError):  # two threads may have built it at once: then it was kept twice
            object.__delattr__(self, "versions")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JobHistory):
            return NotImplemented
        return (self.versions, self.planned_version) == (other.versions, other.planned_version)

    __hash__ = JobHistory.__hash__


def with_planned(history: JobHistory, version: int) -> JobHistory:
    """Return the history with its versions planned up to this one; a compact one stays so."""
    if isinstance(history, CompactHistory):
        return CompactHistory(history.alike, version, *_OWN_VALUES(history), history.own)
    return JobHistory(history.versions, version)


def with_schedule(history: JobHistory, schedule: "Schedule") -> JobHistory:
    """Return the history of one version with another schedule; a compact one stays so."""
    if isinstance(history, CompactHistory):
        job_id, created_at, effective_from, _ = _OWN_VALUES(history)
        planned = history.planned_version
        return CompactHistory(history.alike, planned, job_id, created_at, effective_from, schedule, history.own)
    return JobHistory((replace(history.versions[0], schedule=schedule),), history.planned_version)


@lru_cache(maxsize=_TEXTS_AT_MOST)
def _read(own: str) -> tuple[Any, ...]:
    """Return the values of the fields in text, in their order; jobs that fire together often have the same."""
    values, _ = _PARSED(own)
    values["tags"] = tuple(dict.fromkeys(values["tags"]))
    found: tuple[Any, ...] = _IN_ORDER(values)
    return found
