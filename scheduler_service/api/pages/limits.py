"""The page of limits: each with its present use, edited in its row, by the API's own functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue, Conflict
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.bounds import LABELS as OF_BOUNDS
from scheduler_service.api.pages.bounds import bounds_of, bounds_typed, check_mark, refuse
from scheduler_service.api.pages.csrf import Form, FormBody
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader, Wrong, or_again
from scheduler_service.api.routes.jobs import Cursor
from scheduler_service.api.routes.limits import deleted, edited, listed, seen
from scheduler_service.core.contract.limit_json import LIMIT_FIELDS, limit_body, read_limit
from scheduler_service.core.contract.limit_texts import bounds_text, override_text, read_overrides
from scheduler_service.core.limits import Limit

_LIMITS: Final = 50
_KEYS_SHOWN: Final = 5
_LABELS: Final = {
    "name": "Name", **OF_BOUNDS, "per_key": "For each key", "overrides": "Keys with other bounds",
    "cursor": "Page of the list",
}  # fmt: skip
_BLANK: Final[Mapping[str, str]] = dict.fromkeys(("name", "concurrency", "rate", "description", "overrides"), "")

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class LimitLine:
    """A limit as the API shows it, its bounds as texts, and the busiest of its keys."""

    shown: Mapping[str, Any]
    bounds: str
    overrides: int
    busiest: list[Mapping[str, Any]]


@router.get("/limits")
def show_limits(
    request: Request, context: Context, cursor: Cursor = None, edit: Annotated[str, Query(max_length=128)] = ""
) -> Response:
    """List the limits; the form of one of them is open."""
    typed = _typed(seen(context, edit)) if edit else _BLANK
    return _show(request, context, cursor, edit, typed)


@router.post("/limits", dependencies=CHANGER)
def change_limit(request: Request, context: Context, who: Who, form: FormBody) -> Response:
    """Define, change or delete a limit."""
    name, cursor, editing = form.one("name"), form.one("cursor") or None, form.one("do") != "create"

    def act() -> Response:
        if form.one("do") == "delete":
            deleted(context, who, name)
            return go(_list_at(cursor), "limit-deleted")
        body = _body_of(form)

        def change(there: Limit | None) -> Limit:
            _check_present(there, name, form)
            kept = {} if there is None or "overrides" in body else {"overrides": limit_body(there)["overrides"]}
            return read_limit(name, {**body, **kept})

        edited(context, who, name, change, "limit.put")
        return go(_list_at(cursor), "limit-saved")

    def again(wrong: Wrong) -> Response:
        return _show(request, context, cursor, name if editing else "", {**_BLANK, **form.texts()}, wrong)

    return or_again(act, again, _LABELS)


def _check_present(there: Limit | None, name: str, form: Form) -> None:
    """Refuse to create a limit over another, and to change one that is gone or that somebody else changed."""
    if form.one("do") == "create":
        if there is not None:
            raise BadValue("name", name, "there is a limit of this name; edit it in the table")
    elif there is None:
        raise Conflict(f"limit {name} is deleted")
    else:
        check_mark(form, limit_body(there))


def _body_of(form: Form) -> dict[str, Any]:
    errors: list[BadValue] = []
    body = {**bounds_of(form, errors), "per_key": bool(form.one("per_key"))}
    if "overrides" in form.texts():
        try:
            lines = [line for line in form.one("overrides").splitlines() if line.strip()]
            found = read_overrides(lines, "overrides")
            body["overrides"] = {key: bounds for key, bounds in found.items() if bounds is not None}
        except BadValue as error:
            errors.append(error)
    refuse(errors)
    return body


def _typed(limit: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the form; without `overrides` if a key of them cannot be one line."""
    body = {name: limit[name] for name in LIMIT_FIELDS}
    typed = {"name": limit["name"], **bounds_typed(body), "per_key": "on" if body["per_key"] else ""}
    lines = [override_text(key, bounds) for key, bounds in body["overrides"].items()]
    whole = "\n".join(lines)
    return {**typed, "overrides": whole} if _reads_as(whole, body["overrides"]) else typed


def _reads_as(text: str, overrides: Mapping[str, Any]) -> bool:
    try:
        return read_overrides(text.splitlines(), "overrides") == overrides
    except BadValue:
        return False


def _list_at(cursor: str | None) -> str:
    return f"/limits?{urlencode({'cursor': cursor})}" if cursor else "/limits"


def _show(
    request: Request, context: ApiContext, cursor: str | None, editing: str, typed: Mapping[str, str],
    refused: Wrong = NOTHING_WRONG,
) -> Response:  # fmt: skip
    reader = Reader(_LABELS)
    found = reader.tried(lambda: listed(context, _LIMITS, cursor))
    limits, following = found if found is not None else ([], None)
    if editing and editing not in {limit["name"] for limit in limits}:
        limits = [seen(context, editing), *limits]
    wrong = reader.wrong() if refused is NOTHING_WRONG else refused
    return page(
        request, "limits.html", wrong=wrong, limits=[_line(limit) for limit in limits], editing=editing, typed=typed,
        cursor=cursor, here=urlencode({"cursor": cursor}) if cursor else "",
        following=urlencode({"cursor": following}) if following else None,
    )  # fmt: skip


def _line(limit: Mapping[str, Any]) -> LimitLine:
    return LimitLine(limit, bounds_text(limit), len(limit["overrides"]), (limit["busiest_keys"] or [])[:_KEYS_SHOWN])
