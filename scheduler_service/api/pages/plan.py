"""The calendar page: what is planned and what ran, by month, week or day. Every view is an address; changes nothing."""

from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue, NotFound
from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.plan_days import (
    a_month_on,
    day_edges,
    days_between,
    days_of_month,
    days_of_week,
    hour_edges,
    read_day,
)
from scheduler_service.api.pages.plan_grid import Found, Heat, boxes, week_heat
from scheduler_service.api.pages.reader_zone import reader_zone
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.pages.time_axis import local
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader
from scheduler_service.api.services.calendar_cells import find_cells, find_ends
from scheduler_service.api.services.plans import PlanFilter
from scheduler_service.api.services.ran import MOST_OF_A_JOB
from scheduler_service.core.audit import Caller
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.schedules.zones import zone
from scheduler_service.ports.timeline import Ends

_LABELS: Final = {"job": "Job", "tag": "Tag", "queue": "Queue", "date": "Day"}

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)
Text = Annotated[str, Query(max_length=128)]


class View(StrEnum):
    """How much of the calendar is shown."""

    MONTH = "month"
    WEEK = "week"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Asked:
    """The view asked for: its day, its zone, its jobs."""

    view: View
    day: date
    zone: ZoneInfo
    wanted: PlanFilter
    first: date | None = None

    @property
    def days(self) -> list[date]:
        """Return the days of the view; a week that does not begin with a Monday has its `first` day."""
        if self.first is not None:
            return days_between(self.first, self.first + timedelta(6))
        if self.view is View.DAY:
            return [self.day]
        return days_of_week(self.day) if self.view is View.WEEK else days_of_month(self.day)

    def moved(self, steps: int) -> date:
        """Return a day of the view before or after."""
        if self.view is View.MONTH:
            return a_month_on(self.day, steps)
        return self.day + timedelta(steps * (7 if self.view is View.WEEK else 1))

    def address(self, view: str, day: date) -> str:
        """Return the address of another view with the same filter."""
        named = reader_zone()
        given = {"view": str(view), "date": day.isoformat(), "job": self.wanted.job_id, "tag": self.wanted.tag,
                 "queue": self.wanted.queue, "tz": named.name if named.named else None}  # fmt: skip
        return f"/calendar?{urlencode({name: value for name, value in given.items() if value})}"

    def runs(self, path: str, begin: Instant, end: Instant, names: tuple[str, str], **more: str) -> str:
        """Return the address of the runs of a time, where that page has the filter."""
        given = {**more, names[0]: format_instant(begin), names[1]: format_instant(end),
                 "job_id": self.wanted.job_id, "queue": self.wanted.queue}  # fmt: skip
        return f"{path}?{urlencode({name: value for name, value in given.items() if value})}"


@router.get("/calendar")
def show_plan(
    request: Request, context: Context, who: Who, view: View = View.MONTH,
    date: Annotated[str, Query(max_length=10)] = "", job: Text = "", tag: Text = "", queue: Text = "",
) -> Response:  # fmt: skip
    """Show what is planned and what ran."""
    reader, now, shown_in = Reader(_LABELS), context.clock(), zone(reader_zone().name)
    today = local(now, shown_in).date()
    day = reader.tried(lambda: read_day(date)) if date else today
    wanted = PlanFilter(
        reader.tried(lambda: read_text(job, "job") or None), reader.tried(lambda: read_text(tag, "tag") or None),
        reader.tried(lambda: read_text(queue, "queue") or None),
    )  # fmt: skip
    if wanted.job_id is not None:
        reader.tried(lambda: _known(context, wanted.job_id or ""))
    wrong, asked = reader.wrong(), Asked(view, day or today, shown_in, wanted)
    values = _shown(context, who, asked, now) if wrong is NOTHING_WRONG else {"boxes": ()}
    return page(
        request, "plan.html", wrong=wrong, view=view.value, date=(day or today).isoformat(), job=job, tag=tag,
        queue=queue, title=_title(asked), asked=asked, today=today,
        views=[(one.value, asked.address(one.value, asked.day)) for one in View],
        before=asked.address(view, asked.moved(-1)), after=asked.address(view, asked.moved(1)),
        present=asked.address(view, today), **values,
    )  # fmt: skip


