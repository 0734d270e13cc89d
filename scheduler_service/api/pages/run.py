"""The page of one run: where its time went over all attempts, its error, progress, arguments, result, and why."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from itinerary.protocol.instants import Instant, parse_instant
from itinerary.protocol.trace_ids import trace_id_of
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.moments import SHAPES, Moment, moment, optional_moment, pretty, run_line
from scheduler_service.api.pages.reader_zone import follow_job_of
from scheduler_service.api.pages.run_bar import Durations, bar, durations
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Wrong, or_again
from scheduler_service.api.routes.explain import why_run
from scheduler_service.api.routes.runs import cancel_run, known_run, retried
from scheduler_service.core.attempts import Attempt
from scheduler_service.core.contract.progress_text import percent, progress_text
from scheduler_service.core.contract.run_json import attempts_of, run_body
from scheduler_service.core.explain.causes import cause
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import FINAL, WAITING, RunState
from scheduler_service.ports.history import Relatives

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)

_AGAIN_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Row:
    """An attempt in the table: its stored values, its instants as texts, and how long it waited and ran."""

    attempt: Attempt
    shape: str
    cause: str | None
    times: list[tuple[str, Moment | None]]
    took: Durations
    task_id: str

    @property
    def day(self) -> str | None:
        """Return the date of the first instant."""
        return next((at.exact[:10] for _, at in self.times if at is not None), None)


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
    follow_job_of(context.stores.jobs, run.job_id)
    now = context.clock()
    body = run_body(run, context.progress_of(run).get(run.run_id))
    attempts = attempts_of(run)
    reason = cause(run.reason)
    return {
        "run": run,
        "fair_key": body["fair_key"],
        "trace": _trace(context, run),
        "line": run_line(run, now),
        "reason": None if run.error is not None and reason == run.error.message else reason,
        "failed": run.error is not None and run.state in FINAL,
        "scheduled": moment(run.scheduled_at, now),
        "due": moment(run.due_at, now),
        "start_by": optional_moment(run.start_by, now),
        "finished": optional_moment(run.finished_at, now),
        "bar": bar(run, attempts, now),
        "attempts": list(_rows(run, attempts, now)),
        "relatives": _relatives(context, run),
        "shapes": SHAPES,
        "arguments": pretty({"args": body["args"], "kwargs": body["kwargs"]}),
        "run_headers": None if run.headers is None else pretty(body["headers"]),
        "result": None if run.result is None else pretty(body["result"]),
        "progress": body["progress"] and _progress(run, body["progress"], now),
        "reached": {n["attempt"]: progress_text(n["progress"]) for n in body["attempts"] if n["progress"]},
        "followed": f"{run.attempt}-{'ahead' if run.state in WAITING else 'begun'}",
        "completed": run.state is RunState.COMPLETED,
        "why": why_run(context, run.run_id),
    }


def _relatives(context: ApiContext, run: Run) -> Relatives:
    return context.stores.history.relatives(run.run_id, _AGAIN_SHOWN)


def _rows(run: Run, attempts: list[Attempt], now: Instant) -> Iterator[Row]:
    """The newest attempt first."""
    since: Instant | None = run.scheduled_at if run.attempts else run.due_at
    rows = []
    for attempt in attempts:
        stages = (
            ("Dispatched", attempt.pending_at), ("Published", attempt.published_at), ("Started", attempt.started_at),
            ("Finished", attempt.finished_at),
        )  # fmt: skip
        times = [(name, optional_moment(at, now)) for name, at in stages]
        shape = _shape(attempt.outcome)
        why = cause(attempt.reason) if attempt.reason != attempt.outcome else None
        task_id = f"{run.run_id}~{attempt.attempt}"
        rows.append(Row(attempt, shape, why, times, durations(attempt, since, now), task_id))
        since = attempt.finished_at
    yield from reversed(rows)


def _progress(run: Run, shown: Mapping[str, Any], now: Instant) -> dict[str, Any]:
    """Describe the progress; what a completed run showed last is no measure of it, since it is all done."""
    changed = moment(parse_instant(shown["at"]), now)
    reached = None if run.state is RunState.COMPLETED else percent(shown)
    return {"text": progress_text(shown), "percent": reached, "changed": changed}


def _trace(context: ApiContext, run: Run) -> dict[str, str | None]:
    """Return the run's trace, if the caller passed one or this process traces runs."""
    address = context.settings.trace_url
    if not (address or run.traceparent):
        return {"id": None, "url": None}
    trace_id = trace_id_of(run.run_id, run.traceparent)
    return {"id": trace_id, "url": address and address.replace("{trace_id}", trace_id)}


def _shape(outcome: str) -> str:
    return next((shape for state, shape in SHAPES.items() if state.value == outcome), "✕")
