"""The page of one queue: its history, its bounds, who listens, and what is in it. Only shows."""

from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from itinerary.protocol.instants import Instant, parse_duration
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.pages.live import read_live
from scheduler_service.api.pages.moments import RunLine, length, run_line
from scheduler_service.api.pages.queues import QueueLine, queue_line
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.pages.trends import CHOSEN, Window, shown_trends
from scheduler_service.api.pages.workers import WorkerLine, worker_line
from scheduler_service.api.routes.queues import seen
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.stores import RunFilter

_RUNS: Final = 10
_WORKERS: Final = 50
_IN_QUEUE: Final = (RunState.RUNNING, RunState.PENDING, RunState.RETRYING, RunState.SCHEDULED)

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue with its figures as the page words them, the workers that listen, and its newest runs that are not over.

    `workers` is None if no leader answers.
    """

    line: QueueLine
    lag: str | None
    oldest: str | None
    workers: list[WorkerLine] | None
    runs: list[RunLine]


@router.get("/queues/{queue}")
def show_queue(request: Request, context: Context, queue: str, window: Window = CHOSEN) -> Response:
    """Show one queue; every name that a queue can have is one."""
    view = _view(context, queue, context.clock())
    wrong, shown = shown_trends(request, context, window, queue)
    return page(request, "queue.html", wrong=wrong, view=view, queue=view.line.shown, **shown)


def _view(context: ApiContext, queue: str, now: Instant) -> QueueView:
    shown = seen(context, queue)
    live = read_live(context)
    listening = [worker_line(worker, now) for worker in live.workers if queue in worker["queues"]][:_WORKERS]
    runs = context.stores.runs.list(RunFilter(states=_IN_QUEUE, queue=queue), _RUNS, None)
    return QueueView(
        queue_line(shown, now), _age(shown, "lag"), _age(shown, "oldest_age"), listening if live.figures else None,
        [run_line(run, now) for run in runs.items],
    )  # fmt: skip


def _age(shown: dict[str, Any], name: str) -> str | None:
    return None if shown[name] is None else length(parse_duration(shown[name], name))
