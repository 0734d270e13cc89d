"""What the first page shows, gathered from the stores and the leader as plain values for the template."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from scheduler_service.api.context import ApiContext
from scheduler_service.api.previews import next_runs
from scheduler_service.api.routes_scheduler import status_body
from scheduler_service.core.balancer import needs_place
from scheduler_service.core.errors import StoreUnavailable
from scheduler_service.core.instants import SECOND, Instant, format_instant, parse_instant
from scheduler_service.core.model import Job, Run
from scheduler_service.core.relative import relative, rough
from scheduler_service.core.run_state import RunState
from scheduler_service.core.words import describe
from scheduler_service.ports import RunFilter

_JOBS: Final = 50
_RUNS: Final = 25
_LATE_AFTER: Final = 5 * SECOND
SHAPES: Final = {
    RunState.SCHEDULED: "○", RunState.PENDING: "◔", RunState.RUNNING: "●", RunState.RETRYING: "↻",
    RunState.COMPLETED: "✓", RunState.FAILED: "✕", RunState.CANCELLED: "⊘", RunState.SKIPPED: "»", RunState.MISSED: "!",
}  # fmt: skip
"""A shape beside each colour, so that nobody needs to tell colours apart."""


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant as a page shows it: relative words, and the exact time behind them."""

    iso: str
    words: str


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job of the list."""

    job_id: str
    title: str
    task: str
    schedule: str
    next_run: Moment | None
    paused: bool
    pause_reason: str | None
    to_be_placed: bool


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run of the list."""

    run_id: str
    state: str
    shape: str
    scheduled: Moment
    waited: str | None
    took: str | None
    worker: str | None
    reason: str | None
    task_id: str


@dataclass(frozen=True, slots=True)
class Overview:
    """The first page; `trouble` says what stops us from seeing more."""

    now: Moment
    status: Mapping[str, Any]
    since: Moment | None
    late: Moment | None
    counts: list[tuple[str, str, int]]
    jobs: list[JobLine]
    more_jobs: bool
    runs: list[RunLine]
    trouble: list[str]


def overview(context: ApiContext) -> Overview:
    """Everything that the first page shows, as of now."""
    now = context.clock()
    try:
        status = status_body(context)
        counts = context.stores.runs.counts()
        jobs = context.stores.jobs.list(tag=None, text=None, paused=None, limit=_JOBS, cursor=None)
        runs = context.stores.runs.list(RunFilter(until=now + SECOND), _RUNS, None)
    except StoreUnavailable:
        return Overview(_moment(now, now), {}, None, None, [], [], False, [], ["The database does not answer."])
    late = _parsed(status["oldest_due_at"])
    return Overview(
        now=_moment(now, now),
        status=status,
        since=_optional_moment(_parsed(status["since"]), now),
        late=_optional_moment(late if late is not None and now - late > _LATE_AFTER else None, now),
        counts=[(s.value, SHAPES[s], counts.get(s, 0)) for s in RunState if s in _SHOWN],
        jobs=[_job_line(job, now) for job in jobs.items],
        more_jobs=jobs.next_cursor is not None,
        runs=[_run_line(run, now) for run in runs.items],
        trouble=_trouble(status),
    )


_SHOWN: Final = (RunState.SCHEDULED, RunState.PENDING, RunState.RUNNING, RunState.RETRYING)


def flower_url(context: ApiContext, own_url: str) -> str:
    """Where Flower listens, as the browser that asked for `own_url` would reach it."""
    host = urlsplit(own_url).hostname or "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{context.settings.flower_port}"


def _trouble(status: Mapping[str, Any]) -> list[str]:
    found = []
    if status["inbox_depth"] is None:
        found.append("Redis does not answer: nothing can be handed to the workers.")
    if status["leader"] is None:
        found.append("Nobody leads: start a leader with itinerary leader.")
    elif status["active_runs"] is None:
        found.append("The leader does not answer within a second.")
    elif status["workers"] == 0:
        found.append("No worker is heard: start one with itinerary worker.")
    return found


def _job_line(job: Job, now: Instant) -> JobLine:
    upcoming = next_runs(job, now, 1)
    next_run = parse_instant(upcoming[0]) if upcoming else None
    return JobLine(
        job.job_id, job.title, job.task, describe(job.schedule), _optional_moment(next_run, now), job.paused,
        job.pause_reason, needs_place(job),
    )  # fmt: skip


def _run_line(run: Run, now: Instant) -> RunLine:
    ended = run.finished_at if run.finished_at is not None else now
    took = ended - run.started_at if run.started_at is not None else None
    waited = run.started_at - run.due_at if run.started_at is not None else None
    return RunLine(
        run.run_id, run.state.value, SHAPES[run.state], _moment(run.scheduled_at, now), _milliseconds(waited),
        _milliseconds(took), run.worker, run.reason or (run.error.message if run.error else None),
        f"{run.run_id}~{run.attempt}",
    )  # fmt: skip


def _milliseconds(duration: int | None) -> str | None:
    if duration is None:
        return None
    return f"{max(0, duration) // 1000} ms" if duration < SECOND else rough(duration)


def _moment(instant: Instant, now: Instant) -> Moment:
    return Moment(format_instant(instant), relative(instant, now))


def _optional_moment(instant: Instant | None, now: Instant) -> Moment | None:
    return None if instant is None else _moment(instant, now)


def _parsed(text: str | None) -> Instant | None:
    return None if text is None else parse_instant(text)
