"""The search of the keyboard palette: where a typed name leads. A part of every page, asked at each pause of typing.

Promises: jobs and runs are found by an index, the rest in lists with a bound; a limited token finds its own only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Response

from itinerary.protocol.errors import NotFound
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, may
from scheduler_service.api.pages.manual import contents
from scheduler_service.api.pages.shell import NAVIGATION, READER, PageRoute
from scheduler_service.api.pages.templating import part
from scheduler_service.api.services.saved_views import views_of
from scheduler_service.api.services.who_leads import ask_holder
from scheduler_service.core.audit import Caller
from scheduler_service.ports.stores import JobFilter

_OF_A_KIND: Final = 6
_READ: Final = 200
_ACTIONS: Final = (
    ("Create a job", "/new-job"),
    ("Start a freeze", "/freezes#changing"),
    ("Define a limit", "/limits#changing"),
    ("Define a calendar", "/calendars#changing"),
    ("Rebalance the load", "/load"),
)

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the palette: its kind, its name, its address."""

    kind: str
    name: str
    address: str


@router.get("/parts/palette")
def search(context: Context, who: Who, q: Annotated[str, Query(max_length=300)] = "") -> Response:
    """List the places whose name has what was typed, jobs those whose name begins with it."""
    typed = q.strip()
    return part("_palette.html", places=list(_places(context, who, typed)), typed=typed)


def _places(context: ApiContext, who: Caller, typed: str) -> Iterator[Place]:
    if typed:
        yield from _run(context, typed)
        yield from _jobs(context, typed)
    if who.limits.none:
        named = (view for view in views_of(context, who) if _has(view.name, typed))
        yield from (Place("View", view.name, view.address) for view in islice(named, _OF_A_KIND))
    yield from _pages(typed)
    if may(who, "operator"):
        yield from islice((Place("Action", *each) for each in _ACTIONS if _has(each[0], typed)), _OF_A_KIND)
    if len(typed) > 1:
        if who.limits.none:
            yield from _of_the_installation(context, typed)
        yield from _manual(typed)
        yield Place("Search", f"Jobs with {typed} in id, title or task", f"/jobs?{urlencode({'q': typed})}")


def _run(context: ApiContext, typed: str) -> Iterator[Place]:
    try:
        yield Place("Run", typed, f"/runs/{quote(context.stores.runs.get(typed).run_id, safe='')}")
    except NotFound:
        return


def _jobs(context: ApiContext, typed: str) -> Iterator[Place]:
    found = context.stores.jobs.list(JobFilter(text=typed, prefixes=(typed,)), _OF_A_KIND, None)
    for job in found.items:
        yield Place("Job", job.job_id, f"/jobs/{quote(job.job_id, safe='')}")
    if len(found.items) == 1:
        yield Place("Runs", f"of {found.items[0].job_id}", f"/runs?{urlencode({'job_id': found.items[0].job_id})}")


def _pages(typed: str) -> Iterator[Place]:
    for group, pages in NAVIGATION:
        yield from (Place(group, name, address) for address, name in pages if _has(name, typed))


def _of_the_installation(context: ApiContext, typed: str) -> Iterator[Place]:
    calendars = (calendar.calendar_id for calendar in context.stores.calendar_store.list(_READ, None).items)
    for name in islice((name for name in calendars if _has(name, typed)), _OF_A_KIND):
        yield Place("Calendar", name, f"/calendars/{quote(name, safe='')}")
    _, figures = ask_holder(context.stores.leases, context.leader)
    for name in _named(figures, "queues", typed):
        yield Place("Queue", name, f"/runs?{urlencode({'queue': name})}")
    for name in _named(figures, "workers", typed):
        yield Place("Worker", name, "/workers")


def _named(figures: Mapping[str, Any] | None, kind: str, typed: str) -> Iterator[str]:
    names = (str(each["name"]) for each in (figures or {}).get(kind, ()))
    return islice((name for name in names if _has(name, typed)), _OF_A_KIND)


def _manual(typed: str) -> Iterator[Place]:
    entries = (entry for group in contents() for entry in group.entries if _has(entry.title, typed))
    yield from (Place("Manual", entry.title, entry.address) for entry in islice(entries, _OF_A_KIND))


def _has(name: str, typed: str) -> bool:
    return typed.casefold() in name.casefold()
