"""The page of queues: what waits and runs, and the forms that bound, pause and resume, by the API's own functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant, parse_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.bounds import LABELS as OF_BOUNDS
from scheduler_service.api.pages.bounds import bounds_of, bounds_typed, check_mark, refuse
from scheduler_service.api.pages.csrf import Form, FormBody
from scheduler_service.api.pages.moments import Moment, moment
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader, Wrong, or_again
from scheduler_service.api.routes.jobs import Cursor
from scheduler_service.api.routes.queues import defined, listed, paused, resumed, seen
from scheduler_service.core.audit import Caller
from scheduler_service.core.contract.limit_json import QUEUE_FIELDS, queue_body, read_queue
from scheduler_service.core.contract.limit_texts import bounds_text
from scheduler_service.core.controls import QueueDefinition

_QUEUES: Final = 50
_TIMES: Final = ("paused_at", "paused_until")
_LABELS: Final = {
    "queue": "Queue", "reason": "Why", "until": "Until", **OF_BOUNDS, "fair": "Fair", "cursor": "Page of the list",
}  # fmt: skip

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue as the API shows it, with its times and its bounds as the page shows them."""

    shown: dict[str, Any]
    bounds: str
    since: Moment | None
    until: Moment | None


@router.get("/queues")
def show_queues(
    request: Request, context: Context, cursor: Cursor = None, edit: Annotated[str, Query(max_length=128)] = ""
) -> Response:
    """List the queues; the form of one of them is open."""
    return _show(request, context, cursor, editing=edit, typed=_typed(seen(context, edit)) if edit else {})


@router.post("/queues", dependencies=CHANGER)
def change_queue(request: Request, context: Context, who: Who, form: FormBody) -> Response:
    """Define, pause or resume a queue."""
    cursor, defines = form.one("cursor") or None, form.one("do") == "define"

    def act() -> Response:
        queue = form.one("queue")
        if defines:
            _define(context, who, queue, form)
            return go(f"/queues?{urlencode({'cursor': cursor})}" if cursor else "/queues", "queue-saved")
        back = f"/queues/{quote(queue, safe='')}" if form.one("back") == "queue" else "/queues"
        if form.one("do") == "resume":
            resumed(context, who, queue)
            return go(back, "queue-resumed")
        paused(context, who, queue, {"reason": form.one("reason"), "until": form.time("until") or None})
        return go(back, "queue-paused")

    editing = form.one("queue") if defines else ""
    return or_again(act, lambda wrong: _show(request, context, cursor, wrong, editing, form.texts()), _LABELS)


def _define(context: ApiContext, who: Caller, queue: str, form: Form) -> None:
    errors: list[BadValue] = []
    body = {**bounds_of(form, errors), "fair": bool(form.one("fair"))}
    refuse(errors)

    def change(there: QueueDefinition) -> QueueDefinition:
        check_mark(form, queue_body(there))
        return read_queue(body)

    defined(context, who, queue, change, "queue.put")


def _typed(queue: Mapping[str, Any]) -> dict[str, str]:
    body = {name: queue[name] for name in QUEUE_FIELDS}
    return {**bounds_typed(body), "fair": "on" if body["fair"] else ""}


def _show(
    request: Request, context: ApiContext, cursor: str | None, refused: Wrong = NOTHING_WRONG, editing: str = "",
    typed: Mapping[str, str] | None = None,
) -> Response:  # fmt: skip
    reader, now = Reader(_LABELS), context.clock()
    found = reader.tried(lambda: listed(context, _QUEUES, cursor))
    queues, following = found if found is not None else ([], None)
    if editing and editing not in {queue["name"] for queue in queues}:
        queues = [seen(context, editing), *queues]
    wrong = reader.wrong() if refused is NOTHING_WRONG else refused
    return page(
        request, "queues.html", wrong=wrong, queues=[queue_line(queue, now) for queue in queues], typed=typed or {},
        editing=editing, cursor=cursor, here=urlencode({"cursor": cursor}) if cursor else "",
        following=urlencode({"cursor": following}) if following else None,
    )  # fmt: skip


def queue_line(queue: dict[str, Any], now: Instant) -> QueueLine:
    """Describe a queue of the API's JSON as seen from `now`."""
    at = {name: None if queue[name] is None else moment(parse_instant(queue[name]), now) for name in _TIMES}
    return QueueLine(queue, bounds_text(queue), at["paused_at"], at["paused_until"])
