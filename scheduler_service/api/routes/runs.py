"""Runs over HTTP: enqueue, read, cancel, retry.

Promises that 2xx is committed, and that the same key and request give the same run. A batch is created whole or not at
all; a cancel is asked for, not awaited. Never changes a run that is over, waits for no leader.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse
from uuid_utils.compat import uuid7

from itinerary.protocol.errors import NotFound
from itinerary.protocol.identity import RUN_ID
from itinerary.protocol.instants import Instant, parse_instant
from itinerary.protocol.redaction import unmasked
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, require
from scheduler_service.api.http.bodies import JsonObject, OptionalJsonObject
from scheduler_service.api.http.preconditions import IdempotencyKey
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.openapi import answers as shapes
from scheduler_service.api.openapi import schemas
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.openapi.parameters import AS_TIME, order_of, text
from scheduler_service.api.routes.job_lists import total_body
from scheduler_service.api.routes.jobs import OPERATOR, Counted, Cursor, Limit
from scheduler_service.api.services.list_orders import read_order
from scheduler_service.core.audit import Caller
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.request_keys import owned, with_key
from scheduler_service.core.contract.run_again import read_again
from scheduler_service.core.contract.run_json import run_body
from scheduler_service.core.contract.run_requests import RunsRefused, read_batch, read_retried, read_run
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import FINAL, RunState
from scheduler_service.ports.lists import NEWEST_FIRST, RunFilter, RunSort

router = APIRouter(prefix="/api/v1", tags=["runs"])
READER = [Depends(require("viewer", also="enqueuer"))]
ENQUEUER = [Depends(require("operator", also="enqueuer"))]

Time = Annotated[str | None, Query(description="An RFC 3339 time.", json_schema_extra=AS_TIME)]


@router.post(
    "/runs", status_code=201, dependencies=ENQUEUER, openapi_extra=body_of(schemas.RunIn),
    responses=answers({200: shapes.RunOut, 201: shapes.RunOut}, 400, 409, 413, 422),
)  # fmt: skip
def enqueue(context: Context, who: Who, body: JsonObject, key: IdempotencyKey = None) -> Response:
    """Run a task once, now or at `run_at`. The same key and request return the same run, with 200."""
    wanted = owned(read_run(with_key(unmasked(body), key), str(uuid7()), context.clock()), who)
    ((run, created),) = context.stores.runs.enqueue([wanted], by=who.audited_change("run.enqueue"))
    if created:
        context.leader.tell("run_enqueued", {"run_ids": [run.run_id]})
    return _run_answer(run, 201 if created else 200)


@router.post(
    "/runs/batch", status_code=201, dependencies=ENQUEUER, openapi_extra=body_of(schemas.BatchIn),
    responses=answers({201: shapes.BatchOut}, 400, 409, 413, 422),
)  # fmt: skip
def enqueue_batch(context: Context, who: Who, body: JsonObject, key: IdempotencyKey = None) -> Response:
    """Enqueue up to 1,000 runs, all or none; those with a known key are returned as they are.

    A key of the batch is for runs without a key of their own.
    """
    read = read_batch(with_key(body, key), lambda: str(uuid7()), context.clock())
    wanted = [owned(run, who) for run in read]
    try:
        enqueued = context.stores.runs.enqueue(wanted, by=who.audited_change("run.enqueue"))
    except RunsRefused as exc:
        raise exc.of_batch() from exc
    created = [run.run_id for run, is_new in enqueued if is_new]
    if created:
        context.leader.tell("run_enqueued", {"run_ids": created})
    return JSONResponse({"runs": [run_body(run) for run, _ in enqueued]}, 201)


def read_filter(
    job_id: Annotated[str | None, text(128, "Only runs of this job.")] = None,
    state: Annotated[list[RunState] | None, Query(description="May be repeated.")] = None,
    queue: Annotated[str | None, text(128, "Only runs of this queue.")] = None,
    since: Time = None,
    until: Time = None,
    task: Annotated[str | None, text(255, "Only runs of this task.")] = None,
    limit_name: Annotated[str | None, text(128, "Only runs that count for this limit.")] = None,
    limit_key: Annotated[str | None, text(256, "Only runs with this key of a limit.")] = None,
) -> RunFilter:
    """Read the filters of a list of runs; BadValue."""
    texts = {"job_id": job_id, "queue": queue, "task": task, "limit_name": limit_name, "limit_key": limit_key}
    for name, given in texts.items():
        if given is not None:
            read_text(given, name)
    return RunFilter(
        job_id, tuple(state or ()), queue, _instant(since, "since"), _instant(until, "until"), task=task,
        limit_name=limit_name, limit_key=limit_key,
    )  # fmt: skip


Filtered = Annotated[RunFilter, Depends(read_filter)]


@router.get("/runs", dependencies=READER, responses=answers({200: shapes.RunPage}, 422))
def list_runs(
    context: Context,
    wanted: Filtered,
    sort: Annotated[str | None, order_of(RunSort, "By this value; with `-` before it the reverse.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    total: Counted = False,
) -> Response:
    """List runs without their attempts: by their scheduled time, newest first, or sorted by `sort`.

    A page reads at most 10,000 runs for `task`, `limit_name` and `limit_key`: it may have fewer than asked for.
    All runs are sorted by `scheduled_at` only. By another value the newest 10,000 that the filter finds are sorted.
    Behind them come the 10,000 before. In each part, runs without the value come last.
    """
    if cursor is not None:
        read_text(cursor, "cursor")
    page = context.stores.runs.list(wanted, limit, cursor, read_order(sort, NEWEST_FIRST))
    counted = total_body(context.stores.history.count_runs(wanted), len(page.items)) if total else {}
    progress = context.progress_of(*page.items)
    items = [run_body(run, progress.get(run.run_id)) for run in page.items]
    return JSONResponse({"items": items, "next_cursor": page.next_cursor, **counted})


@router.get("/runs/{run_id}", dependencies=READER, responses=answers({200: shapes.RunOut}, 404))
def get_run(context: Context, run_id: str) -> Response:
    """Return a run with its attempts, and with the progress that its task shows while it runs."""
    run = known_run(context, run_id)
    return JSONResponse(run_body(run, context.progress_of(run).get(run_id)))


@router.post(
    "/runs/{run_id}/cancel",
    status_code=202,
    dependencies=ENQUEUER,
    responses=answers({202: shapes.RunOut}, 404),
)
def cancel_run(context: Context, who: Who, run_id: str) -> Response:
    """Request that a run never starts, or stops; a final run is not changed."""
    known_run(context, run_id)
    run = context.stores.runs.request_cancel(run_id, by=who.audited_change("run.cancel"))
    if run.cancel_requested_at is not None or run.state is RunState.CANCELLED:
        context.leader.tell("cancel_run", {"run_id": run_id})
    return _run_answer(run, 202)


@router.post(
    "/runs/{run_id}/retry",
    status_code=201,
    dependencies=OPERATOR,
    openapi_extra=body_of(schemas.RetryIn, required=False),
    responses=answers({201: shapes.RunOut}, 400, 404, 409, 413),
)
def retry_run(
    context: Context, who: Who, run_id: str, body: OptionalJsonObject, key: IdempotencyKey = None
) -> Response:
    """Run a final run's task again, as a new run that names it in `retry_of`. The same key returns the same one."""
    return _run_answer(retried(context, who, run_id, with_key(body, key)), 201)


