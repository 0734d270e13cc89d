"""Jobs as code over HTTP: plans all jobs of a file, and applies them in one transaction.

Promises all or nothing, and with a `plan_version` exactly that plan. Deletes only with `prune` what the source owns.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Depends, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.field_types import read_list, read_object
from itinerary.protocol.instants import Instant
from itinerary.protocol.redaction import unmasked
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, demand, require
from scheduler_service.api.http.bodies import JsonObject
from scheduler_service.api.openapi import schemas
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.openapi.plan_shapes import PlanOut
from scheduler_service.api.services.known_tasks import NOBODY_SAYS, known_tasks
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.contract.job_plan import MOST_JOBS, JobSet, check_set, plan_body, read_source
from scheduler_service.core.contract.job_warnings import job_warnings
from scheduler_service.core.contract.monitor_plan import WantedMonitor, read_wanted
from scheduler_service.core.model import Job

router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=[Depends(require("operator"))])
_KEYS: Final = ("source", "jobs", "monitors", "prune", "dry_run", "plan_version", "take_over")


@router.post(
    "/jobs/apply", openapi_extra=body_of(schemas.ApplyIn),
    responses=answers({200: PlanOut}, 400, 409, 413, 422),
)  # fmt: skip
def apply_jobs(context: Context, who: Who, body: JsonObject) -> Response:
    """Create, change and (with `prune`) delete jobs so that those of `source` are as given: all or nothing.

    `monitors` are applied with them, and left as they are if it is left out. A new monitor gets a token that
    nobody knows yet: POST /monitors/{monitor_id}/token makes one.
    `warnings` also name jobs whose task no living worker knows.
    With `dry_run` only the plan is answered. Its `plan_version` given back lets an apply fail with 409 if the stored
    jobs changed since.
    """
    wanted, warnings = _read(body, context.clock())
    dry_run, plan_version = bool(body.get("dry_run")), body.get("plan_version")
    if dry_run:
        plan = context.stores.job_sets.plan(wanted)
    else:
        if wanted.prune:
            demand(who, "admin", "deleting jobs")
        plan = context.stores.job_sets.apply(wanted, plan_version, by=who.audited_change("job.apply"))
        for news in plan.news:
            context.leader.tell("job_changed", news)
    warnings += _of_tasks(context, wanted.jobs)
    return JSONResponse({**plan_body(plan, applied=not dry_run), "warnings": warnings})


def _of_tasks(context: ApiContext, jobs: Sequence[Job]) -> list[dict[str, str]]:
    """Warn of tasks that no living worker knows, where the leader answers; once all is committed."""
    known = known_tasks(context) if jobs else NOBODY_SAYS
    found = ((job.job_id, known.warning(job.task)) for job in jobs)
    return [{"job_id": job_id, "msg": warning} for job_id, warning in found if warning is not None]


def _read(body: Mapping[str, Any], now: Instant) -> tuple[JobSet, list[dict[str, str]]]:
    errors = [BadValue(name, body[name], f"known are {', '.join(_KEYS)}") for name in sorted(set(body) - set(_KEYS))]
    for name in ("prune", "dry_run", "take_over"):
        if not isinstance(body.get(name, False), bool):
            errors.append(BadValue(name, body[name], "give true or false"))
    jobs, warnings = _read_jobs(body.get("jobs"), now, errors)
    monitors = None if body.get("monitors") is None else _read_monitors(body["monitors"], now, errors)
    source = None
    try:
        source = read_source(body.get("source"))
        if body.get("plan_version") is not None:
            read_text(body["plan_version"], "plan_version")
    except BadValue as exc:
        errors.append(exc)
    if errors:
        raise BadValues(errors)
    wanted = JobSet(source, jobs, body.get("prune", False), body.get("take_over", False), monitors)
    check_set(wanted)
    return wanted, warnings


def _read_monitors(value: Any, now: Instant, errors: list[BadValue]) -> list[WantedMonitor]:
    monitors: list[WantedMonitor] = []
    try:
        given = read_object(value, "monitors")
    except BadValue as exc:
        errors.append(exc)
        return monitors
    for monitor_id, body in given.items():
        try:
            monitors.append(read_wanted(monitor_id, read_object(body, ""), now))
        except BadValues as exc:
            errors += [error.under(f"monitors.{monitor_id}") for error in exc.errors]
        except BadValue as exc:
            errors.append(exc.under(f"monitors.{monitor_id}"))
    return monitors


def _read_jobs(value: Any, now: Instant, errors: list[BadValue]) -> tuple[list[Job], list[dict[str, str]]]:
    jobs: list[Job] = []
    warnings: list[dict[str, str]] = []
    try:
        given = read_list(value, "jobs")
    except BadValue as exc:
        errors.append(exc)
        return jobs, warnings
    for number, item in enumerate(given[: MOST_JOBS + 1]):
        try:
            job, messages = read_job(unmasked(read_object(item, "")), created_at=now)
        except BadValues as exc:
            errors += [error.under(f"jobs.{number}") for error in exc.errors]
        except BadValue as exc:
            errors.append(exc.under(f"jobs.{number}"))
        else:
            jobs.append(job)
            warnings += [{"job_id": job.job_id, "msg": text} for text in (*messages, *job_warnings(job, now))]
    return jobs, warnings
