"""The page of freezes: what holds, what is to come, what was, and the forms that start and end one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant, parse_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.csrf import Form, FormBody
from scheduler_service.api.pages.moments import Moment, moment
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader, Wrong, or_again
from scheduler_service.api.routes.freezes import ended, listed, started
from scheduler_service.api.routes.jobs import Cursor
from scheduler_service.core.freezes import FreezeStatus, scope_text

_FREEZES: Final = 50
_LABELS: Final = {
    "scope": "What", "names": "Names", "reason": "Why", "from": "From", "until": "Until", "during": "Meanwhile",
    "status": "Show", "cursor": "Page of the list",
}  # fmt: skip

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class FreezeLine:
    """A freeze as the API shows it, with its scope and its times as the page shows them."""

    shown: Mapping[str, Any]
    scope: str
    since: Moment
    end: Moment | None


@router.get("/freezes")
def show_freezes(
    request: Request, context: Context, status: Annotated[str, Query(max_length=20)] = "", cursor: Cursor = None
) -> Response:
    """List freezes, the newest first."""
    return _show(request, context, status, cursor)


@router.post("/freezes", dependencies=CHANGER)
def change_freezes(request: Request, context: Context, who: Who, form: FormBody) -> Response:
    """Start or end a freeze."""

    def act() -> Response:
        if form.one("do") == "end":
            ended(context, who, form.one("freeze"))
            return go("/freezes", "freeze-ended")
        started(context, who, _body_of(form))
        return go("/freezes", "freeze-started")

    return or_again(act, lambda wrong: _show(request, context, "", None, wrong, form.texts()), _LABELS, _field_of)


def _body_of(form: Form) -> dict[str, Any]:
    kind = form.one("scope")
    names = [name.strip() for name in form.one("names").split(",") if name.strip()]
    scope: dict[str, Any] = {"all": True} if kind == "all" else {kind: names}
    if kind == "all" and names:
        raise BadValue("names", form.one("names"), "leave it empty to freeze everything, or choose what the names are")
    times = {name: form.time(name) for name in ("from", "until") if form.one(name)}
    return {"scope": scope, "reason": form.one("reason"), "during": form.one("during") or "hold", **times}


def _field_of(name: str) -> str:
    """Show an error of a part of the scope at its names."""
    return "names" if name.startswith("scope.") else name


def _show(
    request: Request, context: ApiContext, status: str, cursor: str | None, refused: Wrong = NOTHING_WRONG,
    typed: Mapping[str, str] | None = None,
) -> Response:  # fmt: skip
    reader, now = Reader(_LABELS), context.clock()
    wanted = reader.tried(lambda: _status(status))
    found = reader.tried(lambda: listed(context, wanted, _FREEZES, cursor))
    freezes, following = found if found is not None else ([], None)
    wrong = reader.wrong() if refused is NOTHING_WRONG else refused
    more = {"status": status, "cursor": following or ""}
    return page(
        request, "freezes.html", wrong=wrong, freezes=[_line(freeze, now) for freeze in freezes], typed=typed or {},
        only=status, following=urlencode({name: text for name, text in more.items() if text}) if following else None,
    )  # fmt: skip


def _status(text: str) -> FreezeStatus | None:
    if text not in ("", *FreezeStatus):
        raise BadValue("status", text, f"choose one of {', '.join(FreezeStatus)}")
    return FreezeStatus(text) if text else None


def _line(freeze: Mapping[str, Any], now: Instant) -> FreezeLine:
    ends = [parse_instant(freeze[name]) for name in ("until", "ended_at") if freeze[name]]
    end = moment(min(ends), now) if ends else None
    return FreezeLine(freeze, scope_text(freeze["scope"]), moment(parse_instant(freeze["from"]), now), end)
