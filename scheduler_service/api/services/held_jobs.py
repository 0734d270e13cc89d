"""The freezes that hold the runs of a job now, as pages and answers name them. Only reads."""

from typing import Final

from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.problems import Problem
from scheduler_service.core.freezes import Freeze, FreezeStatus
from scheduler_service.core.model import Job

_MOST: Final = 100  # as many hold at most


def freezes_of(context: ApiContext, job: Job) -> list[Freeze]:
    """Return the freezes that hold the job; none to a token that sees no freezes."""
    try:
        found = context.stores.freeze_store.list(FreezeStatus.ACTIVE, _MOST, None)
    except Problem:
        return []
    return [one for one in found.items if one.scope.meets(job.queue, job.job_id, job.tags)]
