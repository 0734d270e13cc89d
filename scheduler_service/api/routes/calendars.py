"""Named calendars over HTTP: list, show, define, delete; their days, their versions and what names them.

Promises that a change has answered once it is committed; jobs that use the calendar follow it from `effective_from` on.
Never waits for a leader.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import BadValue, BadValues, NotFound
from itinerary.protocol.limits import LIMIT_RULE
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, require
from scheduler_service.api.http.bodies import JsonObject
from scheduler_service.api.openapi import calendar_shapes as shapes
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.api.routes.queues import OPERATOR, Cursor
from scheduler_service.api.services.calendar_contents import content_of, feeds_body
from scheduler_service.api.services.calendar_previews import edit_preview
from scheduler_service.core.audit import Caller
from scheduler_service.core.calendars.stored import CalendarContent, StoredCalendar
from scheduler_service.core.contract.calendar_json import CALENDAR_ID
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.stored_calendar_json import calendar_body, days_body, version_body

router = APIRouter(prefix="/api/v1/calendars", tags=["calendars"], dependencies=[Depends(require("viewer"))])
Most = Annotated[int, Query(alias="limit", ge=1, le=100, description="Maximum number of items.")]
Year = Annotated[int, Query(ge=1970, le=9998, description="The year whose days are shown.")]


@router.get("", responses=answers({200: shapes.Calendars}, 422))
def list_calendars(context: Context, limit: Most = 100, cursor: Cursor = None) -> Response:
    """List the calendars by id."""
    _read_cursor(cursor)
    page = context.stores.calendar_store.list(limit, cursor)
    return _page([calendar_body(one) for one in page.items], page.next_cursor)


@router.get("/{calendar_id}", responses=answers({200: shapes.CalendarWithFeeds}, 404))
def get_calendar(context: Context, calendar_id: str) -> Response:
    """Return a calendar with its newest version."""
    return _shown(context, found(context, calendar_id))


@router.put(
    "/{calendar_id}", dependencies=OPERATOR, openapi_extra=body_of(shapes.CalendarIn),
    responses=answers({200: shapes.CalendarWithFeeds}, 400, 409, 413, 422),
)  # fmt: skip
def put_calendar(context: Context, who: Who, calendar_id: str, body: JsonObject) -> Response:
    """Define a calendar, or replace its rules; jobs that use it follow from `effective_from` on, 30 s later."""
    return _shown(context, defined(context, who, calendar_id, body))


@router.delete("/{calendar_id}", status_code=204, dependencies=OPERATOR, responses=answers({}, 404, 409))
def delete_calendar(context: Context, who: Who, calendar_id: str) -> Response:
    """Delete a calendar that no job or monitor names; its versions stay as long as history."""
    deleted(context, who, calendar_id)
    return Response(status_code=204)


@router.post(
    "/{calendar_id}/preview", dependencies=OPERATOR, openapi_extra=body_of(shapes.CalendarIn),
    responses=answers({200: shapes.CalendarPreview}, 400, 404, 413, 422),
)  # fmt: skip
def preview_calendar(context: Context, calendar_id: str, body: JsonObject) -> Response:
    """Say which jobs would run at other times if the calendar were this; changes nothing."""
    return JSONResponse(edit_preview(context, _id(calendar_id), body))


@router.get("/{calendar_id}/days", responses=answers({200: shapes.CalendarDays}, 404, 422))
def get_calendar_days(context: Context, calendar_id: str, year: Year) -> Response:
    """Return the days of a year with an instant of the calendar, in its own zone."""
    return JSONResponse(days_body(found(context, calendar_id), year))


@router.get("/{calendar_id}/versions", responses=answers({200: shapes.CalendarVersions}, 404, 422))
def list_calendar_versions(context: Context, calendar_id: str, limit: Most = 100, cursor: Cursor = None) -> Response:
    """List the versions of a calendar, the newest first; of a deleted one too."""
    _read_cursor(cursor)
    page = context.stores.calendar_store.versions(_id(calendar_id), limit, cursor)
    return _page([version_body(one) for one in page.items], page.next_cursor)


@router.get("/{calendar_id}/jobs", responses=answers({200: shapes.CalendarJobs}, 404, 422))
def list_calendar_jobs(context: Context, calendar_id: str, limit: Most = 100, cursor: Cursor = None) -> Response:
    """List the ids of the current jobs that name the calendar."""
    return _page_of_users(context, calendar_id, context.stores.calendar_store.jobs_using, limit, cursor)


@router.get("/{calendar_id}/monitors", responses=answers({200: shapes.CalendarMonitors}, 404, 422))
def list_calendar_monitors(context: Context, calendar_id: str, limit: Most = 100, cursor: Cursor = None) -> Response:
    """List the ids of the monitors that name the calendar."""
    return _page_of_users(context, calendar_id, context.stores.calendar_store.monitors_using, limit, cursor)


def _page_of_users(
    context: ApiContext,
    calendar_id: str,
    read: Callable[[str, int, str], Sequence[str]],
    limit: int,
    cursor: str | None,
) -> Response:
    """A page of the ids that `read` finds after the cursor."""
    _read_cursor(cursor)
    found(context, calendar_id)
    ids = read(calendar_id, limit + 1, cursor or "")
    return _page(list(ids[:limit]), ids[limit - 1] if len(ids) > limit else None)


def found(context: ApiContext, calendar_id: str) -> StoredCalendar:
    """Return the calendar of this id; NotFound."""
    return context.stores.calendar_store.get(_id(calendar_id))


def defined(
    context: ApiContext, who: Caller, calendar_id: str, body: Mapping[str, Any],
    check: Callable[[StoredCalendar | None], None] = lambda _: None,
) -> StoredCalendar:  # fmt: skip
    """Define the calendar and tell the leader; `check` raises for a present one that the caller did not expect."""
    if not CALENDAR_ID.fullmatch(calendar_id):
        raise BadValues([BadValue("calendar_id", calendar_id, LIMIT_RULE)])
    edit = context.stores.calendar_store.edit  # refused first: nothing is fetched for a caller who may not change it
    expanded = content_of(context, calendar_id, body)

    def change(there: StoredCalendar | None) -> CalendarContent:
        check(there)
        return expanded.content

    kept = edit(calendar_id, change, by=who.audited_change("calendar.put"), feeds=expanded.feeds)
    context.leader.tell("control_changed", {})
    return kept


def deleted(context: ApiContext, who: Caller, calendar_id: str) -> None:
    """Delete the calendar."""
    context.stores.calendar_store.delete(_id(calendar_id), by=who.audited_change("calendar.delete"))


def _shown(context: ApiContext, calendar: StoredCalendar) -> Response:
    feeds = context.stores.feed_store.feeds_of(calendar.calendar_id, with_bodies=False)
    return JSONResponse({**calendar_body(calendar), "feeds": feeds_body(feeds)})


def _id(calendar_id: str) -> str:
    if not CALENDAR_ID.fullmatch(calendar_id):
        raise NotFound("no calendar with such an id")
    return calendar_id


def _read_cursor(cursor: str | None) -> None:
    if cursor is not None:
        read_text(cursor, "cursor")


def _page(items: list[Any], next_cursor: str | None) -> Response:
    return JSONResponse({"items": items, "next_cursor": next_cursor})
