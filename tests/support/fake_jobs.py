"""JobStore in memory, by the same contract as the SQL one."""

from dataclasses import replace
from typing import Any, Literal

from itinerary.protocol.errors import Conflict, NotFound, StaleVersion
from itinerary.protocol.instants import MICROSECOND, Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.balancing.placements import carry_place
from scheduler_service.core.contract.calendar_uses import calendars_named, counts_days, refuse_calendars
from scheduler_service.core.contract.job_json import definition_of, job_body, read_stored_job
from scheduler_service.core.contract.limit_uses import limits_named, refuse_limits
from scheduler_service.core.contract.unknown_fields import carried
from scheduler_service.core.model import Job
from scheduler_service.core.versions import as_of
from scheduler_service.ports.lists import BY_ID, JobSort, Order
from scheduler_service.ports.stores import JobFilter, Page
from scheduler_service.sql.paging import page_of, read_cursor
from tests.support.fake_rows import JobRow, Tables, as_json


class FakeJobStore:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def create(self, job: Job, *, by: AuditedChange | None = None) -> Job:
        with self._tables.lock:
            if self._there(job.job_id) is not None:
                raise Conflict(f"job {job.job_id} exists")
            return self._add(replace(job, deleted=False), by, anew=True)

    def replace(
        self, job: Job, if_version: int | None, *, by: AuditedChange | None = None
    ) -> tuple[Job, Literal["made", "replaced", "unchanged"]]:
        with self._tables.lock:
            there = self._there(job.job_id)
            self._check(there, if_version)
            if there is None:
                return self.create(job, by=by), "made"
            job = carried(there, job)
            if definition_of(job) == definition_of(there):
                return there, "unchanged"
            changed = replace(
                job,
                created_at=there.created_at,
                paused=there.paused,
                pause_reason=there.pause_reason,
                paused_until=there.paused_until,
                pause_skips=there.pause_skips,
                source=there.source,
            )
            return self._add(changed, by), "replaced"

    def get(self, job_id: str) -> Job:
        with self._tables.lock:
            return as_of(self._known(job_id), self._tables.clock())

    def list(self, wanted: JobFilter, limit: int, cursor: str | None, order: Order[JobSort] = BY_ID) -> Page[Job]:
        assert order == BY_ID, "the fake sorts by no other value"
        after = "" if cursor is None else read_cursor(cursor, str)[0]
        with self._tables.lock:
            current = [as_of(row.current, self._tables.clock()) for _, row in sorted(self._tables.jobs.items())]
            last_states = {
                row.job_id: row.state
                for row in sorted(self._tables.runs.values(), key=lambda row: (row.scheduled_at, row.id))
                if row.scheduled_at < self._tables.clock()
            }
        current = [job for job in current if not wanted.prefixes or job.job_id.startswith(wanted.prefixes)]
        found = [
            job
            for job in current
            if not job.deleted
            and job.job_id > after
            and (wanted.tag is None or wanted.tag in job.tags)
            and (not wanted.text or wanted.text.casefold() in f"{job.job_id}\n{job.title}\n{job.task}".casefold())
            and wanted.paused in (None, job.paused)
            and wanted.source in (None, job.source)
            and (not wanted.job_ids or job.job_id in wanted.job_ids)
            and wanted.queue in (None, job.queue)
            and wanted.task in (None, job.task)
            and (not wanted.last_states or last_states.get(job.job_id) in wanted.last_states)
        ]
        return page_of(found[: limit + 1], limit, lambda job: job, lambda job: [job.job_id])

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
        with self._tables.lock:
            there = self._known(job_id)
            self._check(there, if_version)
            pause_reason, paused_until = (reason, until) if paused else (None, None)
            wanted = replace(
                there, paused=paused, pause_reason=pause_reason, paused_until=paused_until, pause_skips=skips and paused
            )
            return there if wanted == there else self._add(wanted, by)

    def delete(self, job_id: str, if_version: int | None, *, by: AuditedChange | None = None) -> None:
        with self._tables.lock:
            there = self._known(job_id)
            self._check(there, if_version)
            self._add(replace(there, deleted=True), by)

    def _known(self, job_id: str) -> Job:
        there = self._there(job_id)
        if there is None:
            raise NotFound(f"no job {job_id}")
        return there

    def _there(self, job_id: str) -> Job | None:
        row = self._tables.jobs.get(job_id)
        return None if row is None or row.current.deleted else row.current

    def _check(self, there: Job | None, if_version: int | None) -> None:
        if if_version is not None and if_version != (there.version if there else None):
            raise StaleVersion(f"not at version {if_version}")

    def _keep_limits(self, job: Job, before: Job | None) -> None:
        if limits_named(job) != limits_named(before):
            refuse_limits([("", job)], self._tables.per_key())
            self._tables.job_limits[job.job_id] = frozenset(limit.name for limit in limits_named(job))

    def _keep_calendars(self, job: Job) -> None:
        known = {one: stored.content.compiled for one, stored in self._tables.calendars.items()}
        refuse_calendars([("", job)], known)
        named = calendars_named(job)
        ids = () if named is None else named.ids
        self._tables.job_calendars[job.job_id] = {one: counts_days(named, one) for one in ids if named is not None}

    def _add(self, job: Job, by: AuditedChange | None, *, anew: bool = False) -> Job:
        row = self._tables.jobs.get(job.job_id, JobRow([]))
        before = row.versions[-1] if row.versions else None
        self._keep_limits(job, before)
        self._keep_calendars(job)
        self._tables.jobs[job.job_id] = row
        now = self._tables.clock()
        effective_from = now if before is None else max(now, before.effective_from + MICROSECOND)
        reread = read_stored_job(definition_of(job), created_at=now if anew else job.created_at)
        added = replace(
            reread,
            paused=job.paused,
            pause_reason=job.pause_reason,
            paused_until=job.paused_until,
            pause_skips=job.pause_skips,
            source=job.source,
            deleted=job.deleted,
            version=len(row.versions) + 1,
            effective_from=effective_from,
        )
        added = carry_place(before, added)
        row.versions.append(added)
        row.actors.append(None if by is None else by.actor)
        self._tables.record(by, job.job_id, _audited(before), _audited(added))
        return added


def _audited(job: Job | None) -> Any:
    return None if job is None or job.deleted else as_json(job_body(job))
