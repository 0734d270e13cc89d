"""The form to create or edit a job, with the next runs of the typed values beside it.

Promises: an edit that another edit preceded is refused, never applied over it; an error never loses typed values.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, Depends, Request, Response

from itinerary.protocol.errors import BadValue, BadValues, Conflict, StaleVersion
from itinerary.protocol.identity import JOB_ID
from itinerary.protocol.instants import parse_instant
from itinerary.protocol.redaction import redacted, unmasked
from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import Who, require_operator_page
from scheduler_service.api.pages.calendar_fields import calendars_of
from scheduler_service.api.pages.csrf import Form, FormBody
from scheduler_service.api.pages.job_fields import (
    BLANK,
    CHOICE_TEXTS,
    INPUTS,
    KINDS,
    LABELS,
    PARTS,
    body_of,
    field_in_form,
    fields_of,
    laid_over,
    schedule_of,
    shown_again,
)
from scheduler_service.api.pages.moments import moment
from scheduler_service.api.pages.picking import DAYS_OF_MONTH, NTHS, PICKS
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.templating import part
from scheduler_service.api.pages.wrong import NOTHING_WRONG, sentence, wrong_of
from scheduler_service.api.pages.year import year_picture
from scheduler_service.api.routes.jobs import create_job, known_job, put_job
from scheduler_service.api.services.previews import preview_of, read_preview
from scheduler_service.core.contract.job_json import known_definition, read_job
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import SOLAR_EVENTS
from scheduler_service.core.schedules.spec_reading import WEEKDAYS

_CHOICES: Final[dict[str, Any]] = {
    "kinds": KINDS,
    "picks": PICKS,
    "nths": NTHS,
    "days_of_month": DAYS_OF_MONTH,
    "weekdays": [*WEEKDAYS[1:], WEEKDAYS[0]],
    "solar_events": list(SOLAR_EVENTS),
    "parts": PARTS,
    "inputs": INPUTS,
    "words": CHOICE_TEXTS,
    "suggested": {"task": "tasks", "queue": "queues", "tags": "tags"},
}

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/new-job", dependencies=[Depends(require_operator_page)])
def blank_form(request: Request) -> Response:
    """Show the form for a new job."""
    return _form(request, dict(BLANK), None)


@router.get("/jobs/{job_id}/edit", dependencies=[Depends(require_operator_page)])
def filled_form(request: Request, context: Context, job_id: str) -> Response:
    """Show the form with the job's values."""
    job = known_job(context, job_id)
    return _form(request, {**fields_of(redacted(known_definition(job))), "version": str(job.version)}, job_id)


@router.post("/new-job", dependencies=CHANGER)
def create(request: Request, context: Context, who: Who, form: FormBody) -> Response:
    """Create the job; if it is refused, show the form again with the errors."""
    try:
        body = _checked(form, context.clock())
        create_job(context, who, body)
    except (BadValue, BadValues, Conflict) as exc:
        return _form(request, shown_again(form), None, exc)
    return go(f"/jobs/{body['job_id']}", "made")


@router.post("/jobs/{job_id}/edit", dependencies=CHANGER)
def replace(request: Request, context: Context, who: Who, job_id: str, form: FormBody) -> Response:
    """Save the typed values if the job has not changed since the form was shown."""
    job = known_job(context, job_id)
    try:
        body = _checked(form, job.created_at, job)
        answer = put_job(context, who, job_id, body, f'"{form.one("version")}"')
    except (BadValue, BadValues, StaleVersion) as exc:
        return _form(request, shown_again(form), job_id, exc)
    changed = answer.headers["etag"] != f'"{job.version}"'
    return go(f"/jobs/{job_id}", "made" if changed else "unchanged")


@router.post("/parts/preview", dependencies=READER)
def preview(context: Context, form: FormBody) -> Response:
    """Show the next runs of the typed values, or their errors. Changes nothing."""
    now = context.clock()
    job_id = form.one("job_id")
    try:
        asked: dict[str, Any] = {"schedule": schedule_of(form), "calendars": calendars_of(form)}
        asked |= {"job_id": job_id} if JOB_ID.fullmatch(job_id) else {}
        parsed, after, count = read_preview(asked, now, context.calendar_sets)
    except (BadValue, BadValues) as exc:
        errors = exc.errors if isinstance(exc, BadValues) else [exc]
        return part("_preview.html", errors=_named(errors, form), found=None, times=[], year=None)
    found = preview_of(parsed, after, count)
    times = [(moment(parse_instant(item["at"]), now), item) for item in found["occurrences"]]
    return part("_preview.html", errors=[], found=found, times=times, year=year_picture(parsed.schedule, now))


def _named(errors: Sequence[BadValue], form: Form) -> list[str]:
    """Rename the errors' fields as the form names them."""
    names = [field_in_form(error.field, form.one("kind")) for error in errors]
    return [f"{LABELS.get(name, name)}: {sentence(error)}" for name, error in zip(names, errors, strict=True)]


def _checked(form: Form, created_at: int, job: Job | None = None) -> dict[str, Any]:
    """Return the job's JSON; BadValues with every error at once."""
    errors: list[BadValue] = []
    if job is None:
        body = body_of(form, errors)
    else:
        body = {**laid_over(known_definition(job), form, errors), "job_id": job.job_id}
    try:
        body = unmasked(body) if job is None else unmasked(body, job.args, job.kwargs, job.headers)
    except BadValue as exc:
        errors.append(exc)
    try:
        read_job(body, created_at=created_at)
    except BadValues as exc:
        known = {error.field.split(".")[0] for error in errors}
        errors += [error for error in exc.errors if error.field not in known]
    if errors:
        raise BadValues(errors)
    return body


def _form(request: Request, fields: dict[str, str], job_id: str | None, wrong: Exception | None = None) -> Response:
    wrong_fields = (
        NOTHING_WRONG if wrong is None else wrong_of(wrong, LABELS, lambda name: field_in_form(name, fields["kind"]))
    )
    if isinstance(wrong, StaleVersion):
        wrong_fields = dataclasses.replace(wrong_fields, status=409)
    return page(request, "job_form.html", wrong=wrong_fields, fields=fields, job_id=job_id, labels=LABELS, **_CHOICES)
