"""`itinerary jobs pause|resume|move|delete`: of named jobs one by one, of what a filter finds in bulk."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from scheduler_service.cli.bulk import DryRun, Everything, Yes, carry_out, is_bulk
from scheduler_service.cli.completing import job_ids, states
from scheduler_service.cli.connect import coming_text, open_client
from scheduler_service.cli.listing import Form
from scheduler_service.cli.several import each
from scheduler_service.cli.shared_options import option, with_options
from scheduler_service.cli.status import Json

JobIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="[JOB_ID...]", help="Ids of jobs.", show_default=False, autocompletion=job_ids),
]
Tag = Annotated[str | None, typer.Option(help="All jobs with this tag.")]
Text = Annotated[str | None, typer.Option("--text", "-q", help="All with this in id, title or task.")]
Source = Annotated[str | None, typer.Option(help="All that this file owns.")]
InQueue = Annotated[str | None, typer.Option("--queue", help="All jobs of this queue.")]
OfTask = Annotated[str | None, typer.Option(help="All jobs of this task.")]
LastState = Annotated[
    list[str] | None,
    typer.Option(help="All whose last run is in this state; may be repeated.", autocompletion=states),
]
AsJson = Annotated[Form, typer.Option("--output", "-o", help="json: as --json.")]
_OF_A_FILTER: Final = (
    option("tag", Tag), option("text", Text), option("source", Source), option("in_queue", InQueue),
    option("task", OfTask), option("last_state", LastState), option("everything", Everything, False),
    option("dry_run", DryRun, False), option("yes", Yes, False),
)  # fmt: skip


@with_options([*_OF_A_FILTER, option("as_json", Json, False)])
def pause(
    ids: JobIds = None,
    reason: Annotated[str | None, typer.Option(help="The reason; shown with the job.")] = None,
    until: Annotated[str | None, typer.Option(help="Resume then, or after so long, such as 2h.")] = None,
    skip_waiting: Annotated[
        bool,
        typer.Option("--skip-waiting", help="Skip runs that were due before and still wait; else they run on resume."),
    ] = False,
    **given: Any,
) -> None:
    """Pause jobs: they create no more runs. With a filter, all that it finds; --dry-run shows them first."""
    from scheduler_service.cli.jobs import print_change

    end = coming_text(until, "--until")
    if _is_bulk(ids, given):
        if skip_waiting:
            raise typer.BadParameter("--skip-waiting is for named jobs only")
        _in_bulk("pause", given, {"reason": reason, "until": end})
        return
    waiting = "skip" if skip_waiting else None
    with open_client() as client:
        each(
            ids or [], lambda job_id: client.pause_job(job_id, reason, end, waiting=waiting), given["as_json"],
            lambda _, job: print_change(job, "paused"),
        )  # fmt: skip


@with_options([*_OF_A_FILTER, option("as_json", Json, False)])
def resume(
    ids: JobIds = None,
    **given: Any,
) -> None:
    """Resume paused jobs. With a filter, all that it finds."""
    from scheduler_service.cli.jobs import print_change

    if _is_bulk(ids, given):
        _in_bulk("resume", given, {})
        return
    with open_client() as client:
        each(ids or [], client.resume_job, given["as_json"], lambda _, job: print_change(job, "resumed"))


@with_options([*_OF_A_FILTER, option("as_json", Json, False)])
def move(
    ids: JobIds = None,
    queue: Annotated[str, typer.Option("--to", help="The queue to move to.", show_default=False)] = "",
    **given: Any,
) -> None:
    """Move jobs to another queue: runs planned from now on go there."""
    if not queue:
        raise typer.BadParameter("name the queue with --to")
    is_bulk(ids, _filters(given), given["everything"])
    _in_bulk("move", given, {"queue": queue, "job_ids": ids or None})


@with_options([*_OF_A_FILTER, option("as_json", Json, False), option("output", AsJson, Form.TABLE)])
def delete(
    ids: JobIds = None,
    **given: Any,
) -> None:
    """Delete jobs; their history stays. On a terminal it asks first."""
    from scheduler_service.cli.output import print_message
    from scheduler_service.observability.logs import escaped

    if given["output"] not in (Form.TABLE, Form.JSON):
        raise typer.BadParameter("give json; a deletion has no table", param_hint="--output")
    as_json = given["as_json"] or given["output"] is Form.JSON
    if _is_bulk(ids, given):
        _in_bulk("delete", {**given, "as_json": as_json}, {})
        return
    with open_client() as client:

        def delete_one(job_id: str) -> Mapping[str, Any]:
            if not given["yes"] and sys.stdin.isatty():
                known = client.job(job_id)  # report a wrong name before asking
                typer.confirm(escaped(f"Delete {job_id} (task {known['task']})? Its history stays."), abort=True)
            client.delete_job(job_id)
            return {"job_id": job_id, "deleted": True}

        each(ids or [], delete_one, as_json, lambda job_id, _: print_message(f"{job_id} deleted"))


def _filters(given: Mapping[str, Any]) -> dict[str, Any]:
    same = ("tag", "source", "in_queue", "task", "last_state")
    return {"q": given["text"], **{name: given[name] for name in same}}


def _is_bulk(ids: list[str] | None, given: Mapping[str, Any]) -> bool:
    """Whether a filter names the jobs; what is for filters only is refused beside ids."""
    if is_bulk(ids, _filters(given), given["everything"]):
        return True
    if given["dry_run"]:
        raise typer.BadParameter("--dry-run is for what a filter finds")
    return False


def _in_bulk(action: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    asked: dict[str, Any] = {**_filters(given), **options, "everything": given["everything"]}
    carry_out(
        lambda client: client.plan_bulk_jobs(action, **asked), lambda client: client.bulk_jobs(action, **asked),
        dry_run=given["dry_run"], yes=given["yes"], as_json=given.get("as_json", False),
    )  # fmt: skip
