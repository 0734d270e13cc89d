"""The pages of monitors: the list with a form for a new one, and each monitor with its last pings and its form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response

from itinerary.protocol.errors import BadValue, NotFound
from itinerary.protocol.instants import Instant, parse_duration, parse_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.calendar_fields import LABELS as CALENDAR_LABELS
from scheduler_service.api.pages.calendar_fields import calendars_of, texts_of
from scheduler_service.api.pages.csrf import Form, FormBody
from scheduler_service.api.pages.moments import Moment, length, moment
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader, Wrong, or_again
from scheduler_service.api.routes.jobs import Cursor
from scheduler_service.api.routes.monitors import deleted, readable, renewed, saved, seen
from scheduler_service.core.contract.calendar_json import CALENDARS
from scheduler_service.core.contract.job_words import schedule_sentence
from scheduler_service.core.contract.monitor_json import read_monitor
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.kinds import IntervalSchedule
from scheduler_service.core.schedules.schedule import parse_schedule
from scheduler_service.ports.stores import Page

_MONITORS: Final = 50
_LABELS: Final = {
    "monitor_id": "Id", "title": "Title", "schedule": "Schedule", "timezone": "Time zone", "grace": "Grace",
    "description": "Description", "paused": "Paused", "cursor": "Page of the list", **CALENDAR_LABELS,
}  # fmt: skip
_BLANK: Final[Mapping[str, str]] = {
    **dict.fromkeys(("monitor_id", "title", "description"), ""), "schedule": "0 2 * * *", "timezone": "UTC",
    "grace": "5m", **texts_of(None),
}  # fmt: skip

_WHEN_CLOSED: Final = {
    "skip": "expect no ping", "next_day": "expect it on the next open day",
    "previous_day": "expect it on the open day before",
}  # fmt: skip
_SHAPES: Final = {"new": "○", "up": "●", "late": "◐", "down": "✕", "paused": "‖"}

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class MonitorLine:
    """A monitor as the API shows it, its schedule as a sentence, its times for people."""

    shown: Mapping[str, Any]
    sentence: str
    expected: Moment | None
    last_ping: Moment | None
    last_took: str | None


@router.get("/monitors")
def show_monitors(request: Request, context: Context, cursor: Cursor = None) -> Response:
    """List the monitors."""
    return _list(request, context, cursor, _BLANK)


@router.get("/monitors/{monitor_id}")
def show_monitor(request: Request, context: Context, monitor_id: str) -> Response:
    """Show a monitor, its form and its last pings."""
    return _one(request, context, monitor_id)


@router.post("/monitors", dependencies=CHANGER)
def create_monitor(request: Request, context: Context, who: Who, form: FormBody) -> Response:
    """Define a new monitor; the page shows its token once."""
    monitor_id = form.one("monitor_id")

    def act() -> Response:
        content = read_monitor(monitor_id, _body_of(form), context.clock())
        if _is_there(context, monitor_id):
            raise BadValue("monitor_id", monitor_id, "there is a monitor of this id; open it in the list")
        _, token = saved(context, who, monitor_id, content)
        return _one(request, context, monitor_id, token=token)

    def again(wrong: Wrong) -> Response:
        return _list(request, context, None, {**_BLANK, **form.texts()}, wrong)

    return or_again(act, again, _LABELS, _field_of)


@router.post("/monitors/{monitor_id}", dependencies=CHANGER)
def change_monitor(request: Request, context: Context, who: Who, monitor_id: str, form: FormBody) -> Response:
    """Change or delete a monitor, or renew its token."""

    def act() -> Response:
        match form.one("do"):
            case "delete":
                deleted(context, who, monitor_id)
                return go("/monitors", "monitor-deleted")
            case "token":
                return _one(request, context, monitor_id, token=renewed(context, who, monitor_id))
            case _:
                wanted = {"calendars": seen(context, monitor_id)["calendars"], **_body_of(form)}
                saved(context, who, monitor_id, read_monitor(monitor_id, wanted, context.clock()))
                return go(f"/monitors/{quote(monitor_id)}", "monitor-saved")

    def again(wrong: Wrong) -> Response:
        return _one(request, context, monitor_id, typed=form.texts(), wrong=wrong)

    return or_again(act, again, _LABELS, _field_of)


def _is_there(context: ApiContext, monitor_id: str) -> bool:
    try:
        context.stores.monitor_store.get(monitor_id)
    except NotFound:
        return False
    return True


def _field_of(name: str) -> str:
    if name == "schedule.timezone":
        return "timezone"
    if name.startswith("calendars."):
        return ".".join(name.split(".")[:2])  # of a list, the field
    return name.partition(".")[0]


def _body_of(form: Form) -> dict[str, Any]:
    """Return the JSON of the form: a duration is an interval, anything else a cron line."""
    line = form.one("schedule")
    is_line = " " in line or line.startswith("@")
    schedule = {"kind": "cron", "expr": line} if is_line else {"kind": "interval", "every": line}
    zone = {"timezone": form.one("timezone")} if form.one("timezone") else {}
    texts = {name: form.one(name) for name in ("title", "description")}
    grace = {"grace": form.one("grace")} if form.one("grace") else {}
    # A program that sends this form without them keeps the calendars.
    calendars = {"calendars": calendars_of(form)} if "calendars.exclude" in form.texts() else {}
    return {**texts, **grace, **calendars, "schedule": {**schedule, **zone}, "paused": bool(form.one("paused"))}


def _typed(shown: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the texts of the form; None for a schedule that it cannot hold."""
    spec = shown["schedule"]
    line = spec.get("expr") if spec["kind"] == "cron" else spec.get("every") if spec["kind"] == "interval" else None
    if line is None:
        return None
    texts = {name: str(shown[name]) for name in ("monitor_id", "title", "description", "grace")}
    paused = {"paused": "on"} if shown["paused"] else {}
    named = texts_of(shown["calendars"])
    return {**texts, **paused, **named, "schedule": line, "timezone": spec.get("timezone", "UTC")}


