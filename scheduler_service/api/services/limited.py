"""The stores as a limited token sees them: others' rows do not exist, and changing them is refused.

Promises: every route uses these stores, so that no route can forget the limits. Fails closed: what the token's limits
cannot classify is refused, not shown.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeVar

from itinerary.protocol.errors import Conflict, NotFound, StaleVersion
from itinerary.protocol.instants import Instant
from scheduler_service.api.http.problems import Problem
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.job_plan import JobSet, JobSets, JobsPlan
from scheduler_service.core.contract.monitor_plan import NO_MONITORS
from scheduler_service.core.model import Job, NewRun, Run
from scheduler_service.core.token_limits import Limits
from scheduler_service.ports.lists import BY_ID, NEWEST_FIRST, JobSort, Order, RunSort
from scheduler_service.ports.stores import JobFilter, JobStore, Page, RunFilter, RunStore

T = TypeVar("T")
_CHECKED: Final = 10_000
_TRIES: Final = 5


def out_of_scope(what: str) -> Problem:
    """Raise 403: outside the token's limits, whatever its role."""
    return Problem(403, f"{what} is outside the limits of this token", kind="outside-limits")


class LimitedJobs(JobStore):
    """The jobs within limits."""

    def __init__(self, jobs: JobStore, limits: Limits) -> None:
        self._jobs = jobs
        self._limits = limits

    def create(self, job: Job, *, by: AuditedChange | None = None) -> Job:
        """Reports a taken id even if the job is another's."""
        self._check(job)
        return self._jobs.create(job, by=by)

    def replace(
        self, job: Job, if_version: int | None, *, by: AuditedChange | None = None
    ) -> tuple[Job, Literal["made", "replaced", "unchanged"]]:
        """Replaces only the exact version that was found within the limits."""
        self._check(job)
        for _ in range(_TRIES):
            try:
                there = self._jobs.get(job.job_id)
            except NotFound:
                if if_version is not None:
                    raise StaleVersion(f"job {job.job_id} is not at version {if_version}") from None
                try:
                    return self._jobs.create(job, by=by), "made"
                except Conflict:
                    continue
            self._check(there)
            try:
                return self._jobs.replace(job, there.version if if_version is None else if_version, by=by)
            except StaleVersion:
                if if_version is not None:
                    raise
        raise Conflict(f"job {job.job_id} has too many concurrent edits; try again", "edited-by-others")

    def get(self, job_id: str) -> Job:
        job = self._jobs.get(job_id)
        if not self._limits.has_job(job):
            raise NotFound(f"no job {job_id}")
        return job

    def list(self, wanted: JobFilter, limit: int, cursor: str | None, order: Order[JobSort] = BY_ID) -> Page[Job]:
        """A page may hold fewer rows than match: only so many rows are read."""
        limited = replace(wanted, prefixes=self._limits.jobs)
        return first_with_some(
            lambda place: self._jobs.list(limited, limit, place, order), self._limits.has_job, limit, cursor
        )

    def set_paused(
        self,
        job_id: str,
        paused: bool,
        reason: str | None,
        until: Instant | None,
        if_version: int | None = None,
        *,
        skips: bool = False,
        by: AuditedChange | None = None,
    ) -> Job:
        version = self.get(job_id).version
        return self._jobs.set_paused(job_id, paused, reason, until, if_version or version, skips=skips, by=by)

    def delete(self, job_id: str, if_version: int | None, *, by: AuditedChange | None = None) -> None:
        version = self.get(job_id).version
        self._jobs.delete(job_id, if_version or version, by=by)

    def _check(self, job: Job) -> None:
        if not self._limits.has_job(job):
            raise out_of_scope(f"job {job.job_id} (task {job.task}, queue {job.queue})")


class LimitedRuns(RunStore):
    """The runs within limits; runs that an enqueuer's token creates carry its name."""

    def __init__(self, runs: RunStore, limits: Limits) -> None:
        self._runs = runs
        self._limits = limits

    def enqueue(self, runs: Sequence[NewRun], *, by: AuditedChange | None = None) -> list[tuple[Run, bool]]:
        for run in runs:
            if not self._limits.has_run(run, self._limits.owner):
                raise out_of_scope(f"a run of task {run.task} in queue {run.queue}")
        mine = [replace(run, owner=self._limits.owner) for run in runs]
        return self._runs.enqueue(mine, by=by)

    def get(self, run_id: str) -> Run:
        run = self._runs.get(run_id)
        if not self._has(run):
            raise NotFound(f"no run {run_id}")
        return run

    def list(
        self, wanted: RunFilter, limit: int, cursor: str | None, order: Order[RunSort] = NEWEST_FIRST
    ) -> Page[Run]:
        """A page may hold fewer rows than match: only so many rows are read."""
        if wanted.queue is not None and not self._limits.has_queue(wanted.queue):
            return Page([], None)
        queues = self._limits.queues if wanted.queue is None else ()
        limited = replace(wanted, queues=queues, owner=self._limits.owner)
        return first_with_some(lambda place: self._runs.list(limited, limit, place, order), self._has, limit, cursor)

    def request_cancel(self, run_id: str, *, by: AuditedChange | None = None) -> Run:
        self.get(run_id)
        return self._runs.request_cancel(run_id, by=by)

    def _has(self, run: Run) -> bool:
        return self._limits.has_run(run, run.owner)


class LimitedSets(JobSets):
    """Plans within limits: a plan that touches another's job is refused as a whole."""

    def __init__(self, sets: JobSets, limits: Limits) -> None:
        self._sets = sets
        self._limits = limits

    def plan(self, wanted: JobSet) -> JobsPlan:
        for job in wanted.jobs:
            self._check(job)
        if wanted.monitors:
            raise out_of_scope("a monitor")
        plan = self._sets.plan(wanted)
        for there in (*(change.there for change in plan.changed), *plan.removed):
            self._check(there)
        if not plan.monitors.is_empty:
            raise out_of_scope("a monitor of this source")
        left = tuple(job_id for job_id in plan.left if self._limits.jobs and self._may_name(job_id))
        return replace(plan, monitors=NO_MONITORS, left=left)

    def apply(self, wanted: JobSet, plan_version: str | None, *, by: AuditedChange | None = None) -> JobsPlan:
        """Carries out only the exact plan that was found within the limits."""
        plan = self.plan(wanted)
        done = self._sets.apply(wanted, plan.version if plan_version is None else plan_version, by=by)
        return replace(done, left=plan.left, monitors=plan.monitors)

    def _check(self, job: Job) -> None:
        if not self._limits.has_job(job):
            raise out_of_scope(f"job {job.job_id}")

    def _may_name(self, job_id: str) -> bool:
        only_jobs = not self._limits.queues and not self._limits.tasks
        return only_jobs and self._limits.has_id(job_id)


def first_with_some(
    fetch: Callable[[str | None], Page[T]], has: Callable[[T], bool], limit: int, cursor: str | None
) -> Page[T]:
    """Return the first page from the cursor on with a visible row; an empty one if enough rows were read."""
    page: Page[T] = Page([], cursor)
    for page in _pages(fetch, cursor, max(1, _CHECKED // limit)):
        seen = [item for item in page.items if has(item)]
        if seen:
            return Page(seen, page.next_cursor)
    return Page([], page.next_cursor)


def _pages(fetch: Callable[[str | None], Page[T]], cursor: str | None, most: int) -> Iterator[Page[T]]:
    for _ in range(most):
        page = fetch(cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return
