"""New versions of many jobs in one transaction: their rows and their history. Judges nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, insert, update

from itinerary.protocol.instants import MICROSECOND, Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.balancing.placements import carry_place
from scheduler_service.core.model import Job
from scheduler_service.sql.jobs import job_row, version_row
from scheduler_service.sql.tables import job_versions, jobs


def next_version(job: Job, before: Job, now: Instant) -> Job:
    """The job as the version after `before`, in effect from `now` on."""
    effective_from = max(now, before.effective_from + MICROSECOND)
    return carry_place(before, replace(job, version=before.version + 1, effective_from=effective_from))


def update_jobs(connection: Connection, written: Sequence[Job], now: Instant) -> None:
    """Write these rows of `jobs`."""
    if written:
        changed = update(jobs).where(jobs.c.job_id == bindparam("named"))
        rows = [{**_without_id(job_row(job)), "updated_at": now, "named": job.job_id} for job in written]
        connection.execute(changed, rows)


def _without_id(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "job_id"}


def write_versions(connection: Connection, written: Sequence[Job], by: AuditedChange | None) -> None:
    """Write the history rows of these versions."""
    if written:
        actor = None if by is None else by.actor
        connection.execute(insert(job_versions), [{**version_row(job), "actor": actor} for job in written])
