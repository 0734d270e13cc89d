"""The list of runs, newest first: filtered by deep links, paged by key, acted on in bulk."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue
from scheduler_service.api.context import Context
from scheduler_service.api.pages.list_columns import Columns, read_columns
from scheduler_service.api.pages.moments import SHAPES, run_line
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.pages.totals import total_text
from scheduler_service.api.pages.typed_times import read_typed_time
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader
from scheduler_service.api.routes.jobs import Cursor
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Total
from scheduler_service.ports.stores import Page, RunFilter

_RUNS: Final = 50
_LABELS: Final = {
    "job_id": "Job", "queue": "Queue", "since": "From ({zone})", "until": "To ({zone})", "state": "States",
    "cursor": "Page of the list", "col": "Columns",
}  # fmt: skip
_COLUMNS: Final = {
    "scheduled": "Scheduled", "waited": "Started after", "took": "Took", "worker": "Worker", "reason": "Why",
    "task": "Task", "queue": "Queue", "attempt": "Attempt",
}  # fmt: skip
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
    request: Request,
    context: Context,
    job_id: Annotated[str, Query(max_length=128)] = "",
    state: Annotated[list[str] | None, Query()] = None,
    queue: Annotated[str, Query(max_length=128)] = "",
    since: Annotated[str, Query(max_length=40)] = "",
    until: Annotated[str, Query(max_length=40)] = "",
    col: Annotated[list[str] | None, Query()] = None,
    cursor: Cursor = None,
) -> Response:
    """List runs by their scheduled time."""
    reader, now = Reader(_LABELS), context.clock()
    states = tuple(filter(None, (reader.tried(partial(_state, name)) for name in state or () if name)))
    wanted = RunFilter(
        reader.tried(lambda: _text(job_id, "job_id")), states, reader.tried(lambda: _text(queue, "queue")),
        reader.tried(lambda: read_typed_time(since, "since", now)) if since else None,
        reader.tried(lambda: read_typed_time(until, "until", now)) if until else None,
    )  # fmt: skip
    reader.tried(lambda: _check_window(wanted, until))
    columns = reader.tried(lambda: read_columns(col or (), _COLUMNS, _USUAL)) or read_columns((), _COLUMNS, _USUAL)
    found = reader.tried(lambda: context.stores.runs.list(wanted, _RUNS, cursor))
    wrong = reader.wrong()
    listed = found if found is not None and wrong is NOTHING_WRONG else _EMPTY
    progress = context.progress_of(*listed.items)
    pairs = (
        ("job_id", job_id),
        *(("state", name) for name in state or ()),
        ("queue", queue),
        ("since", since),
        ("until", until),
    )
    asked = [(name, value) for name, value in pairs if value]
    here = [*asked, *columns.pairs()]
    total = context.stores.history.count_runs(wanted) if listed.items else Total(0, False)
    return page(
        request, "runs.html", wrong=wrong,
        runs=[run_line(run, now, progress.get(run.run_id)) for run in listed.items], job_id=job_id,
        queue=queue, since=since, until=until, states=[(s.value, SHAPES[s], s in states) for s in RunState],
        filtered=bool(asked), asked=asked, first=urlencode(here) if cursor else None,
        following=urlencode([*here, ("cursor", listed.next_cursor)]) if listed.next_cursor else None,
        total=total_text(len(listed.items), total, "runs"), matching=matching_text(total, len(listed.items)),
        columns=columns, presets=_presets(asked, columns),
    )  # fmt: skip


def matching_text(total: Total, shown: int) -> str:
    """Return how many match: `3,120`, `more than 10,000`."""
    return f"more than {total.number:,}" if total.more else f"{max(total.number, shown):,}"


def _presets(asked: Sequence[tuple[str, str]], columns: Columns) -> list[Preset]:
    return [
        Preset(name, urlencode([*pairs, *columns.pairs()]), sorted(pairs) == sorted(asked)) for name, pairs in _PRESETS
    ]


def _text(text: str, field: str) -> str | None:
    return read_text(text, field) or None


def _check_window(wanted: RunFilter, until: str) -> None:
    if wanted.since is not None and wanted.until is not None and wanted.until <= wanted.since:
        raise BadValue("until", until, f"give a time after {_LABELS['since']}")


def _state(name: str) -> RunState:
    try:
        return RunState(name)
    except ValueError:
        raise BadValue("state", name, f"known are {', '.join(state.value for state in RunState)}") from None
