"""Runs that failed for good or were missed, grouped by job and error; a group's runs are retried together.

Promises: a second click on a group retries no run twice, since the new run's key is derived from the old run's id.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from uuid_utils.compat import uuid7

from itinerary.protocol.errors import BadValue, NotFound
from itinerary.protocol.instants import DAY, HOUR
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.csrf import FormBody
from scheduler_service.api.pages.failure_groups import Kind, grouped, kind_of
from scheduler_service.api.pages.live import TROUBLES
from scheduler_service.api.pages.missed_ranges import missed_ranges_text
from scheduler_service.api.pages.outages import outages
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import Reader
from scheduler_service.core.audit import Caller
from scheduler_service.core.contract.run_requests import again_once
from scheduler_service.core.model import NewRun
from scheduler_service.core.run_state import RunState

WITHIN: Final = {"1h": HOUR, "24h": DAY, "7d": 7 * DAY}
_AT_ONCE: Final = 100
_OUTAGES: Final = 50
_GROUPS: Final = 100

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@router.get("/failures")
def show_failures(request: Request, context: Context, within: Annotated[str, Query(max_length=20)] = "24h") -> Response:
    """Show the groups, the largest first."""
    reader, now = Reader({}), context.clock()
    within = reader.tried(lambda: read_within(within)) or "24h"
    troubles = context.stores.history.troubles(now - WITHIN[within], TROUBLES)
    missed_ranges, groups = (
        context.stores.history.missed_ranges(now - WITHIN[within], TROUBLES),
        grouped(troubles, now, within),
    )
    found = outages(missed_ranges, now)
    return page(
        request, "failures.html", wrong=reader.wrong(), groups=groups[:_GROUPS],
        more=len(groups) - _GROUPS, within=within,
        choices=list(WITHIN), capped=len(troubles) >= TROUBLES, most=TROUBLES, at_once=_AT_ONCE,
        outages=found[:_OUTAGES], outages_more=len(found) > _OUTAGES,
        missed_ranges_capped=len(missed_ranges) >= TROUBLES,
        left_out=missed_ranges_text(missed_ranges),
    )  # fmt: skip


@router.post("/failures/retry", dependencies=CHANGER)
def retry_group(context: Context, who: Who, form: FormBody) -> Response:
    """Retry the newest runs of a group that were not retried yet."""
    within, wanted = form.one("within"), _read_kind(form.one("job_id"), form.one("task"), form.one("error_type"))
    read_within(within)
    troubles = context.stores.history.troubles(context.clock() - WITHIN[within], TROUBLES)
    chosen = [trouble.run_id for trouble in troubles if kind_of(trouble) == wanted]
    back = f"/failures?within={within}"
    for first in range(0, len(chosen), _AT_ONCE):
        created = _tried_again(context, who, chosen[first : first + _AT_ONCE])
        if created:
            context.leader.tell("run_enqueued", {"run_ids": created})
            return go(back, "all-retried", len(created), max(0, len(chosen) - first - _AT_ONCE))
    return go(back, "none-retried")


def read_within(text: str) -> str:
    """Read how far back to search; BadValue."""
    if text not in WITHIN:
        raise BadValue("within", text, f"known are {', '.join(WITHIN)}")
    return text


def _tried_again(context: ApiContext, who: Caller, run_ids: Sequence[str]) -> list[str]:
    """Return the new runs; none for those already retried."""
    new = [retried for run_id in run_ids if (retried := _again(context, run_id)) is not None]
    enqueued = context.stores.runs.enqueue(new, by=who.audited_change("run.retry")) if new else []
    return [run.run_id for run, is_new in enqueued if is_new]


def _read_kind(job_id: str, task: str, error_type: str) -> Kind:
    """Read the group; a missed run is not retried here: its time is past, and the job's misfire policy decided."""
    return Kind(job_id or None, task, RunState.FAILED, error_type)


def _again(context: ApiContext, run_id: str) -> NewRun | None:
    """Return the new run's id; None if the run was pruned meanwhile."""
    try:
        run = context.stores.runs.get(run_id)
    except NotFound:
        return None
    return again_once(run, str(uuid7()), context.clock())
