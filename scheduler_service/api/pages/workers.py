"""Workers and queues as the leader knows them. Only shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from itinerary.protocol.instants import Instant, parse_instant
from scheduler_service.api.context import Context
from scheduler_service.api.pages.live import issues, read_live
from scheduler_service.api.pages.moments import Moment, length, moment
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.pages.trends import CHOSEN, Window, shown_trends

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """A worker; `busy` of its `places` are taken."""

    name: str
    alive: bool
    last_seen: Moment
    places: int
    busy: int
    queues: list[str]
    running: list[str]
    version: str | None
    since: Moment | None
    tasks: int | None


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue: `depth` runs are dispatched and not started, the oldest since `age`; `lag`: how long one is overdue."""

    name: str
    depth: int
    age: str | None
    lag: str | None
    workers: int


@router.get("/workers")
def show_workers(request: Request, context: Context, window: Window = CHOSEN) -> Response:
    """Show the workers, their runs, the queues, and how many there were."""
    now = context.clock()
    live = read_live(context)
    wrong, shown = shown_trends(request, context, window, of_workers=True)
    return page(
        request, "workers.html", wrong=wrong, **shown, answers=bool(live.figures),
        workers=[worker_line(w, now) for w in live.workers],
        queues=[_queue(q, now) for q in live.queues], issues=list(issues(live, now)),
    )  # fmt: skip


def worker_line(worker: Mapping[str, Any], now: Instant) -> WorkerLine:
    """Describe a worker of the leader's figures as seen from `now`."""
    running = [str(run_id) for run_id in worker["running"]]
    return WorkerLine(
        worker["name"], worker["alive"], moment(parse_instant(worker["last_seen_at"]), now), worker["concurrency"],
        len(running), list(worker["queues"]), running, worker.get("version"),
        None if worker.get("since") is None else moment(parse_instant(worker["since"]), now), worker.get("tasks"),
    )  # fmt: skip


def _queue(queue: Mapping[str, Any], now: Instant) -> QueueLine:
    oldest = queue["oldest_pending_at"]
    age = None if oldest is None else length(now - parse_instant(oldest))
    due = queue.get("oldest_due_at")
    lag = None if due is None else length(now - parse_instant(due))
    return QueueLine(queue["name"], queue["pending"], age, lag, queue["workers"])
