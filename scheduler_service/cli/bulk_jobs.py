"""`itinerary jobs pause|resume|move|delete`: of named jobs one by one, of what a filter finds in bulk."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from scheduler_service.cli.bulk import DryRun, Everything, Yes, carry_out, is_bulk
from scheduler_service.cli.completing import job_ids
from scheduler_service.cli.connect import coming_text, open_client
from scheduler_service.cli.several import each
from scheduler_service.cli.status import Json

JobIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="[JOB_ID...]", help="Ids of jobs.", show_default=False, autocompletion=job_ids),
]
Tag = Annotated[str | None, typer.Option(help="All jobs with this tag.")]
Text = Annotated[str | None, typer.Option("--text", "-q", help="All with this in id, title or task.")]
Source = Annotated[str | None, typer.Option(help="All that this file owns.")]


def pause(
    ids: JobIds = None,
    reason: Annotated[str | None, typer.Option(help="The reason; shown with the job.")] = None,
    until: Annotated[str | None, typer.Option(help="Resume then, or after so long, such as 2h.")] = None,
    skip_waiting: Annotated[
        bool,
        typer.Option("--skip-waiting", help="Skip runs that were due before and still wait; else they run on resume."),
    ] = False,
    tag: Tag = None,
    text: Text = None,
    source: Source = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Pause jobs: they create no more runs. With a filter, all that it finds; --dry-run shows them first."""
    from scheduler_service.cli.jobs import print_change

    end, filters = coming_text(until, "--until"), {"tag": tag, "q": text, "source": source}
    if is_bulk(ids, filters, everything):
        if skip_waiting:
            raise typer.BadParameter("--skip-waiting is for named jobs only")
        options = {"reason": reason, "until": end}
        _in_bulk("pause", filters, everything, options, dry_run=dry_run, yes=yes, as_json=as_json)
        return
    _no_dry_run(dry_run)
    waiting = "skip" if skip_waiting else None
    with open_client() as client:
        each(
            ids or [], lambda job_id: client.pause_job(job_id, reason, end, waiting=waiting), as_json,
            lambda _, job: print_change(job, "paused"),
        )  # fmt: skip


def resume(
    ids: JobIds = None,
    tag: Tag = None,
    text: Text = None,
    source: Source = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Resume paused jobs. With a filter, all that it finds."""
    from scheduler_service.cli.jobs import print_change

    filters = {"tag": tag, "q": text, "source": source}
    if is_bulk(ids, filters, everything):
        _in_bulk("resume", filters, everything, {}, dry_run=dry_run, yes=yes, as_json=as_json)
        return
    _no_dry_run(dry_run)
    with open_client() as client:
        each(ids or [], client.resume_job, as_json, lambda _, job: print_change(job, "resumed"))


def move(
    ids: JobIds = None,
    queue: Annotated[str, typer.Option("--to", help="The queue to move to.", show_default=False)] = "",
    tag: Tag = None,
    text: Text = None,
    source: Source = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Move jobs to another queue: runs planned from now on go there."""
    if not queue:
        raise typer.BadParameter("name the queue with --to")
    filters = {"tag": tag, "q": text, "source": source}
    is_bulk(ids, filters, everything)
    named = {**filters, "job_ids": ids or None}
    _in_bulk("move", named, everything, {"queue": queue}, dry_run=dry_run, yes=yes, as_json=as_json)


def delete(
    ids: JobIds = None,
    tag: Tag = None,
    text: Text = None,
    source: Source = None,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete jobs; their history stays. On a terminal it asks first."""
    from scheduler_service.cli.output import print_message
    from scheduler_service.observability.logs import escaped

    filters = {"tag": tag, "q": text, "source": source}
    if is_bulk(ids, filters, everything):
        _in_bulk("delete", filters, everything, {}, dry_run=dry_run, yes=yes, as_json=False)
        return
    _no_dry_run(dry_run)
    with open_client() as client:
        for job_id in ids or []:
            if not yes and sys.stdin.isatty():
                known = client.job(job_id)  # report a wrong name before asking
                typer.confirm(escaped(f"Delete {job_id} (task {known['task']})? Its history stays."), abort=True)
            client.delete_job(job_id)
            print_message(f"{job_id} deleted")


def _no_dry_run(dry_run: bool) -> None:
    if dry_run:
        raise typer.BadParameter("--dry-run is for what a filter finds")


def _in_bulk(
    action: str, filters: Mapping[str, Any], everything: bool, options: Mapping[str, Any],
    *, dry_run: bool, yes: bool, as_json: bool,
) -> None:  # fmt: skip
    asked: dict[str, Any] = {**filters, **options, "everything": everything}
    carry_out(
        lambda client: client.plan_bulk_jobs(action, **asked), lambda client: client.bulk_jobs(action, **asked),
        dry_run=dry_run, yes=yes, as_json=as_json,
    )  # fmt: skip
