"""The page of queues: what waits and runs, and the forms that pause and resume, by the API's own functions."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from itinerary.protocol.instants import Instant, parse_instant
from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.csrf import FormBody
from scheduler_service.api.pages.job import utc_text
from scheduler_service.api.pages.moments import Moment, moment
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader, Wrong, or_again
from scheduler_service.api.routes.jobs import Cursor
from scheduler_service.api.routes.queues import listed, paused, resumed

_QUEUES: Final = 50
_TIMES: Final = ("paused_at", "paused_until")
_LABELS: Final = {"queue": "Queue", "reason": "Why", "until": "Until", "cursor": "Page of the list"}

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue as the API shows it, with its times as the page shows them."""

    shown: dict[str, Any]
    since: Moment | None
    until: Moment | None


@router.get("/queues")
def show_queues(request: Request, context: Context, cursor: Cursor = None) -> Response:
    """List the queues."""
    return _show(request, context, cursor)


@router.post("/queues", dependencies=CHANGER)
def change_queue(request: Request, context: Context, who: Who, form: FormBody) -> Response:
    """Pause or resume a queue."""

    def act() -> Response:
        queue, until = form.one("queue"), form.one("until")
        if form.one("do") == "resume":
            resumed(context, who, queue)
            return go("/queues", "queue-resumed")
        paused(context, who, queue, {"reason": form.one("reason"), "until": utc_text(until) if until else None})
        return go("/queues", "queue-paused")

    return or_again(act, lambda wrong: _show(request, context, None, wrong, form.texts()), _LABELS)


def _show(
    request: Request, context: Context, cursor: str | None, refused: Wrong = NOTHING_WRONG,
    typed: dict[str, str] | None = None,
) -> Response:  # fmt: skip
    reader, now = Reader(_LABELS), context.clock()
    found = reader.tried(lambda: listed(context, _QUEUES, cursor))
    queues, following = found if found is not None else ([], None)
    wrong = reader.wrong() if refused is NOTHING_WRONG else refused
    return page(
        request, "queues.html", wrong=wrong, queues=[_line(queue, now) for queue in queues], typed=typed or {},
        following=urlencode({"cursor": following}) if following else None,
    )  # fmt: skip


def _line(queue: dict[str, Any], now: Instant) -> QueueLine:
    at = {name: None if queue[name] is None else moment(parse_instant(queue[name]), now) for name in _TIMES}
    return QueueLine(queue, at["paused_at"], at["paused_until"])