def retried(context: ApiContext, who: Caller, run_id: str, body: Mapping[str, Any] | None = None) -> Run:
    """Create the new run that retries a final one; Problem 409 for one that is not over."""
    old = known_run(context, run_id)
    if old.state not in FINAL:
        raise Problem(409, f"run {run_id} is {old.state}; only a final run can be run again", kind="run-not-final")
    new_run = owned(read_retried(old, body or {}, str(uuid7()), context.clock()), who)
    ((run, created),) = context.stores.runs.enqueue([new_run], by=who.audited_change("run.retry"))
    if created:
        context.leader.tell("run_enqueued", {"run_ids": [run.run_id]})
    return run


@router.post(
    "/runs/{run_id}/again",
    status_code=201,
    dependencies=OPERATOR,
    openapi_extra=body_of(schemas.AgainIn, required=False),
    responses=answers({200: shapes.RunOut, 201: shapes.RunOut}, 400, 404, 409, 413, 422),
)
def run_again(
    context: Context, who: Who, run_id: str, body: OptionalJsonObject, key: IdempotencyKey = None
) -> Response:
    """Run a run's task once more with changes, as a one-off run that names it in `retry_of`.

    A masked value in the body stands for the stored one. The same key and request return the same run, with 200.
    """
    run, created = started_again(context, who, run_id, with_key(body or {}, key))
    return _run_answer(run, 201 if created else 200)


def started_again(context: ApiContext, who: Caller, run_id: str, body: Mapping[str, Any]) -> tuple[Run, bool]:
    """Create the new run of an earlier one with changes; or return the one that the same key created."""
    new_run = owned(read_again(known_run(context, run_id), body, str(uuid7()), context.clock()), who)
    ((run, created),) = context.stores.runs.enqueue([new_run], by=who.audited_change("run.again"))
    if created:
        context.leader.tell("run_enqueued", {"run_ids": [run.run_id]})
    return run, created


def _run_answer(run: Run, status: int = 200) -> Response:
    headers = {"Location": f"/api/v1/runs/{run.run_id}"} if status == 201 else None
    return JSONResponse(run_body(run), status, headers)


def known_run(context: ApiContext, run_id: str) -> Run:
    """Return the run of this id; NotFound."""
    if not RUN_ID.fullmatch(run_id):
        raise NotFound("no run with such an id")
    return context.stores.runs.get(run_id)


def _instant(text: str | None, field: str) -> Instant | None:
    return None if text is None else parse_instant(text, field)
