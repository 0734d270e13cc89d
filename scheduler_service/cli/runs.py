"""`itinerary runs ...`: history, watch, and the commands of bulk_runs; through the API, never in the database."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from scheduler_service.cli.bulk_runs import cancel, delete, move, retry
from scheduler_service.cli.connect import after, open_client
from scheduler_service.cli.listing import Form, Output, print_list
from scheduler_service.cli.progress import counted, progress_bar
from scheduler_service.cli.run_again import run_again
from scheduler_service.cli.run_filters import RUN_FILTERS, JobFilter, StateFilter, run_filters
from scheduler_service.cli.shared_options import with_options
from scheduler_service.cli.status import Json

if TYPE_CHECKING:
    from itinerary.client.sync import Client

_SHOWN: Final = 200

runs = typer.Typer(help="Runs: past, present and coming.", no_args_is_help=True)

RunId = Annotated[str, typer.Argument(help="The run's id.", show_default=False)]
Sort = Annotated[
    str | None,
    typer.Option(help="scheduled_at, due_at, started_at, finished_at or duration; -duration: the longest first."),
]
Limit = Annotated[int, typer.Option(help="How many.", min=1, max=1000)]
All = Annotated[bool, typer.Option("--all", help="All of them, page by page.")]


@runs.command("list")
@with_options(RUN_FILTERS)
def list_runs(
    sort: Sort = None, limit: Limit = 30, everything: All = False, as_json: Json = False, output: Output = Form.TABLE,
    **given: Any,
) -> None:  # fmt: skip
    """List runs, newest first or in another order; with the error of those that failed."""
    from scheduler_service.cli.output import print_json, print_more

    filters, job = run_filters(given), given["job"]
    with open_client() as client:
        if everything:
            found = client.all_runs(**filters, sort=sort)
            page: Any = {"items": list(counted(found, "reading runs")), "next_cursor": None}
        else:
            total = None if as_json or output is Form.JSON else True
            page = client.runs(limit=limit, total=total, sort=sort, **filters)
        if job is not None and not page["items"] and not client.runs(job_id=job, limit=1)["items"]:
            client.job(job)  # the API reports an unknown id
    if as_json or output is Form.JSON:
        print_json(page)
    else:
        _print_runs(page["items"], output, filtered=any(one is not None for one in filters.values()))
        print_more(len(page["items"]), page, "runs")


@runs.command("show")
def show(run_id: RunId, as_json: Json = False) -> None:
    """One run with its attempts."""
    with open_client() as client:
        _print_run(client.run(run_id), as_json)


@runs.command("logs")
def logs(
    run_id: RunId,
    attempt: Annotated[int | None, typer.Option(help="This attempt, not the newest one.", min=1)] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until the attempt is over.")] = False,
    tail: Annotated[int | None, typer.Option(help="Only so many lines, the last ones.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Print the end of an attempt's log."""
    from scheduler_service.cli.output import print_json, print_log

    with open_client() as client:
        if follow:
            for part in client.follow_logs(run_id, attempt=attempt, tail=tail):
                print(json.dumps(dict(part)), flush=True) if as_json else print_log(part)
        elif as_json:
            print_json(client.run_logs(run_id, attempt=attempt, tail=tail))
        else:
            print_log(client.run_logs(run_id, attempt=attempt, tail=tail), whole=True)


runs.command("cancel")(cancel)
runs.command("retry")(retry)
runs.command("move")(move)
runs.command("delete")(delete)
runs.command("again")(run_again)


