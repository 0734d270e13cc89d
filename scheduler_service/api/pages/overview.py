"""The first page: the leader, running and next runs, and alerts. Only shows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.instants import DAY, HOUR, SECOND, Instant, parse_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.pages.charts import Health, health
from scheduler_service.api.pages.live import TROUBLES, Issue, Live, issues, read_live
from scheduler_service.api.pages.missed_ranges import missed_ranges_text
from scheduler_service.api.pages.moments import SHAPES, Moment, RunLine, length, moment, run_line
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.pages.trends import CHOSEN, Window, shown_trends
from scheduler_service.api.services.previews import next_runs
from scheduler_service.core.balancing.balancer import needs_place
from scheduler_service.core.model import Job
from scheduler_service.core.run_state import ACTIVE, RunState
from scheduler_service.ports.stores import JobFilter, RunFilter

_JOBS: Final = 200
_COMING: Final = 10
_IDLE: Final = 50
_RUNS: Final = 10
_RUNNING: Final = 10
_SAMPLE: Final = 2000
_MOST_COUNTED: Final = 10_000

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Coming:
    """A planned run."""

    job_id: str
    at: Moment


@dataclass(frozen=True, slots=True)
class Overview:
    """The values that the page shows."""

    live: Live
    since: Moment | None
    last_seen: Moment | None
    lag: str | None
    lag_note: str
    workers: int | None
    counts: list[tuple[str, str, str]]
    health: Health
    running: list[RunLine]
    coming: list[Coming]
    runs: list[RunLine]
    issues: list[Issue]
    has_jobs: bool


@router.get("/")
def first_page(request: Request, context: Context, window: Window = CHOSEN) -> Response:
    """Show the leader, trends, running runs, next runs."""
    try:
        wrong, shown = shown_trends(request, context, window)
        return page(request, "overview.html", wrong=wrong, seen=overview(context), **shown)
    except StoreUnavailable:
        return page(request, "overview.html", seen=None)


def overview(context: ApiContext) -> Overview:
    """Collect everything that the page shows, as of now."""
    now, stores = context.clock(), context.stores
    live = read_live(context)
    jobs = stores.jobs.list(JobFilter(), _JOBS, None)
    all_jobs = jobs.next_cursor is None
    running = stores.runs.list(RunFilter(states=(RunState.RUNNING,)), _RUNNING, None)
    progress = context.progress_of(*running.items)
    latest = stores.runs.list(RunFilter(until=now + SECOND), _RUNS, None)
    troubles = stores.history.troubles(now - HOUR, TROUBLES)
    counts = stores.history.active_counts(_MOST_COUNTED)
    planned = {job.job_id: _next(job, now) for job in jobs.items}
    return Overview(
        live=live,
        since=live.since(now),
        last_seen=live.last_seen(now),
        lag=lag_text(live, now),
        lag_note=lag_note(live, now),
        workers=sum(worker["alive"] for worker in live.workers) if live.figures else None,
        counts=[(state.value, SHAPES[state], _count(counts[state])) for state in RunState if state in ACTIVE],
        health=health(stores.history.latest(now - DAY, now, _SAMPLE), _SAMPLE, now),
        running=[run_line(run, now, progress.get(run.run_id)) for run in running.items],
        coming=_coming(planned if all_jobs else {}, live, now),
        runs=[run_line(run, now) for run in latest.items],
        issues=[
            *issues(live, troubles, now),
            *_left_out(context, now),
            *_late_ends(context, now),
            *_unreported(context),
            *_idle(context, jobs.items, planned, now),
        ],
        has_jobs=bool(jobs.items),
    )


def lag_text(live: Live, now: Instant) -> str | None:
    """Say how far the queues with workers are behind; alerts name queues without one."""
    if not live.figures:
        return None
    return length(max((lag.behind for lag in live.lags(now) if lag.served), default=0))


def lag_note(live: Live, now: Instant) -> str:
    """Name the queue of the lag, or count the queues with overdue runs and no worker."""
    lags = live.lags(now)
    served = [lag for lag in lags if lag.served]
    if served and served[0].behind >= SECOND:
        return f"in {served[0].queue}"
    orphans = len(lags) - len(served)
    return f"{orphans} without worker" if orphans else "overdue"


def _count(count: int) -> str:
    return f"{count:,}" + ("+" if count >= _MOST_COUNTED else "")


def _next(job: Job, now: Instant) -> Instant | None:
    found = next_runs(job, now, 1)
    return parse_instant(found[0]) if found else None


def _coming(planned: dict[str, Instant | None], live: Live, now: Instant) -> list[Coming]:
    """Return the jobs that run next within a day: each job if there are few, else from the leader's index."""
    upcoming: Sequence[Any] = live.figures.get("upcoming", ())
    found = {str(run["job_id"]): parse_instant(run["scheduled_at"]) for run in reversed(upcoming)}
    found |= {job_id: at for job_id, at in planned.items() if at is not None}
    soon = sorted((at, job_id) for job_id, at in found.items() if now <= at < now + DAY)
    return [Coming(job_id, moment(at, now)) for at, job_id in soon[:_COMING]]


def _left_out(context: ApiContext, now: Instant) -> Iterator[Issue]:
    missed_ranges = context.stores.history.missed_ranges(now - HOUR, TROUBLES)
    message = missed_ranges_text(missed_ranges)
    if message:
        more = " or more" if len(missed_ranges) == TROUBLES else ""
        yield Issue(f"{message}{more} left out in the last hour.", "/failures?within=1h#gaps")


def _late_ends(context: ApiContext, now: Instant) -> Iterator[Issue]:
    """Describe runs that missed their SLA."""
    missed = context.stores.history.sla_misses(now - DAY, TROUBLES)
    if missed:
        more = " or more" if len(missed) == TROUBLES else ""
        count = f"{len(missed)}{more} runs missed their SLA" if len(missed) > 1 else "1 run missed its SLA"
        yield Issue(f"{count} (must_end_within) in the last day.", f"/runs/{quote(missed[0].run_id, safe='')}")


def _unreported(context: ApiContext) -> Iterator[Issue]:
    """Describe notifications that were given up."""
    backlog = context.stores.outbox.backlog() if context.settings.notify_topics else None
    if backlog is not None and backlog.dead:
        count = f"{backlog.dead} {'notification was' if backlog.dead == 1 else 'notifications were'}"
        yield Issue(f"{count} given up, the last for {backlog.last_dead}; then itinerary notify retry.")


def _idle(
    context: ApiContext, jobs: Sequence[Job], planned: dict[str, Instant | None], now: Instant
) -> Iterator[Issue]:
    """Name jobs that have no next run, are not paused and never ran; a job meant to run once that ran is not named."""
    still = [job.job_id for job in jobs if planned[job.job_id] is None and not job.paused and not needs_place(job)]
    ran = context.stores.history.latest_of(still[:_IDLE], now, 1)
    never = [job_id for job_id in still[:_IDLE] if not ran[job_id]]
    if never:
        names = ", ".join(never[:3]) + (f" and {len(never) - 3} more" if len(never) > 3 else "")
        yield Issue(f"Never ran, and never will: {names}.", f"/jobs/{never[0]}")
