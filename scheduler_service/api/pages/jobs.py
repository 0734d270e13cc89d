"""The list of jobs: filtered and sorted by deep links, with figures of each job's last runs, acted on in bulk."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.instants import Instant, parse_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.pages.charts import Health, RunChart, health, spark
from scheduler_service.api.pages.list_columns import read_columns
from scheduler_service.api.pages.list_sorting import Sort, Sorting
from scheduler_service.api.pages.moments import SHAPES, Moment, moment, optional_moment
from scheduler_service.api.pages.run_filters import JOB_LABELS, JobsFilter
from scheduler_service.api.pages.runs import matching_text
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.pages.totals import total_text
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader
from scheduler_service.api.routes.jobs import Cursor
from scheduler_service.api.services.list_orders import read_order
from scheduler_service.api.services.previews import next_runs
from scheduler_service.core.balancing.balancer import needs_place
from scheduler_service.core.contract.job_words import job_sentence
from scheduler_service.core.model import Job
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Outcome, Total
from scheduler_service.ports.lists import BY_ID, MOST_BY_LAST_RUN, MOST_BY_NEXT_RUN, JobSort, Page

_JOBS: Final = 50
_SPARK: Final = 30
_LABELS: Final = {**JOB_LABELS, "cursor": "Page of the list", "col": "Columns", "sort": "Sort"}
_COLUMNS: Final = {
    "schedule": "Schedule", "next": "Next", "last": "Last", "success": "Success", "p50": "Took (median)",
    "p95": "Took (p95)", "runs": f"Last {_SPARK} runs", "task": "Task", "queue": "Queue", "tags": "Tags",
    "source": "Source",
}  # fmt: skip
_USUAL: Final = ("schedule", "next", "last", "success", "p50", "p95", "runs")

_SORTS: Final = (
    Sort(JobSort.JOB_ID, "job", "Job", "by its id", "by its id, from the end", first_falls=False),
    Sort(JobSort.NEXT_RUN, "next", "Next run", "soonest first", "latest first", first_falls=False),
    Sort(JobSort.LAST_RUN, "last", "Last run", "oldest first", "newest first"),
    Sort(JobSort.LAST_STATE, "last", "Last state", "worst first", "best first", first_falls=False),
)

_EMPTY: Final[Page[Job]] = Page([], None)

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run that was due."""

    run_id: str
    state: str
    shape: str
    at: Moment


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job in the list; `figures` are those of the runs of its chart."""

    job_id: str
    title: str
    task: str
    queue: str
    source: str | None
    tags: tuple[str, ...]
    schedule: str
    next_run: Moment | None
    next_text: str
    paused: bool
    pause_reason: str | None
    last: LastRun | None
    spark: RunChart
    figures: Health


@router.get("/jobs")
def list_jobs(
    request: Request, context: Context, asked: JobsFilter, col: Annotated[list[str] | None, Query()] = None,
    sort: Annotated[str, Query(max_length=40)] = "", cursor: Cursor = None,
) -> Response:  # fmt: skip
    """List jobs by id, or sorted otherwise, with the results of their last runs."""
    reader = Reader(_LABELS)
    wanted = asked.read(reader)
    order = reader.tried(lambda: read_order(sort or None, BY_ID)) or BY_ID
    columns = reader.tried(lambda: read_columns(col or (), _COLUMNS, _USUAL)) or read_columns((), _COLUMNS, _USUAL)
    found = reader.tried(lambda: context.stores.jobs.list(wanted, _JOBS, cursor, order))
    wrong = reader.wrong()
    listed = found if found is not None and wrong is NOTHING_WRONG else _EMPTY
    total = context.stores.history.count_jobs(wanted) if listed.items else Total(0, False)
    pairs = asked.pairs()
    sorting = Sorting(order, BY_ID, [sort for sort in _SORTS if sort.by is order.by or _sorts(sort.by, total)])
    columns = replace(columns, added=sorting.column if sorting.pairs() else None)
    unsorted = [*pairs, *columns.pairs()]
    here = [*unsorted, *sorting.pairs()]
    return page(
        request, "jobs.html", wrong=wrong, jobs=job_lines(context, listed.items), asked=asked, pairs=pairs,
        total=total_text(len(listed.items), total, "jobs"), matching=matching_text(total, len(listed.items)),
        following=urlencode([*here, ("cursor", listed.next_cursor)]) if listed.next_cursor else None,
        first=urlencode(here) if cursor else None, columns=columns, sorting=sorting,
        headings=sorting.headings("/jobs", unsorted),
        states=[(state.value, SHAPES[state], state in wanted.last_states) for state in RunState],
    )  # fmt: skip


def _sorts(sort: JobSort, total: Total) -> bool:
    """Whether so many jobs can be sorted by this value."""
    most = {
        JobSort.NEXT_RUN: MOST_BY_NEXT_RUN,
        JobSort.LAST_RUN: MOST_BY_LAST_RUN,
        JobSort.LAST_STATE: MOST_BY_LAST_RUN,
    }
    return sort not in most or (total.number <= most[sort] and not total.more)


def job_lines(context: ApiContext, jobs: Sequence[Job]) -> list[JobLine]:
    """Return the lines of these jobs."""
    now = context.clock()
    latest = context.stores.history.latest_of([job.job_id for job in jobs], now, _SPARK)
    return [_line(job, latest[job.job_id], now) for job in jobs]


def _line(job: Job, newest_first: Sequence[Outcome], now: Instant) -> JobLine:
    found = next_runs(job, now, 1)
    return JobLine(
        job.job_id, job.title, job.task, job.queue, job.source, job.tags, job_sentence(job),
        moment(parse_instant(found[0]), now) if found else None,
        "being placed" if needs_place(job) else "never again", job.paused, job.pause_reason,
        last_run(newest_first, now), spark(newest_first, _SPARK), health(newest_first, _SPARK, now),
    )  # fmt: skip


def last_run(newest_first: Sequence[Outcome], now: Instant) -> LastRun | None:
    """Return the newest of these runs."""
    if not newest_first:
        return None
    run = newest_first[0]
    at = optional_moment(run.finished_at, now) or moment(run.scheduled_at, now)
    return LastRun(run.run_id, run.state.value, SHAPES[run.state], at)
