"""The page of one run: its times and the intervals between them, attempts, arguments, result, and the explanation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from itinerary.protocol.instants import Duration, Instant, parse_instant
from itinerary.protocol.trace_ids import trace_id_of
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.moments import SHAPES, Moment, length, moment, pretty, run_line
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Wrong, or_again
from scheduler_service.api.routes.explain import why_run
from scheduler_service.api.routes.runs import cancel_run, known_run, retried
from scheduler_service.core.contract.progress_text import percent, progress_text
from scheduler_service.core.contract.run_json import run_body
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import RunState

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)

_STAGES: Final = (
    ("scheduled_at", "scheduled", "its planned time"),
    ("due_at", "due", "it may be dispatched"),
    ("pending_at", "released", "the leader moved it to pending"),
    ("published_at", "published", "the broker accepted its message"),
    ("started_at", "started", "a worker started it"),
    ("finished_at", "finished", "it was over"),
)
_BAR: Final = 1000


@dataclass(frozen=True, slots=True)
class Stage:
    """One instant of a run's life; `gap`: time since the previous one (negative: before it)."""

    name: str
    meaning: str
    at: Moment | None
    gap: str | None


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the bar above the stages, in thousandths of its width."""

    name: str
    x: int
    width: int
    text: str


@router.get("/runs/{run_id}")
def show_run(request: Request, context: Context, run_id: str) -> Response:
    """Show the run."""
    return _show(request, context, run_id)


def _show(request: Request, context: ApiContext, run_id: str, wrong: Wrong = NOTHING_WRONG) -> Response:
    run = known_run(context, run_id)
    return page(request, "run.html", wrong=wrong, **_view(context, run))


@router.post("/runs/{run_id}/cancel", dependencies=CHANGER)
def cancel(context: Context, who: Who, run_id: str) -> Response:
    """Request that the run never starts, or stops."""
    cancel_run(context, who, run_id)
    return go(f"/runs/{run_id}", "cancelled")


@router.post("/runs/{run_id}/retry", dependencies=CHANGER)
def retry(request: Request, context: Context, who: Who, run_id: str) -> Response:
    """Retry a final run, then go to the page of the new one."""
    return or_again(
        lambda: go(f"/runs/{retried(context, who, run_id).run_id}", "retried"),
        lambda wrong: _show(request, context, run_id, wrong),
        {},
    )


def _view(context: ApiContext, run: Run) -> dict[str, Any]:
    now = context.clock()
    body = run_body(run, context.progress_of(run).get(run.run_id))
    return {
        "run": run,
        "fair_key": body["fair_key"],
        "trace": _trace(context, run),
        "line": run_line(run, now),
        "stages": list(_stages(run, now)),
        "spans": list(_spans(run, now)),
        "attempts": [{**attempt, "shape": _shape(attempt["outcome"])} for attempt in body["attempts"]],
        "arguments": pretty({"args": body["args"], "kwargs": body["kwargs"]}),
        "result": None if run.result is None else pretty(body["result"]),
        "progress": body["progress"] and _progress(body["progress"], now),
        "completed": run.state is RunState.COMPLETED,
        "why": why_run(context, run.run_id),
    }


def _progress(shown: Mapping[str, Any], now: Instant) -> dict[str, Any]:
    changed = moment(parse_instant(shown["at"]), now)
    return {"text": progress_text(shown), "percent": percent(shown), "changed": changed}


def _trace(context: ApiContext, run: Run) -> dict[str, str | None]:
    """Return the run's trace, if the caller passed one or this process traces runs."""
    address = context.settings.trace_url
    if not (address or run.traceparent):
        return {"id": None, "url": None}
    trace_id = trace_id_of(run.run_id, run.traceparent)
    return {"id": trace_id, "url": address and address.replace("{trace_id}", trace_id)}


def _stages(run: Run, now: Instant) -> Iterator[Stage]:
    before: Instant | None = None
    for column, name, meaning in _STAGES:
        at: Instant | None = getattr(run, column)
        yield Stage(name, meaning, None if at is None else moment(at, now), _gap(before, at))
        before = before if at is None else at


def _gap(before: Instant | None, at: Instant | None) -> str | None:
    if before is None or at is None:
        return None
    return f"+{length(at - before)}" if at >= before else f"−{length(before - at)}"


def _spans(run: Run, now: Instant) -> Iterator[Span]:
    """Return the parts from due to the end: waiting for dispatch, for a worker, and running."""
    ends = (("held", run.due_at, run.pending_at), ("queued", run.pending_at, run.started_at))
    marks = [*ends, ("ran", run.started_at, run.finished_at)]
    known = [(name, start, end or now) for name, start, end in marks if start is not None and start <= now]
    if not known:
        return
    first, last = known[0][1], max(end for *_, end in known)
    whole: Duration = max(1, last - first)
    for name, start, end in known:
        taken = max(0, min(end, last) - start)
        x = max(0, _BAR * (start - first) // whole)
        yield Span(name, x, max(2, _BAR * taken // whole), f"{name}: {length(taken)}")


def _shape(outcome: str) -> str:
    return next((shape for state, shape in SHAPES.items() if state.value == outcome), "✕")