@runs.command("watch")
def watch(
    run_id: Annotated[str | None, typer.Argument(help="Only this run, until it is over.", show_default=False)] = None,
    job: JobFilter = None,
    state: StateFilter = None,
    every: Annotated[float, typer.Option(help="Seconds between polls.", min=0.1)] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print each run as a line of JSON.")] = False,
) -> None:
    """Print each change of state, and of one run its progress; Ctrl-C ends it. Status 1 if the run did not complete."""
    from scheduler_service.cli.output import print_message, when

    with open_client() as client:
        polls = _polls_of(client, run_id, every) if run_id else _polls(client, every, job_id=job, state=state)
        last: Mapping[str, Any] = {}
        for run in polls:
            last = run
            if as_json:
                print(json.dumps(dict(run), ensure_ascii=False), flush=True)
                continue
            shown_at = run["finished_at"] or run["started_at"] or run["pending_at"] or run["due_at"]
            more = progress_bar(run.get("progress"), over=run["state"] == "completed") or run["reason"] or ""
            print_message(f"{run['state']:9} {run['run_id']}  {when(shown_at)}  {more}".rstrip())
    if run_id and last.get("state") != "completed":
        sys.exit(1)


def _polls_of(client: "Client", run_id: str, every: float) -> Iterator[Mapping[str, Any]]:
    """Yield the run at each change of its state, attempt or progress, until it is final."""
    from itinerary.client.sync import FINAL_STATES

    seen = None
    while True:
        run = client.run(run_id)
        present = (run["state"], run["attempt"], run.get("progress"))
        if present != seen:
            seen = present
            yield run
        if run["state"] in FINAL_STATES:
            return
        time.sleep(every)


def _polls(client: "Client", every: float, **filters: Any) -> Iterator[Mapping[str, Any]]:
    """Yield runs among the newest hundred, up to a minute ahead, whose state changed since the last poll, oldest first.

    Runs planned further ahead would hide the present ones.
    """
    seen: dict[str, tuple[str, int]] = {}
    while True:
        page = client.runs(limit=100, until=after("1m", "until"), **filters)["items"]
        now_seen = {run["run_id"]: (run["state"], run["attempt"]) for run in page}
        yield from (run for run in reversed(page) if seen.get(run["run_id"]) != now_seen[run["run_id"]])
        seen = now_seen
        time.sleep(every)


def _print_runs(items: list[Mapping[str, Any]], output: Form, *, filtered: bool) -> None:
    from scheduler_service.cli.output import none_found, state, took, when

    rows = [
        (
            run["run_id"], state(run["state"]), run["attempt"], when(run["scheduled_at"]),
            took(run["started_at"], run["finished_at"]), run["worker"], why_text(run),
        )
        for run in items
    ]  # fmt: skip
    columns = ["run", "state", "attempt", "scheduled", "took", "worker", "reason"]
    empty = none_found("runs", filtered=filtered, add="itinerary enqueue TASK")
    print_list(output, columns, rows, empty, whole=("run",), spare=("worker", "attempt", "took"))


def why_text(run: Mapping[str, Any]) -> str | None:
    """Return the reason in one line: the run's reason, else the first line of its error."""
    error = run["error"] or {}
    first_line = next(iter(str(error.get("message") or "").splitlines()), "")
    message = ": ".join(filter(None, (error.get("type"), first_line[:_SHOWN])))
    return run["reason"] or message or None


def _print_run(run: Mapping[str, Any], as_json: bool) -> None:
    from scheduler_service.cli.output import print_fields, print_json, state, when
    from scheduler_service.core.contract.progress_text import progress_text

    if as_json:
        print_json(run)
        return
    progress = run.get("progress")
    shown = {**run, "state": state(run["state"]), "progress": progress_text(progress) if progress else None}
    attempts, error = shown.pop("attempts"), shown.pop("error") or {}
    fields = [(name, when(value) if name.endswith("_at") else value) for name, value in shown.items()]
    print_fields([*fields, *((f"error {name}", value) for name, value in error.items())])
    for attempt in attempts:
        what = (attempt["error"] or {}).get("message") or attempt["reason"]
        late = attempt.get("late_reports")
        text = f"{attempt['outcome']}{f': {what}' if what else ''}"
        if late:
            text += f"; {late['count']} late: {late['kind']} by {late['worker']}, {when(late['at'])}"
        if attempt.get("progress"):
            text += f"; at {progress_text(attempt['progress'])}"
        if late or attempt is not attempts[-1]:
            print_fields([(f"attempt {attempt['attempt']}", text)])
