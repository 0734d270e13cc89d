"""Jobs over HTTP: create, change, pause, trigger, preview.

Owns what a request may say of a job, and If-Match on each change; the store decides and records it in the audit log.
Promises that 2xx is committed and that an equal body changes nothing. Never shows a hidden value, waits for no leader.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse
from uuid_utils.compat import uuid7

from itinerary.protocol.errors import BadValue, BadValues, Conflict, NotFound, StaleVersion
from itinerary.protocol.identity import JOB_ID
from itinerary.protocol.instants import Instant, parse_instant
from itinerary.protocol.redaction import unmasked
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, require
from scheduler_service.api.http.bodies import JsonObject, OptionalJsonObject
from scheduler_service.api.http.preconditions import IdempotencyKey, IfMatch, IfNoneMatch, expected_version, must_be_new
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.openapi import answers as shapes
from scheduler_service.api.openapi import schemas
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.openapi.parameters import AS_CURSOR, AS_TIME, text
from scheduler_service.api.services.merging import merged
from scheduler_service.api.services.previews import job_preview, next_runs, read_and_preview, warnings_of
from scheduler_service.core.audit import Caller
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.job_json import known_definition, read_job, shown_body
from scheduler_service.core.contract.request_keys import owned, with_key
from scheduler_service.core.contract.run_json import run_body
from scheduler_service.core.contract.run_requests import read_trigger
from scheduler_service.core.model import Job, Run

router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=[Depends(require("viewer"))])
OPERATOR = [Depends(require("operator"))]
ADMIN = [Depends(require("admin"))]
_PATCH_TRIES = 5

Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of items.")]
Counted = Annotated[bool, Query(description="Also count all matches, up to 10,000.")]
Cursor = Annotated[str | None, text(500, "`next_cursor` of the previous page.", AS_CURSOR)]
From = Annotated[
    str | None, Query(alias="from", description="Strictly after this instant; default now.", json_schema_extra=AS_TIME)
]
Count = Annotated[int, Query(ge=1, le=1000, description="Number of occurrences.")]


@router.post(
    "/jobs", status_code=201, dependencies=OPERATOR, openapi_extra=body_of(schemas.JobIn),
    responses=answers({201: shapes.JobOut}, 400, 409, 413, 422),
)  # fmt: skip
def create_job(context: Context, who: Who, body: JsonObject) -> Response:
    """Create a job; 409 if its id is taken."""
    job, _ = read_job(unmasked(body), created_at=context.clock())
    created = context.stores.jobs.create(job, by=who.audited_change("job.create"))
    context.leader.tell("job_changed", {"job_id": created.job_id, "change": "added"})
    return _job_answer(context, created, status=201)


@router.put(
    "/jobs/{job_id}", dependencies=OPERATOR, openapi_extra=body_of(schemas.JobPut),
    responses=answers({200: shapes.JobOut, 201: shapes.JobOut}, 400, 412, 413, 422),
)  # fmt: skip
def put_job(
    context: Context, who: Who, job_id: str, body: JsonObject, if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:  # fmt: skip
    """Create or replace a job; an equal body changes nothing, not even the version."""
    if body.get("job_id") not in (None, job_id):
        raise BadValue("job_id", body["job_id"], "give the id in the path, or none")
    existing = _find(context, job_id)
    body = {**_unmasked(body, existing), "job_id": job_id}
    job, _ = read_job(body, created_at=existing.created_at if existing else context.clock())
    is_new = must_be_new(if_none_match, existing)
    expected = expected_version(if_match, existing)
    if is_new:
        return _created(context, who, job)
    if if_none_match is not None and existing is not None:
        expected = existing.version  # judged against this version: no other is replaced
    stored, outcome = context.stores.jobs.replace(job, expected, by=who.audited_change("job.put"))
    if outcome != "unchanged":
        change = "added" if outcome == "made" else "modified"
        context.leader.tell("job_changed", {"job_id": job_id, "change": change})
    return _job_answer(context, stored, status=201 if outcome == "made" else 200)


def _created(context: ApiContext, who: Caller, job: Job) -> Response:
    try:
        created = context.stores.jobs.create(job, by=who.audited_change("job.put"))
    except Conflict as exc:
        raise StaleVersion(str(exc)) from exc
    context.leader.tell("job_changed", {"job_id": created.job_id, "change": "added"})
    return _job_answer(context, created, status=201)


@router.patch(
    "/jobs/{job_id}", dependencies=OPERATOR, openapi_extra=body_of(schemas.JobPatch),
    responses=answers({200: shapes.JobOut}, 400, 404, 409, 412, 413, 422),
)  # fmt: skip
def patch_job(context: Context, who: Who, job_id: str, body: JsonObject, if_match: IfMatch = None) -> Response:
    """Change some fields (JSON merge patch); a schedule of another kind replaces the old one whole."""
    if body.get("job_id", job_id) != job_id:
        raise BadValue("job_id", body["job_id"], "a job keeps its id; create another job instead")
    for _ in range(_PATCH_TRIES):
        current = known_job(context, job_id)
        job, _ = read_job(merged(known_definition(current), _unmasked(body, current)), created_at=current.created_at)
        expected = expected_version(if_match, current)
        try:
            stored, outcome = context.stores.jobs.replace(
                job, expected or current.version, by=who.audited_change("job.patch")
            )
        except StaleVersion:
            if expected is not None:
                raise
            continue  # another edit came between: apply the patch to its result
        if outcome != "unchanged":
            context.leader.tell("job_changed", {"job_id": job_id, "change": "modified"})
        return _job_answer(context, stored)
    raise Problem(409, f"job {job_id} has too many concurrent edits; try again", kind="edited-by-others")


@router.get("/jobs/{job_id}", responses=answers({200: shapes.JobOut}, 404))
def get_job(context: Context, job_id: str) -> Response:
    """Return a job with its next runs, and its version as ETag."""
    return _job_answer(context, known_job(context, job_id))


@router.delete("/jobs/{job_id}", status_code=204, dependencies=ADMIN, responses=answers({}, 404, 412))
def delete_job(context: Context, who: Who, job_id: str, if_match: IfMatch = None) -> Response:
    """Delete a job; its history stays, and its runs in flight end normally."""
    current = known_job(context, job_id)
    context.stores.jobs.delete(job_id, expected_version(if_match, current), by=who.audited_change("job.delete"))
    context.leader.tell("job_changed", {"job_id": job_id, "change": "removed"})
    return Response(status_code=204)


@router.post(
    "/jobs/{job_id}/pause", dependencies=OPERATOR, openapi_extra=body_of(schemas.PauseIn, required=False),
    responses=answers({200: shapes.JobOut}, 400, 404, 412, 413, 422),
)  # fmt: skip
def pause_job(context: Context, who: Who, job_id: str, body: OptionalJsonObject, if_match: IfMatch = None) -> Response:
    """Pause a job, indefinitely or until a time: it creates no more runs.

    Occurrences that were due before and still wait run after the resume, unless `waiting` is `skip`.
    """
    reason, until, skips = _read_pause(body, context.clock())
    expected = expected_version(if_match, known_job(context, job_id))
    by = who.audited_change("job.pause")
    return _paused(context, context.stores.jobs.set_paused(job_id, True, reason, until, expected, skips=skips, by=by))


@router.post("/jobs/{job_id}/resume", dependencies=OPERATOR, responses=answers({200: shapes.JobOut}, 404, 412))
def resume_job(context: Context, who: Who, job_id: str, if_match: IfMatch = None) -> Response:
    """Resume a paused job from now on."""
    expected = expected_version(if_match, known_job(context, job_id))
    by = who.audited_change("job.resume")
    return _paused(context, context.stores.jobs.set_paused(job_id, False, None, None, expected, by=by))


@router.post(
    "/jobs/{job_id}/trigger", status_code=202, dependencies=OPERATOR,
    openapi_extra=body_of(schemas.TriggerIn, required=False),
    responses=answers({202: shapes.RunOut}, 400, 404, 409, 412, 413, 422),
)  # fmt: skip
def trigger_job(
    context: Context, who: Who, job_id: str, body: OptionalJsonObject, if_match: IfMatch = None,
    key: IdempotencyKey = None,
) -> Response:  # fmt: skip
    """Run a job now, beside its schedule; `kwargs` override the job's. The same key returns the same run."""
    run = triggered(context, who, job_id, with_key(body, key), if_match)
    return JSONResponse(run_body(run), 202, {"Location": f"/api/v1/runs/{run.run_id}"})


