"""Jobs as code, the decisions: which stored jobs a file's jobs would change. Pure.

A source (a file) owns the jobs that it created or took over. Only those may be pruned when the file no longer names
them. Without a source nothing is owned: jobs are created and changed, regardless of their owner, and none is deleted.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.redaction import redacted
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.job_json import definition_of
from scheduler_service.core.contract.monitor_plan import (
    NO_MONITORS,
    MonitorsPlan,
    WantedMonitor,
    monitors_body,
    plan_monitors,
    state_line,
)
from scheduler_service.core.contract.plan_parts import FieldChange, change_bodies, changes, refuse_others
from scheduler_service.core.contract.unknown_fields import carried
from scheduler_service.core.model import Job
from scheduler_service.core.monitors.model import Monitor

SOURCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")
MOST_JOBS: Final = 5_000


@dataclass(frozen=True, slots=True)
class JobSet:
    """All jobs of one source; `take_over` lets it have jobs that another source owns.

    `monitors`: all of its monitors too; None leaves them as they are.
    """

    source: str | None
    jobs: Sequence[Job]
    prune: bool = False
    take_over: bool = False
    monitors: Sequence[WantedMonitor] | None = None


@dataclass(frozen=True, slots=True)
class JobChange:
    """A stored job and its change. If only the source differs, no version is created."""

    there: Job
    wanted: Job
    fields: tuple[FieldChange, ...]

    @property
    def of_definition(self) -> bool:
        """Whether the definition itself changes."""
        return any(change.field != "source" for change in self.fields)


@dataclass(frozen=True, slots=True)
class JobsPlan:
    """The plan of applying. `version` names the stored jobs that it rests on; `left` are owned but not named."""

    source: str | None
    version: str
    added: tuple[Job, ...]
    changed: tuple[JobChange, ...]
    removed: tuple[Job, ...]
    left: tuple[str, ...]
    unchanged: int
    monitors: MonitorsPlan = NO_MONITORS

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change."""
        return self.keeps_jobs and self.monitors.is_empty

    @property
    def keeps_jobs(self) -> bool:
        """Whether no job changes."""
        return not (self.added or self.changed or self.removed)

    @property
    def news(self) -> list[dict[str, str]]:
        """Return the leader's notifications once the plan is carried out: bodies of `job_changed`."""
        changes = [(job.job_id, "added") for job in self.added]
        changes += [(change.there.job_id, "modified") for change in self.changed if change.of_definition]
        changes += [(job.job_id, "removed") for job in self.removed]
        return [{"job_id": job_id, "change": change} for job_id, change in changes]


class JobSets(Protocol):
    """A port: plans and applies the jobs of a source; each change creates a version and its history row."""

    def plan(self, wanted: JobSet) -> JobsPlan:
        """Return what `apply` would do now; Conflict if a job is another source's."""

    def apply(self, wanted: JobSet, plan_version: str | None, *, by: AuditedChange | None = None) -> JobsPlan:
        """Plan and carry out, all or nothing; Conflict if `plan_version` is not the plan's version.

        Each change is recorded in the audit log, if `by` names its author.
        """


def read_source(value: Any, field: str = "source") -> str | None:
    """Read the name of a source; None and the empty text are no source."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or not SOURCE.fullmatch(value):
        raise BadValue(field, value, "letters, digits, '.', '_', ':', '/', '@' or '-', 128 characters at most")
    return value


def check_set(wanted: JobSet) -> None:
    """Raise BadValues if the set contradicts itself."""
    errors = []
    for what, given in (("jobs", wanted.jobs), ("monitors", wanted.monitors or ())):
        if len(given) > MOST_JOBS:
            errors.append(BadValue(what, len(given), f"at most {MOST_JOBS} at once; split the file"))
    if wanted.prune and wanted.source is None:
        errors.append(BadValue("prune", True, "name a source: only what a source owns can be pruned"))
    seen: set[str] = set()
    for number, job in enumerate(wanted.jobs):
        if job.job_id in seen:
            errors.append(
                BadValue(f"jobs.{number}.job_id", job.job_id, "duplicate job id; give each job an id of its own")
            )
        seen.add(job.job_id)
    if errors:
        raise BadValues(errors)


def plan_jobs(stored: Iterable[Job], wanted: JobSet, monitors: Collection[Monitor] = ()) -> JobsPlan:
    """Return the plan; `stored` and `monitors` are what is named or owned, without deleted jobs.

    Conflict if one belongs to another source and is not to be taken over.
    """
    there = {job.job_id: job for job in stored}
    owners = {job.job_id: there[job.job_id].source for job in wanted.jobs if job.job_id in there}
    if wanted.source is not None and not wanted.take_over:
        refuse_others("jobs", owners, wanted.source)
    added = [job for job in wanted.jobs if job.job_id not in there]
    compared = [_compared(there[job.job_id], job, wanted.source) for job in wanted.jobs if job.job_id in there]
    changed = tuple(change for change in compared if change.fields)
    unnamed = _unnamed(there, wanted)
    return JobsPlan(
        source=wanted.source,
        version=version_of(there.values(), monitors),
        added=tuple(added),
        changed=changed,
        removed=tuple(unnamed) if wanted.prune else (),
        left=() if wanted.prune else tuple(job.job_id for job in unnamed),
        unchanged=len(compared) - len(changed),
        monitors=NO_MONITORS
        if wanted.monitors is None
        else plan_monitors(monitors, wanted.monitors, wanted.source, prune=wanted.prune, take_over=wanted.take_over),
    )


def version_of(stored: Iterable[Job], monitors: Iterable[Monitor] = ()) -> str:
    """Return a name for exactly this state of these jobs and monitors."""
    lines = sorted(f"{job.job_id} {job.version} {job.source or ''}" for job in stored)
    lines += sorted(map(state_line, monitors))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def plan_body(plan: JobsPlan, *, applied: bool) -> dict[str, Any]:
    """Return the plan as JSON."""
    return {
        "source": plan.source,
        "plan_version": plan.version,
        "applied": applied,
        "added": [{"job_id": job.job_id, "job": redacted(definition_of(job))} for job in plan.added],
        "changed": [_change_body(change) for change in plan.changed],
        "removed": [{"job_id": job.job_id, "job": redacted(definition_of(job))} for job in plan.removed],
        "left": list(plan.left),
        "unchanged": plan.unchanged,
        "monitors": monitors_body(plan.monitors),
    }


def _change_body(change: JobChange) -> dict[str, Any]:
    there = change.there
    return {"job_id": there.job_id, "version": there.version, "changes": change_bodies(change.fields)}


def _compared(there: Job, job: Job, source: str | None) -> JobChange:
    job = carried(there, job)
    found = changes(definition_of(there), definition_of(job))
    if source is not None and there.source != source:
        found.append(FieldChange("source", there.source, source))
    return JobChange(there, job, tuple(found))


def _unnamed(there: Mapping[str, Job], wanted: JobSet) -> list[Job]:
    if wanted.source is None:
        return []
    named = {job.job_id for job in wanted.jobs}
    return [job for job_id, job in sorted(there.items()) if job.source == wanted.source and job_id not in named]