def _known(context: ApiContext, job_id: str) -> None:
    try:
        context.stores.jobs.get(job_id)
    except NotFound:
        raise BadValue("job", job_id, "there is no such job") from None


def _title(asked: Asked) -> str:
    day, days = asked.day, asked.days
    if asked.view is View.MONTH:
        return f"{day:%B %Y}"
    if asked.view is View.WEEK:
        return f"{days[0].day} {days[0]:%b} to {days[-1].day} {days[-1]:%b %Y}"
    return f"{day:%A} {day.day} {day:%B %Y}"


def _shown(context: ApiContext, who: Caller, asked: Asked, now: Instant) -> dict[str, Any]:
    edges = hour_edges(asked.days, asked.zone) if asked.view is View.DAY else day_edges(asked.days, asked.zone)
    plan, found = find_cells(context, who, asked.wanted, asked.days, edges, now)
    name = _clock_name(asked.zone) if asked.view is View.DAY else lambda at: str(local(at, asked.zone).day)
    shown = boxes(found, asked.zone, now, name, lambda day: asked.view is View.MONTH and day.month != asked.day.month)
    values: dict[str, Any] = {
        "boxes": shown, "weeks": [shown[n : n + 7] for n in range(0, len(shown), 7)],
        "counting": plan is None and edges[-1] > now, "complete": plan is None or plan.complete,
        "jobs": plan.jobs if plan else 0, "closed_names": sorted({name for box in shown for name in box.closed}),
        "heat": None, "ran_known": asked.wanted.tag is None, "most": MOST_OF_A_JOB,
        "since": found.since and format_instant(found.since),
    }  # fmt: skip
    if asked.view is View.WEEK:
        values["heat"] = heat_of(context, who, asked, now)
    return values


def heat_of(context: ApiContext, who: Caller, asked: Asked, now: Instant) -> Heat | None:
    """Return the week's hours as a heat map; None while the plan is being counted."""
    edges = hour_edges(asked.days, asked.zone)
    plan, found = find_cells(context, who, asked.wanted, asked.days, edges, now)
    return None if plan is None and edges[-1] > now else _heat(found, asked, now)


def coming_week(context: ApiContext, who: Caller) -> Heat | None:
    """Return the heat of what is planned in the seven days from today on, of all jobs; None while it is counted."""
    asked, now = _week_of_all(context, 0)
    edges = hour_edges(asked.days, asked.zone)
    plan = context.plans.counted(context.stores.jobs, who.limits, asked.wanted, edges, now)
    return None if plan is None else _heat(Found(edges, plan.cells, [Ends()] * (len(edges) - 1)), asked, now)


def past_week(context: ApiContext, who: Caller) -> Heat:
    """Return the heat of what ended in the seven days up to today, of all jobs."""
    asked, now = _week_of_all(context, -6)
    edges = hour_edges(asked.days, asked.zone)
    return _heat(Found(edges, (), find_ends(context, who, asked.wanted, edges, now).ends), asked, now)


def _heat(found: Found, asked: Asked, now: Instant) -> Heat:
    hours = boxes(found, asked.zone, now, str, lambda day: False)
    return week_heat(hours, asked.zone, lambda at: asked.address(View.DAY, local(at, asked.zone).date()))


def _week_of_all(context: ApiContext, days: int) -> tuple[Asked, Instant]:
    now, shown_in = context.clock(), zone(reader_zone().name)
    first = local(now, shown_in).date() + timedelta(days)
    return Asked(View.WEEK, first, shown_in, PlanFilter(), first), now


def _clock_name(shown_in: ZoneInfo) -> Any:
    return lambda at: f"{local(at, shown_in):%H:%M}"