def triggered(context: ApiContext, who: Caller, job_id: str, body: dict[str, Any], if_match: str | None = None) -> Run:
    """Create a run of the job on request, of exactly the version that If-Match names."""
    job = known_job(context, job_id)
    expected_version(if_match, job)
    new = owned(read_trigger(job, _unmasked(body, job), str(uuid7()), context.clock()), who)
    ((run, created),) = context.stores.runs.enqueue([new], by=who.audited_change("job.trigger"))
    if created:
        context.leader.tell("run_enqueued", {"run_ids": [run.run_id]})
    return run


@router.get("/jobs/{job_id}/preview", responses=answers({200: shapes.Preview}, 404, 422))
def preview_job(context: Context, job_id: str, count: Count = 10, after: From = None) -> Response:
    """Preview the next occurrences of a job."""
    start = context.clock() if after is None else parse_instant(after, "from")
    return JSONResponse(job_preview(known_job(context, job_id), start, count))


@router.post(
    "/preview", openapi_extra=body_of(schemas.PreviewIn),
    responses=answers({200: shapes.Preview}, 400, 413, 422),
)  # fmt: skip
def preview(context: Context, body: JsonObject) -> Response:
    """Preview the next occurrences of a schedule that is not saved."""
    return JSONResponse(read_and_preview(body, context.clock(), context.calendar_sets))