def _list(
    request: Request, context: ApiContext, cursor: str | None, typed: Mapping[str, str], refused: Wrong = NOTHING_WRONG
) -> Response:
    reader = Reader(_LABELS)
    found = reader.tried(lambda: context.stores.monitor_store.list(_MONITORS, cursor)) or Page([], None)
    now = context.clock()
    return page(
        request, "monitors.html", wrong=reader.wrong() if refused is NOTHING_WRONG else refused,
        monitors=[_line(one, now) for one in readable(found, now)], typed=typed, shapes=_SHAPES,
        labels=_LABELS, when_closed=_WHEN_CLOSED,
        unread=[one.monitor_id for one in found.items if one.content is None],
        following=urlencode({"cursor": found.next_cursor}) if found.next_cursor else None,
    )  # fmt: skip


def _one(
    request: Request, context: ApiContext, monitor_id: str, *, token: str | None = None,
    typed: Mapping[str, str] | None = None, wrong: Wrong = NOTHING_WRONG,
) -> Response:  # fmt: skip
    shown, now = seen(context, monitor_id), context.clock()
    pings = [(moment(parse_instant(ping["at"]), now), ping, _took(ping["duration"])) for ping in shown["pings"]]
    return page(
        request, "monitor.html", wrong=wrong, shapes=_SHAPES, line=_line(shown, now), pings=pings, token=token,
        labels=_LABELS, when_closed=_WHEN_CLOSED,
        typed=_typed(shown) if typed is None else typed, address=f"{request.url.scheme}://{request.url.netloc}",
    )  # fmt: skip


def _line(shown: Mapping[str, Any], now: Instant) -> MonitorLine:
    parsed = parse_schedule(
        shown["schedule"], job_id=shown["monitor_id"], created_at=parse_instant(shown["created_at"])
    )
    expected, last = (
        None if shown[name] is None else moment(parse_instant(shown[name]), now)
        for name in ("expected_at", "last_ping_at")
    )
    calendars = None if shown["calendars"] is None else CALENDARS.read(shown["calendars"], "calendars")
    sentence = schedule_sentence(parsed.schedule, calendars)
    if isinstance(parsed.schedule, IntervalSchedule):  # it counts from each ping
        plain = describe(parsed.schedule)
        sentence = sentence.replace(plain, f"{plain.partition(', counted from')[0]} after its last ping", 1)
    return MonitorLine(shown, sentence, expected, last, _took(shown["last_duration"]))


def _took(duration: str | None) -> str | None:
    return None if duration is None else length(parse_duration(duration))
