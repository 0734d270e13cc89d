"""Logs of runs over HTTP: the kept end of each attempt's log, and the lines of one that runs, as they come."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.instants import SECOND
from scheduler_service.api.context import Context
from scheduler_service.api.openapi import log_shapes as shapes
from scheduler_service.api.openapi.documents import answers
from scheduler_service.api.routes.runs import READER
from scheduler_service.api.services.run_logs import LONGEST_WAIT, read_part
from scheduler_service.core.contract.log_text import last_lines

router = APIRouter(prefix="/api/v1", tags=["runs"])
_MOST_LINES: Final = 10_000
_LAST_POSITION: Final = 2**53 - 1


@router.get("/runs/{run_id}/logs", dependencies=READER, responses=answers({200: shapes.LogOut}, 404, 422))
def read_logs(
    context: Context,
    run_id: str,
    attempt: Annotated[int | None, Query(ge=1, le=100_000, description="The newest one if it is left out.")] = None,
    after: Annotated[int, Query(ge=0, le=_LAST_POSITION, description="Only what follows this position.")] = 0,
    tail: Annotated[int | None, Query(ge=1, le=_MOST_LINES, description="Only so many lines, the last ones.")] = None,
    follow: Annotated[bool, Query(description="Let a running attempt's worker send its lines.")] = False,
    wait: Annotated[int, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait at most for new lines.")] = 0,
) -> Response:
    """Return the end of an attempt's log, at most 64 KiB. To follow one, ask again with its `end` as `after`."""
    part = read_part(context, run_id, attempt, after, follow=follow, wait=wait * SECOND)
    text = part.tail.text if tail is None else last_lines(part.tail.text, tail)
    return JSONResponse(
        {
            "run_id": run_id, "attempt": part.attempt, "text": text, "start": part.tail.end - len(text),
            "end": part.tail.end, "missing": part.missing + len(part.tail.text) - len(text), "complete": part.complete,
        },
    )  # fmt: skip