def _job_answer(context: ApiContext, job: Job, status: int = 200) -> Response:
    now = context.clock()
    body = {**shown_body(job), "next_runs": next_runs(job, now), "warnings": list(warnings_of(job, now))}
    headers = {"ETag": f'"{job.version}"'}
    if status == 201:
        headers["Location"] = f"/api/v1/jobs/{job.job_id}"
    return JSONResponse(body, status, headers)


def _unmasked(body: dict[str, Any], job: Job | None) -> dict[str, Any]:
    return unmasked(body) if job is None else unmasked(body, job.args, job.kwargs, job.headers)


def _paused(context: ApiContext, job: Job) -> Response:
    context.leader.tell("job_changed", {"job_id": job.job_id, "change": "modified"})
    return _job_answer(context, job)


def known_job(context: ApiContext, job_id: str) -> Job:
    """Return the job of this id; NotFound."""
    if not JOB_ID.fullmatch(job_id):
        raise NotFound("no job with such an id")
    return context.stores.jobs.get(job_id)


def _find(context: ApiContext, job_id: str) -> Job | None:
    try:
        return known_job(context, job_id)
    except NotFound:
        return None


def _read_pause(body: dict[str, Any], now: Instant) -> tuple[str | None, Instant | None, bool]:
    others = sorted({*body} - {"reason", "until", "waiting"})
    unknown = [BadValue(name, body[name], "known are reason, until, waiting") for name in others]
    if unknown:
        raise BadValues(unknown)
    reason = None if body.get("reason") is None else read_text(body["reason"], "reason")
    until = None if body.get("until") is None else parse_instant(body["until"], "until")
    if until is not None and until <= now:
        raise BadValue("until", body["until"], "give a time in the future; omit it to pause indefinitely")
    waiting = "keep" if body.get("waiting") is None else body["waiting"]
    if waiting not in ("keep", "skip"):
        raise BadValue("waiting", waiting, "give keep or skip: the choice for runs that were due before the pause")
    return reason, until, waiting == "skip"
