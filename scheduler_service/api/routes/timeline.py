"""The timeline over HTTP: the runs of a time by job, queue, worker or task, as others may draw it. Only reads."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR, SECOND, Duration, Instant, parse_instant
from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import require
from scheduler_service.api.openapi import timeline_shapes as shapes
from scheduler_service.api.openapi.documents import answers
from scheduler_service.api.openapi.parameters import GIVEN
from scheduler_service.api.routes.runs import Time
from scheduler_service.api.services.timelines import PARTS, read_timeline, timeline_body
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.stores import RunFilter
from scheduler_service.ports.timeline import LaneKind, Span

router = APIRouter(prefix="/api/v1", tags=["runs"], dependencies=[Depends(require("viewer"))])
SHORTEST: Final[Duration] = SECOND
LONGEST: Final[Duration] = 366 * DAY
MOST_LANES: Final = 1_000_000
By = Annotated[LaneKind, Query(description="What the runs of a lane have in common.")]
FirstLane = Annotated[int, Query(ge=0, le=MOST_LANES, description="`next_lane` of the answer before.")]


@router.get("/runs/timeline", responses=answers({200: shapes.TimelineOut}, 422))
def timeline(
    context: Context,
    by: By = LaneKind.JOB,
    job_id: Annotated[str | None, Query(max_length=128, json_schema_extra=GIVEN)] = None,
    state: Annotated[list[RunState] | None, Query(description="May be repeated.")] = None,
    queue: Annotated[str | None, Query(max_length=128, json_schema_extra=GIVEN)] = None,
    since: Time = None,
    until: Time = None,
    first_lane: FirstLane = 0,
) -> Response:
    """Show the runs of a time in lanes: one by one up to 1,000, else counted in a hundred parts of the time.

    Without times it is the last hour. From 25,000 runs on, those that did not succeed are counted and the others
    estimated by a sample.
    """
    for name, text in (("job_id", job_id), ("queue", queue)):
        if text is not None:
            read_text(text, name)
    end = context.clock() if until is None else parse_instant(until, "until")
    span = span_of(end - HOUR if since is None else parse_instant(since, "since"), end, until or "")
    wanted = RunFilter(job_id, tuple(state or ()), queue)
    return JSONResponse(timeline_body(read_timeline(context.stores.timeline, by, span, wanted, first_lane)))


def span_of(since: Instant, until: Instant, typed: str, field: str = "until") -> Span:
    """Return the time in a hundred parts; BadValue if it is too short or too long."""
    if not SHORTEST <= until - since <= LONGEST:
        raise BadValue(field, typed, "give a time at least one second and at most 366 days after the beginning")
    return Span(since, until, PARTS)
