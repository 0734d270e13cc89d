"""Histories as a store reads them of jobs that are like another one."""

import json
from dataclasses import replace

from itinerary.protocol.instants import Instant
from scheduler_service.core.compact_history import IN_TEXT, CompactHistory
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.kinds import OnceSchedule

_ELSE: Instant = 3_000_000_000_000_000


def compact(job: Job, planned_version: int) -> CompactHistory:
    """The history of a job with one version; its sample has other values where each job has its own."""
    sample = replace(
        job,
        job_id=f"{job.job_id}-other",
        title="other",
        args=("other",),
        kwargs={"other": 1},
        tags=("other",),
        description="other",
        created_at=_ELSE,
        effective_from=_ELSE,
        schedule=OnceSchedule(_ELSE),
    )
    own = json.dumps({name: getattr(job, name) for name in IN_TEXT})
    return CompactHistory((sample,), planned_version, job.job_id, job.created_at, job.effective_from, job.schedule, own)
