"""The contents of a calendar's cells, for the page and the API: what is planned, what ended, closed days, freezes.

Promises that a read is bounded: see `services/plans.py` and `services/ran.py`; ten calendars, the newest hundred
freezes.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from typing import Final

from itinerary.protocol.instants import Instant
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.pages.plan_grid import Found
from scheduler_service.api.services.plans import Plan, PlanFilter
from scheduler_service.api.services.ran import ends_of_job, in_cells
from scheduler_service.core.audit import Caller
from scheduler_service.core.calendars.year import days_of_year
from scheduler_service.core.freezes import Freeze
from scheduler_service.ports.timeline import Ends, JobEnds

_CALENDARS: Final = 10
_FREEZES: Final = 100


def find_cells(
    context: ApiContext, who: Caller, wanted: PlanFilter, days: Sequence[date], edges: Sequence[Instant], now: Instant,
    patience: float = 0.0,
) -> tuple[Plan | None, Found]:  # fmt: skip
    """Return the contents of the cells between the edges; without a plan while it is counted, or if all is over."""
    plan = None
    if edges[-1] > now:
        plan = context.plans.counted(context.stores.jobs, who.limits, wanted, edges, now, patience)
    ends, since = find_ends(context, who, wanted, edges, now)
    cells = plan.cells if plan else ()
    return plan, Found(edges, cells, ends, _closed(context, wanted, days), _freezes(context), since)


def find_ends(context: ApiContext, who: Caller, wanted: PlanFilter, edges: Sequence[Instant], now: Instant) -> JobEnds:
    """Return what ended in each cell; by tags nothing is counted."""
    if wanted.tag is not None:
        return JobEnds([Ends()] * (len(edges) - 1))
    if wanted.job_id is not None:
        return ends_of_job(context.stores.timeline, wanted.job_id, edges, now)
    found = context.past_days.ends(context.stores.samples, who.limits, wanted.queue, edges[0], edges[-1], now)
    return JobEnds(in_cells(found, edges))


def _freezes(context: ApiContext) -> Sequence[Freeze]:
    try:
        return context.stores.freeze_store.list(None, _FREEZES, None).items
    except Problem:  # a limited token does not see what concerns others
        return ()


def _closed(context: ApiContext, wanted: PlanFilter, shown: Sequence[date]) -> dict[date, tuple[str, ...]]:
    """Return the days that calendars name as a whole: of the job's calendars, or of the first ten."""
    store = context.stores.calendar_store
    if wanted.job_id is not None:
        named = context.stores.jobs.get(wanted.job_id).calendars
        calendars = [store.get(calendar_id) for calendar_id in named.ids] if named else []
    else:
        calendars = list(store.list(_CALENDARS, None).items)
    days, years = set(shown), sorted({day.year for day in shown})
    found: defaultdict[date, list[str]] = defaultdict(list)
    for calendar in calendars:
        for year in years:
            for marked in days_of_year(calendar.content.compiled, year):
                if marked.whole and marked.day in days:
                    found[marked.day].append(", ".join([calendar.calendar_id, *marked.names[:1]]))
    return {day: tuple(names) for day, names in found.items()}
