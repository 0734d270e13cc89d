"""Downloads of lists: all that a filter finds, streamed page by page, as CSV or as a JSON array.

Promises a memory of one page, however much there is, and that no cell of the CSV is taken for a formula. A download
that breaks off is not a valid JSON text, and ends its connection without the last chunk.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from typing import Any, Final, TypeVar

from starlette.responses import StreamingResponse

from scheduler_service.api.context import ApiContext
from scheduler_service.core.contract.job_json import shown_body
from scheduler_service.core.contract.run_json import run_body
from scheduler_service.ports.lists import JobFilter, Page, RunFilter

T = TypeVar("T")
AT_ONCE: Final = 500
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_RUN_COLUMNS: Final = (
    "run_id", "job_id", "task", "queue", "state", "attempt", "scheduled_at", "due_at", "started_at", "finished_at",
    "worker", "reason", "error", "retry_of",
)  # fmt: skip
_JOB_COLUMNS: Final = (
    "job_id", "title", "task", "queue", "schedule", "tags", "paused", "pause_reason", "paused_until", "source",
    "version",
)  # fmt: skip


class ExportFormat(StrEnum):
    """The form of a download."""

    CSV = "csv"
    JSON = "json"


def export_runs(context: ApiContext, wanted: RunFilter, form: ExportFormat) -> StreamingResponse:
    """Stream the runs that match, newest first, without their attempts."""
    found = _all(lambda cursor: context.stores.runs.list(wanted, AT_ONCE, cursor))
    return _answer("runs", form, _RUN_COLUMNS, ([run_body(run) for run in page] for page in found))


def export_jobs(context: ApiContext, wanted: JobFilter, form: ExportFormat) -> StreamingResponse:
    """Stream the jobs that match, by id."""
    found = _all(lambda cursor: context.stores.jobs.list(wanted, AT_ONCE, cursor))
    return _answer("jobs", form, _JOB_COLUMNS, ([shown_body(job) for job in page] for page in found))


def _all(fetch: Callable[[str | None], Page[T]]) -> Iterator[list[T]]:
    """Fetch the first page at once, so that an error of it has a status; the others as they are sent."""
    page = fetch(None)
    return chain([page.items], _later(fetch, page.next_cursor))


def _later(fetch: Callable[[str | None], Page[T]], cursor: str | None) -> Iterator[list[T]]:
    while cursor is not None:
        page = fetch(cursor)
        yield page.items
        cursor = page.next_cursor


def _answer(
    name: str, form: ExportFormat, columns: tuple[str, ...], pages: Iterable[list[dict[str, Any]]]
) -> StreamingResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"', "Cache-Control": "no-store"}
    if form is ExportFormat.CSV:
        return StreamingResponse(_as_csv(columns, pages), media_type="text/csv; charset=utf-8", headers=headers)
    return StreamingResponse(_as_json(pages), media_type="application/json", headers=headers)


def _as_csv(columns: tuple[str, ...], pages: Iterable[list[dict[str, Any]]]) -> Iterator[str]:
    yield _lines([columns])
    for page in pages:
        yield _lines([_cell(row, name) for name in columns] for row in page)


def _lines(rows: Iterable[Iterable[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _cell(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if name == "error" and value is not None:
        value = f"{value['type']}: {value['message']}"
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # A spreadsheet would carry out what begins like a formula, also in a message of a task.
    return f"'{text}" if text.startswith(_FORMULA) else text


def _as_json(pages: Iterable[list[dict[str, Any]]]) -> Iterator[str]:
    between = "[\n"
    for page in pages:
        for row in page:
            yield between + json.dumps(row, ensure_ascii=False)
            between = ",\n"
    yield "\n]\n" if between == ",\n" else "[]\n"
