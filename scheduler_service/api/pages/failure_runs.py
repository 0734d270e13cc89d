"""The runs of one group of failures: exactly those that the failures page counts."""

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from scheduler_service.api.context import Context
from scheduler_service.api.pages.failure_groups import Kind, kind_of
from scheduler_service.api.pages.failures import WITHIN, read_within
from scheduler_service.api.pages.live import TROUBLES
from scheduler_service.api.pages.moments import Moment, moment
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.core.run_state import RunState

_AT_ONCE: Final = 100
_STATES: Final = {state.value: state for state in (RunState.FAILED, RunState.MISSED)}

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)
Text = Annotated[str, Query(max_length=500)]


@dataclass(frozen=True, slots=True)
class Failure:
    """One run of the group."""

    run_id: str
    at: Moment
    message: str


@router.get("/failures/runs")
def show_runs(
    request: Request, context: Context, within: Text = "24h", state: Text = "failed", job_id: Text = "",
    task: Text = "", error_type: Text = "", skip: Annotated[int, Query(ge=0, le=TROUBLES)] = 0,
) -> Response:  # fmt: skip
    """Show the group, the latest first."""
    read_within(within)
    kind = Kind(job_id or None, task, _STATES.get(state, RunState.FAILED), error_type)
    now = context.clock()
    troubles = context.stores.history.troubles(now - WITHIN[within], TROUBLES)
    found = [trouble for trouble in troubles if kind_of(trouble) == kind]
    shown = found[skip : skip + _AT_ONCE]
    asked = {"within": within, "state": state, "job_id": job_id, "task": task, "error_type": error_type}

    def link(first: int) -> str | None:
        return urlencode({**asked, "skip": first}) if 0 <= first < len(found) and first != skip else None

    return page(
        request, "failure_runs.html", kind=kind, total=len(found), within=within, capped=len(troubles) >= TROUBLES,
        most=TROUBLES, before=link(max(0, skip - _AT_ONCE)), following=link(skip + _AT_ONCE),
        troubles=[
            Failure(trouble.run_id, moment(trouble.finished_at, now), trouble.message or trouble.reason or "")
            for trouble in shown
        ],
    )  # fmt: skip
