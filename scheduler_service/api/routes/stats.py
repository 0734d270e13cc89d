"""Trends over HTTP: what leaders counted, minute by minute. Only reads, and waits for no leader."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import NotFound
from itinerary.protocol.identity import QUEUE
from itinerary.protocol.instants import HOUR, Duration, format_duration, format_instant, parse_duration, parse_instant
from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import require
from scheduler_service.api.openapi.documents import answers
from scheduler_service.api.openapi.parameters import AS_DURATION, AS_TIME, text
from scheduler_service.api.openapi.trend_shapes import TrendsOut
from scheduler_service.api.services.trends import chosen_step, trends
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.samples import QueueSample, Sample, delay_quantile

router = APIRouter(prefix="/api/v1/stats", tags=["scheduler"], dependencies=[Depends(require("viewer"))])


AS_STEP: Final = "Whole minutes, such as 10m; shorter ones reach back two days."


@router.get("/trends", responses=answers({200: TrendsOut}, 404, 422))
def get_trends(
    context: Context,
    since: Annotated[
        str | None, Query(alias="from", description="An hour ago if not given.", json_schema_extra=AS_TIME)
    ] = None,
    until: Annotated[str | None, Query(alias="to", description="Now if not given.", json_schema_extra=AS_TIME)] = None,
    step: Annotated[str | None, text(40, AS_STEP, AS_DURATION)] = None,
    queue: Annotated[str | None, text(128, "Only this queue.")] = None,
) -> Response:
    """Trends of the last 30 days: delays, throughput, lag, workers; a step in which nobody led is absent."""
    end = context.clock() if until is None else parse_instant(until, "to")
    start = end - HOUR if since is None else parse_instant(since, "from")
    length = chosen_step(end - start) if step is None else parse_duration(step, "step")
    if queue is not None and not QUEUE.fullmatch(read_text(queue, "queue")):
        raise NotFound("no queue with such a name")
    seen = trends(context, start, end, length)
    points = [_point(sample, queue) for sample in seen.samples.values()]
    marks = [{"at": format_instant(mark.at), "kind": mark.kind, "text": mark.text} for mark in seen.marks]
    return JSONResponse({
        "from": format_instant(seen.since), "to": format_instant(seen.until), "step": format_duration(seen.step),
        "queue": queue, "points": points, "marks": marks,
    })  # fmt: skip


def _point(sample: Sample, queue: str | None) -> dict[str, Any]:
    of_all = queue is None
    one = sample.total if queue is None else sample.queues.get(queue, QueueSample())
    delays = [delay_quantile(sample.delays, share) if of_all else None for share in (0.5, 0.99)]
    return {
        "at": format_instant(sample.at), "term": sample.term, "started": one.started, "completed": one.completed,
        "failed": one.failed, "missed": one.missed, "pending": one.pending, "running": one.running,
        "lag": format_duration(one.lag), "dispatch_delay_p50": _text(delays[0]), "dispatch_delay_p99": _text(delays[1]),
        "workers": sample.workers if of_all else None,
        "inbox_lag": format_duration(sample.inbox_lag) if of_all else None,
    }  # fmt: skip


def _text(duration: Duration | None) -> str | None:
    return None if duration is None else format_duration(duration)
