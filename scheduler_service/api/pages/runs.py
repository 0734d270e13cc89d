"""The list of runs: filtered and sorted by deep links, paged by key, acted on in bulk."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from scheduler_service.api.context import Context
from scheduler_service.api.pages.list_columns import read_columns
from scheduler_service.api.pages.list_sorting import Sort, Sorting
from scheduler_service.api.pages.moments import SHAPES, run_line
from scheduler_service.api.pages.run_filters import RUN_LABELS, RunsFilter
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.pages.totals import total_text
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader
from scheduler_service.api.routes.jobs import Cursor
from scheduler_service.api.services.list_orders import read_order
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Total
from scheduler_service.ports.lists import NEWEST_FIRST, Page, RunSort

_RUNS: Final = 50
_LABELS: Final = {**RUN_LABELS, "cursor": "Page of the list", "col": "Columns", "sort": "Sort"}
_COLUMNS: Final = {
    "scheduled": "Scheduled", "due": "Due", "started": "Started", "waited": "Started after", "finished": "Finished",
    "took": "Took", "worker": "Worker", "reason": "Why", "task": "Task", "queue": "Queue", "attempt": "Attempt",
}  # fmt: skip
_SORTS: Final = (
    Sort(RunSort.SCHEDULED_AT, "scheduled", "Scheduled", "oldest first", "newest first"),
    Sort(RunSort.DUE_AT, "due", "Due", "oldest first", "newest first"),
    Sort(RunSort.STARTED_AT, "started", "Started", "oldest first", "newest first"),
    Sort(RunSort.FINISHED_AT, "finished", "Finished", "oldest first", "newest first"),
    Sort(RunSort.DURATION, "took", "Took", "shortest first", "longest first"),
)
_USUAL: Final = ("scheduled", "waited", "took", "worker", "reason")
_PRESETS: Final = (
    ("Last hour", (("since", "1h"), ("until", "now"))),
    ("Today", (("since", "today"), ("until", "now"))),
    ("Failed", (("state", "failed"), ("since", "24h"))),
    ("Running", (("state", "running"), ("state", "pending"))),
    ("Waiting", (("state", "scheduled"), ("state", "retrying"))),
)

_EMPTY: Final[Page[Run]] = Page([], None)

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Preset:
    """A filter that is one click away."""

    name: str
    link: str
    on: bool


@router.get("/runs")
def list_runs(
    request: Request, context: Context, asked: RunsFilter, col: Annotated[list[str] | None, Query()] = None,
    sort: Annotated[str, Query(max_length=40)] = "", cursor: Cursor = None,
) -> Response:  # fmt: skip
    """List runs by their scheduled time, or sorted otherwise."""
    reader, now = Reader(_LABELS), context.clock()
    wanted = asked.read(reader, now)
    order = reader.tried(lambda: read_order(sort or None, NEWEST_FIRST)) or NEWEST_FIRST
    sorting = Sorting(order, NEWEST_FIRST, _SORTS)
    columns = reader.tried(lambda: read_columns(col or (), _COLUMNS, _USUAL)) or read_columns((), _COLUMNS, _USUAL)
    columns = replace(columns, added=sorting.column if sorting.pairs() else None)
    found = reader.tried(lambda: context.stores.runs.list(wanted, _RUNS, cursor, order))
    wrong = reader.wrong()
    listed = found if found is not None and wrong is NOTHING_WRONG else _EMPTY
    progress = context.progress_of(*listed.items)
    pairs = asked.pairs()
    unsorted = [*pairs, *columns.pairs()]
    here = [*unsorted, *sorting.pairs()]
    total = context.stores.history.count_runs(wanted) if listed.items else Total(0, False)
    states = [(state.value, SHAPES[state], state in wanted.states) for state in RunState]
    return page(
        request, "runs.html", wrong=wrong, asked=asked, pairs=pairs,
        runs=[run_line(run, now, progress.get(run.run_id)) for run in listed.items],
        states=states, first=urlencode(here) if cursor else None, columns=columns,
        presets=_presets(pairs, [*columns.pairs(), *sorting.pairs()]), sorting=sorting,
        headings=sorting.headings("/runs", unsorted), in_parts=order.by is not RunSort.SCHEDULED_AT and total.more,
        following=urlencode([*here, ("cursor", listed.next_cursor)]) if listed.next_cursor else None,
        total=total_text(len(listed.items), total, "runs"), matching=matching_text(total, len(listed.items)),
    )  # fmt: skip


def matching_text(total: Total, shown: int) -> str:
    """Return how many match: `3,120`, `more than 10,000`."""
    return f"more than {total.number:,}" if total.more else f"{max(total.number, shown):,}"


def _presets(asked: Sequence[tuple[str, str]], shown: Sequence[tuple[str, str]]) -> list[Preset]:
    return [Preset(name, urlencode([*pairs, *shown]), sorted(pairs) == sorted(asked)) for name, pairs in _PRESETS]
