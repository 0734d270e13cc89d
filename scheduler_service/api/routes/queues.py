"""Queues over HTTP: list, define, pause, resume.

Promises that when a pause has answered, no run of the queue is dispatched until it is resumed. The answer says how many
runs run on, and how many are not recalled yet. Never waits for a leader: what it alone knows of a queue is null if none
answers.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import BadValue, BadValues, NotFound
from itinerary.protocol.identity import QUEUE
from itinerary.protocol.instants import MILLISECOND, Instant, format_duration, format_instant, parse_instant
from itinerary.protocol.run_request import refuse_unknown
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, require
from scheduler_service.api.http.bodies import JsonObject
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.openapi import queue_shapes as shapes
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.openapi.parameters import AS_CURSOR, text
from scheduler_service.core.audit import Caller
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.job_json import optional_instant
from scheduler_service.core.contract.limit_json import changed_queue, queue_body, read_queue
from scheduler_service.core.controls import Queue, QueueDefinition

router = APIRouter(prefix="/api/v1/queues", tags=["queues"], dependencies=[Depends(require("viewer"))])
OPERATOR = [Depends(require("operator"))]
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of items.")]
Cursor = Annotated[str | None, text(500, "`next_cursor` of the previous page.", AS_CURSOR)]


@router.get("", responses=answers({200: shapes.Queues}, 422))
def list_queues(context: Context, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """List queues by name: defined or paused ones, those with runs that wait or are in flight, or with workers."""
    if cursor is not None:
        read_text(cursor, "cursor")
    found, next_cursor = listed(context, limit, cursor)
    return JSONResponse({"items": found, "next_cursor": next_cursor})


def listed(context: ApiContext, limit: int, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
    """Return one page of queues as JSON, and the cursor of the next one."""
    live, now = _live(context), context.clock()
    # The leader also knows queues on which workers wait for a first run.
    page = context.stores.queue_store.list(limit, cursor, live or ())
    return [_body(queue, live, now) for queue in page.items], page.next_cursor


@router.get("/{queue}", responses=answers({200: shapes.QueueOut}, 404))
def get_queue(context: Context, queue: str) -> Response:
    """Return a queue; one that nobody defined has `defined` false."""
    return JSONResponse(seen(context, queue))


def seen(context: ApiContext, queue: str) -> dict[str, Any]:
    """Return the queue of this name as JSON; every name that a queue can have is one."""
    return _body(context.stores.queue_store.get(_name(queue)), _live(context), context.clock())


@router.put(
    "/{queue}", dependencies=OPERATOR, openapi_extra=body_of(shapes.QueueIn),
    responses=answers({200: shapes.QueueOut}, 400, 404, 409, 413, 422),
)  # fmt: skip
def put_queue(context: Context, who: Who, queue: str, body: JsonObject) -> Response:
    """Define a queue: its bounds, whether its lanes take turns, its purpose. A pause is not part of it, and stays."""
    wanted = read_queue(body)
    return _answer(context, defined(context, who, queue, lambda _: wanted, "queue.put"))


@router.patch(
    "/{queue}", dependencies=OPERATOR, openapi_extra=body_of(shapes.QueueIn),
    responses=answers({200: shapes.QueueOut}, 400, 404, 409, 413, 422),
)  # fmt: skip
def patch_queue(context: Context, who: Who, queue: str, body: JsonObject) -> Response:
    """Change the given fields of a queue's definition; null lifts a bound. A pause is not part of it, and stays."""
    if not body:
        return get_queue(context, queue)
    return _answer(context, defined(context, who, queue, lambda there: changed_queue(there, body), "queue.patch"))


@router.post(
    "/{queue}/pause", dependencies=OPERATOR, openapi_extra=body_of(shapes.QueuePauseIn),
    responses=answers({200: shapes.QueueOut}, 400, 404, 409, 413, 422),
)  # fmt: skip
def pause_queue(context: Context, who: Who, queue: str, body: JsonObject) -> Response:
    """Pause a queue, indefinitely or until a time: none of its runs is dispatched, and none is lost.

    `running` of the answer run on; the leader recalls the `pending` ones from the broker.
    """
    return _answer(context, paused(context, who, queue, body))


@router.post("/{queue}/resume", dependencies=OPERATOR, responses=answers({200: shapes.QueueOut}, 404, 409))
def resume_queue(context: Context, who: Who, queue: str) -> Response:
    """Resume a paused queue: what waits is dispatched."""
    return _answer(context, resumed(context, who, queue))


def paused(context: ApiContext, who: Caller, queue: str, body: dict[str, Any]) -> Queue:
    """Pause the queue and tell the leader."""
    name = _name(queue)
    unknown: list[BadValue] = []
    refuse_unknown(body, {"reason", "until"}, unknown)
    if unknown:
        raise BadValues(unknown)
    if not read_text(body.get("reason"), "reason"):
        raise BadValue("reason", "", "give the reason; it is shown where a run waits")
    until = None if body.get("until") is None else parse_instant(body["until"], "until")
    if until is not None and until <= context.clock():
        raise BadValue("until", body["until"], "give a time in the future; omit it to pause indefinitely")
    found = context.stores.queue_store.pause(name, body["reason"], until, by=who.audited_change("queue.pause"))
    context.leader.tell("control_changed", {})
    return found


def resumed(context: ApiContext, who: Caller, queue: str) -> Queue:
    """Resume the queue and tell the leader."""
    found = context.stores.queue_store.resume(_name(queue), by=who.audited_change("queue.resume"))
    context.leader.tell("control_changed", {})
    return found


def defined(
    context: ApiContext, who: Caller, queue: str, change: Callable[[QueueDefinition], QueueDefinition], action: str
) -> Queue:
    """Change the definition of the queue and tell the leader."""
    found = context.stores.queue_store.define(_name(queue), change, by=who.audited_change(action))
    context.leader.tell("control_changed", {})
    return found


def _name(queue: str) -> str:
    if not QUEUE.fullmatch(queue):
        raise NotFound("no queue with such a name")
    return queue


def _answer(context: ApiContext, queue: Queue) -> Response:
    return JSONResponse(_body(queue, _live(context), context.clock()))


def _live(context: ApiContext) -> Mapping[str, Mapping[str, Any]] | None:
    """Ask the leader for its figures of queues, by name; None if none answers."""
    try:
        return {queue["name"]: queue for queue in context.ask_leader("statistics")["queues"]}
    except Problem:
        return None


def _body(queue: Queue, live: Mapping[str, Mapping[str, Any]] | None, now: Instant) -> dict[str, Any]:
    pause = queue.pause
    seen = {} if live is None else live.get(queue.name, {})
    return {
        "name": queue.name,
        "defined": queue.defined,
        **queue_body(queue.definition),
        "paused": pause is not None,
        "pause_reason": None if pause is None else pause.reason,
        "paused_at": None if pause is None else format_instant(pause.since),
        "paused_by": None if pause is None else pause.by,
        "paused_until": None if pause is None else optional_instant(pause.until),
        "waiting": queue.waiting,
        "waiting_is_exact": not queue.waiting_more,
        "pending": queue.pending,
        "running": queue.running,
        "in_flight_is_exact": not queue.in_flight_more,
        "depth": seen.get("pending", queue.pending),
        "oldest_age": _age(seen.get("oldest_pending_at"), now),
        "lag": _age(seen.get("oldest_due_at"), now),
        "workers": None if live is None else seen.get("workers", 0),
    }


def _age(since: str | None, now: Instant) -> str | None:
    if since is None:
        return None
    age = max(0, now - parse_instant(since))
    return format_duration(age - age % MILLISECOND)
