"""The effect that an edit of a calendar would have: which jobs would run at other times. Changes nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from itinerary.protocol.errors import NotFound
from scheduler_service.api.context import ApiContext
from scheduler_service.api.services.calendar_contents import content_of
from scheduler_service.api.services.previews import next_runs
from scheduler_service.core.calendars.closing import closed_by
from scheduler_service.core.calendars.model import Compiled, JobCalendars
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import own_schedule

_MOST_JOBS: Final = 200
_TIMES: Final = 5


def edit_preview(context: ApiContext, calendar_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the jobs, of the first 200 that name the calendar, whose next times would be others."""
    compiled = content_of(context, calendar_id, body).content.compiled
    ids = context.stores.calendar_store.jobs_using(calendar_id, _MOST_JOBS + 1)
    now = context.clock()
    changed = []
    for job in filter(None, (_job(context, job_id) for job_id in ids[:_MOST_JOBS])):
        if job.calendars is None:  # edited meanwhile
            continue
        edited = replace(job, schedule=_closed(context, job, job.calendars, {calendar_id: compiled}))
        before, after = next_runs(job, now, _TIMES), next_runs(edited, now, _TIMES)
        if before != after:
            changed.append({"job_id": job.job_id, "before": before, "after": after})
    return {"jobs": changed, "checked": min(len(ids), _MOST_JOBS), "more": len(ids) > _MOST_JOBS}


def _job(context: ApiContext, job_id: str) -> Job | None:
    try:
        return context.stores.jobs.get(job_id)
    except NotFound:
        return None


def _closed(context: ApiContext, job: Job, calendars: JobCalendars, edited: Mapping[str, Compiled]) -> Any:
    others = [one for one in calendars.ids if one not in edited]
    known = context.stores.calendar_store.versions_of(others, context.clock())
    present = {one: versions[-1].compiled for one, versions in known.items()}
    return closed_by(own_schedule(job.schedule), calendars, {**present, **edited})
