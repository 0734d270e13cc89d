"""The pages of named calendars: the list, and each with its year, its rules, its jobs and its versions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue, BadValues, Conflict
from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.csrf import Form, FormBody
from scheduler_service.api.pages.moments import moment
from scheduler_service.api.pages.month_grids import month_grids
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader, Wrong, or_again
from scheduler_service.api.routes.calendars import defined, deleted, found
from scheduler_service.api.routes.jobs import Cursor
from scheduler_service.core.calendars.rule_texts import lines_of, read_line
from scheduler_service.core.calendars.stored import StoredCalendar
from scheduler_service.core.calendars.year import MarkedDay, days_of_year

_CALENDARS: Final = 50
_JOBS: Final = 50
_VERSIONS: Final = 10
_LABELS: Final = {
    "calendar_id": "Id", "timezone": "Time zone", "description": "Purpose", "rules": "Rules", "year": "Year",
    "cursor": "Page of the list",
}  # fmt: skip
_BLANK: Final[Mapping[str, str]] = dict.fromkeys(("calendar_id", "timezone", "description", "rules"), "")
_FIRST_YEAR, _LAST_YEAR = 1970, 9998

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)
Year = Annotated[int | None, Query(ge=_FIRST_YEAR, le=_LAST_YEAR)]


@dataclass(frozen=True, slots=True)
class CalendarLine:
    """A calendar in the list, with the next day that it names within a year."""

    calendar_id: str
    timezone: str
    description: str
    rules: list[str]
    coming: MarkedDay | None


@router.get("/calendars")
def show_calendars(request: Request, context: Context, cursor: Cursor = None) -> Response:
    """List the calendars."""
    return _list(request, context, cursor, _BLANK)


@router.post("/calendars", dependencies=CHANGER)
def create(request: Request, context: Context, who: Who, form: FormBody) -> Response:
    """Define a calendar."""

    def act() -> Response:
        calendar_id = form.one("calendar_id")
        kept = defined(context, who, calendar_id, _body_of(form, ()), lambda there: _check_free(there))
        return go(f"/calendars/{kept.calendar_id}", "calendar-saved")

    return or_again(act, lambda wrong: _list(request, context, None, {**_BLANK, **form.texts()}, wrong), _LABELS)


@router.get("/calendars/{calendar_id}")
def show_calendar(request: Request, context: Context, calendar_id: str, year: Year = None) -> Response:
    """Show a calendar: a year of it, its rules, what names it, its versions."""
    return _show(request, context, found(context, calendar_id), year, None)


@router.post("/calendars/{calendar_id}", dependencies=CHANGER)
def change(request: Request, context: Context, who: Who, calendar_id: str, form: FormBody) -> Response:
    """Save or delete a calendar."""
    there = found(context, calendar_id)

    def act() -> Response:
        if form.one("do") == "delete":
            deleted(context, who, calendar_id)
            return go("/calendars", "calendar-deleted")
        body = _body_of(form, there.content.definition["rules"])
        defined(context, who, calendar_id, body, lambda present: _check_present(present, form))
        return go(f"/calendars/{calendar_id}", "calendar-saved")

    return or_again(act, lambda wrong: _show(request, context, there, None, form.texts(), wrong), _LABELS)


def _check_free(there: StoredCalendar | None) -> None:
    if there is not None:
        raise BadValue("calendar_id", there.calendar_id, "there is a calendar of this id; edit it on its page")


def _check_present(there: StoredCalendar | None, form: Form) -> None:
    """Refuse to change a calendar that somebody else changed or deleted since the form was opened."""
    if there is None or str(there.updated_at) != form.one("mark"):
        raise Conflict("somebody changed it since this form was opened; open it again", "edited-by-others")


def _body_of(form: Form, kept: Any) -> dict[str, Any]:
    """Return the API's JSON; rules that are no lines of text stay as they are."""
    body = {name: form.one(name) for name in ("timezone", "description") if form.one(name)}
    if "rules" not in form.texts():
        return {**body, "rules": list(kept)}
    rules, errors = [], []
    for number, line in enumerate(form.one("rules").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            rules.append(read_line(line))
        except BadValue as error:
            errors.append(error.under(f"rules.{number}"))
    if errors:
        raise BadValues(errors)
    return {**body, "rules": rules}


def _list(
    request: Request, context: ApiContext, cursor: str | None, typed: Mapping[str, str], refused: Wrong = NOTHING_WRONG
) -> Response:
    reader = Reader(_LABELS)
    listed = reader.tried(lambda: context.stores.calendar_store.list(_CALENDARS, cursor))
    now = context.clock()
    return page(
        request, "calendars.html", wrong=reader.wrong() if refused is NOTHING_WRONG else refused, typed=typed,
        calendars=[_line(one, now) for one in listed.items] if listed is not None else [],
        following=urlencode({"cursor": listed.next_cursor}) if listed is not None and listed.next_cursor else None,
    )  # fmt: skip


def _line(calendar: StoredCalendar, now: Instant) -> CalendarLine:
    definition, compiled = calendar.content.definition, calendar.content.compiled
    today = _today(compiled.timezone, now)
    coming = (
        day
        for days in (replace(compiled, weekly=()), compiled)  # what comes once says more than each weekend
        for year in (today.year, today.year + 1)
        for day in days_of_year(days, year)
        if day.day >= today
    )
    lines = lines_of(definition["rules"]) or [f"{len(definition['rules'])} rules"]
    return CalendarLine(calendar.calendar_id, compiled.timezone, definition["description"], lines, next(coming, None))


def _show(
    request: Request, context: ApiContext, calendar: StoredCalendar, year: int | None,
    typed: Mapping[str, str] | None, wrong: Wrong = NOTHING_WRONG,
) -> Response:  # fmt: skip
    now, compiled = context.clock(), calendar.content.compiled
    today = _today(compiled.timezone, now)
    shown = year if year is not None else min(max(today.year, _FIRST_YEAR), _LAST_YEAR)
    marked = days_of_year(compiled, shown)
    store = context.stores.calendar_store
    jobs = store.jobs_using(calendar.calendar_id, _JOBS + 1)
    monitors = store.monitors_using(calendar.calendar_id, _JOBS + 1)
    versions = store.versions(calendar.calendar_id, _VERSIONS, None).items
    return page(
        request, "calendar.html", wrong=wrong, calendar=calendar, definition=calendar.content.definition,
        address_of=f"/calendars/{quote(calendar.calendar_id)}", year=shown,
        years=[n for n in (shown - 1, shown + 1) if _FIRST_YEAR <= n <= _LAST_YEAR],
        months=month_grids(shown, {day.day: day for day in marked}, today),
        named=days_of_year(replace(compiled, weekly=()), shown),
        typed=typed or _typed(calendar), jobs=jobs[:_JOBS], more_jobs=len(jobs) > _JOBS,
        monitors=monitors[:_JOBS], more_monitors=len(monitors) > _JOBS,
        since=moment(calendar.effective_from, now), is_to_come=calendar.effective_from > now,
        versions=[(one, moment(one.effective_from, now)) for one in versions],
    )  # fmt: skip


def _typed(calendar: StoredCalendar) -> dict[str, str]:
    """Return the texts of the form; without `rules` if one of them is no line of text."""
    definition = calendar.content.definition
    typed = {"timezone": definition["timezone"], "description": definition["description"]}
    lines = lines_of(definition["rules"])
    return {**typed, "mark": str(calendar.updated_at), **({} if lines is None else {"rules": "\n".join(lines)})}


def _today(timezone: str, now: Instant) -> date:
    return datetime.fromtimestamp(now // SECOND, UTC).astimezone(ZoneInfo(timezone)).date()
