"""The names that forms suggest: tasks, queues, tags, calendars, zones. A part that a form fetches once.

Promises a bound: so many jobs and calendars are read. A limited token gets the names of its own rows.
"""

from collections.abc import Iterator
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.shell import READER, PageRoute
from scheduler_service.api.pages.templating import part
from scheduler_service.api.services.known_tasks import NOBODY_SAYS, known_tasks
from scheduler_service.api.services.who_leads import ask_holder
from scheduler_service.core.schedules.zone_eras import names_in_force
from scheduler_service.ports.stores import JobFilter

_READ: Final = 300

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@router.get("/parts/names")
def names(context: Context, who: Who) -> Response:
    """List the known names of each kind."""
    jobs = context.stores.jobs.list(JobFilter(), _READ, None).items
    calendars = context.stores.calendar_store.list(_READ, None).items
    queues = {job.queue for job in jobs} | (set(_queues(context)) if who.limits.none else set())
    tasks, at_workers = {job.task for job in jobs}, known_tasks(context)
    known = {
        "jobs": sorted(job.job_id for job in jobs),
        "tasks": sorted(tasks.union(at_workers.names)),
        "queues": sorted(queues),
        "tags": sorted({tag for job in jobs for tag in job.tags}),
        "calendars": sorted(calendar.calendar_id for calendar in calendars),
        "zones": sorted(names_in_force()),
    }
    unknown = {task for task in tasks if at_workers.warning(task) is not None}
    return part("_names.html", known=known, unknown=unknown)


@router.get("/parts/known-task")
def known_task(context: Context, task: Annotated[str, Query(max_length=255)] = "") -> Response:
    """Say so if no living worker knows a task of this name."""
    known = known_tasks(context) if task else NOBODY_SAYS
    return part("_known_task.html", task=task if known.warning(task) is not None else None)


def _queues(context: ApiContext) -> Iterator[str]:
    _, figures = ask_holder(context.stores.leases, context.leader)
    yield from (str(queue["name"]) for queue in (figures or {}).get("queues", ()))
