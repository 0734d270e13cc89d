"""`itinerary jobs ...`: definitions, created and changed through the API, never in the database."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from scheduler_service.cli import job_options as options
from scheduler_service.cli.backfilling import print_backfill
from scheduler_service.cli.completing import job_ids, states
from scheduler_service.cli.connect import instant_text, json_value, limits_value, open_client
from scheduler_service.cli.listing import Form, Output, print_list
from scheduler_service.cli.progress import counted
from scheduler_service.cli.status import Json
from scheduler_service.cli.workers import mind_unknown_task

jobs = typer.Typer(help="Jobs: what runs, and when.", no_args_is_help=True)

JobId = Annotated[str, typer.Argument(help="The job's id.", show_default=False, autocompletion=job_ids)]
Count = Annotated[int, typer.Option(help="How many.", min=1, max=1000)]


@jobs.command("list")
def list_jobs(
    tag: Annotated[str | None, typer.Option(help="Only jobs with this tag.")] = None,
    text: Annotated[str | None, typer.Option("--text", "-q", help="Found in id, title or task.")] = None,
    paused: Annotated[bool | None, typer.Option(help="Only paused, or only active ones.")] = None,
    source: Annotated[str | None, typer.Option(help="Only what this file owns.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only jobs of this queue.")] = None,
    task: Annotated[str | None, typer.Option(help="Only jobs of this task.")] = None,
    last_state: Annotated[
        list[str] | None,
        typer.Option(help="Only those whose last run is in this state; may be repeated.", autocompletion=states),
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="job_id, next_run, last_run or last_state; -last_run: the newest first.")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many.", min=1, max=1000)] = 100,
    everything: Annotated[bool, typer.Option("--all", help="All of them, page by page.")] = False,
    as_json: Json = False,
    output: Output = Form.TABLE,
) -> None:
    """List jobs by id or in another order, with their next and last run."""
    from scheduler_service.cli.output import none_found, print_json, print_more

    as_json = as_json or output is Form.JSON
    filters: dict[str, Any] = {
        "tag": tag, "q": text, "paused": paused, "source": source, "queue": queue, "task": task,
        "last_state": last_state,
    }  # fmt: skip
    with open_client() as client:
        if everything:
            found = client.all_jobs(**filters, sort=sort, with_runs=None if as_json else True)
            page: Any = {"items": list(counted(found, "reading jobs")), "next_cursor": None}
        else:
            shown = None if as_json else True
            page = client.jobs(**filters, sort=sort, limit=limit, total=shown, with_runs=shown)
    if as_json:
        print_json(page)
        return
    rows = [
        (
            job["job_id"], _schedule_text(job["schedule"]), _next(job), _last(job["last_run"]), job["queue"],
            job["task"], job["title"],
        )
        for job in page["items"]
    ]  # fmt: skip
    columns = ["job", "schedule", "next run", "last run", "queue", "task", "title"]
    filtered = any(one is not None for one in filters.values())
    empty = none_found("jobs", filtered=filtered, add="itinerary jobs add JOB_ID TASK --every 1h")
    print_list(output, columns, rows, empty, whole=("job",), spare=("title", "task", "queue"))
    print_more(len(rows), page, "jobs")


@jobs.command("show")
def show(job_id: JobId, as_json: Json = False) -> None:
    """Show one job, with its next runs."""
    from scheduler_service.cli.output import print_fields, print_json, when

    with open_client() as client:
        job = dict(client.job(job_id))
    if as_json:
        print_json(job)
        return
    upcoming = [when(at) for at in job.pop("next_runs")]
    times = {"start_at", "end_at", "paused_until"}
    fields = [(name, when(value) if name in times else value) for name, value in job.items()]
    print_fields([*fields, ("next runs", "\n".join(str(at) for at in upcoming) or "none")])


@jobs.command("add")
@options.of_a_job
def add(
    job_id: JobId,
    named: Annotated[str | None, typer.Argument(metavar="TASK", help="Name of the Celery task.")] = None,
    file: options.File = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Create a job; its id must not exist yet."""
    body = {**options.fields_of({**given, "task": given["task"] or named}, file), "job_id": job_id}
    if "schedule" not in body:
        raise typer.BadParameter("give a schedule: --cron, --every, --minute, --at or --schedule")
    with open_client() as client:
        _print_job(client.create_job(body), as_json, "created")
        mind_unknown_task(client, str(body["task"]))


@jobs.command("edit")
@options.of_a_job
def edit(job_id: JobId, file: options.File = None, as_json: Json = False, **given: Any) -> None:
    """Change the fields that the options name; the rest stays. Past runs are not changed."""
    change = options.fields_of(given, file)
    if not change:
        raise typer.BadParameter("nothing to change; give at least one option")
    with open_client() as client:
        _print_job(client.patch_job(job_id, change), as_json, "changed")
        if "task" in change:
            mind_unknown_task(client, str(change["task"]))


@jobs.command("trigger")
def trigger(
    job_id: JobId,
    kwargs: Annotated[str | None, typer.Option(help="Keyword arguments over the job's, a JSON object.")] = None,
    overlap: options.Overlap = None,
    limit: Annotated[
        list[str] | None, typer.Option(help="In place of the job's: NAME or NAME=KEY; may be repeated.")
    ] = None,
    fair_key: Annotated[str | None, typer.Option(help="In place of the job's.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Let no freeze hold the run.")] = False,
    key: options.Key = None,
    as_json: Json = False,
) -> None:
    """Run a job now, beside its schedule."""
    from scheduler_service.cli.output import print_json, print_message

    with open_client() as client:
        run = client.trigger(
            job_id, json_value(kwargs, "--kwargs"), overlap, limits=limits_value(limit), fair_key=fair_key, force=force,
            idempotency_key=key,
        )  # fmt: skip
        mind_unknown_task(client, run["task"])
    if as_json:
        print_json(run)
    else:
        print_message(f"{run['run_id']} {run['state']}")


@jobs.command("backfill")
def backfill(
    job_id: JobId,
    start: Annotated[str, typer.Option("--from", help="The first time of the window.", show_default=False)],
    end: Annotated[str, typer.Option("--to", help="The first time after the window.", show_default=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be created.")] = False,
    overlap: Annotated[str, typer.Option(help="queue_all: one after the other; allow: all at once.")] = "queue_all",
    key: options.Key = None,
    as_json: Json = False,
) -> None:
    """Run a past window's occurrences that did not complete, each with its own time."""
    from scheduler_service.cli.output import print_json

    window = (instant_text(start, "--from") or "", instant_text(end, "--to") or "")
    with open_client() as client:
        answer = client.backfill(job_id, *window, overlap, dry_run=dry_run, idempotency_key=key)
    if as_json:
        print_json(answer)
    else:
        print_backfill(answer)


@jobs.command("preview")
def preview(
    job_id: JobId,
    count: Count = 10,
    start: Annotated[str | None, typer.Option("--from", help="After this time; default now.")] = None,
    as_json: Json = False,
) -> None:
    """Preview when a job would run next."""
    from scheduler_service.cli.output import print_json, print_message, print_table, when

    with open_client() as client:
        seen = client.preview_job(job_id, count, instant_text(start, "--from"))
    if as_json:
        print_json(seen)
        return
    print_message(seen["text"])
    for warning in seen["warnings"]:
        print_message(f"warning: {warning}")
    rows = [(when(o["at"]), o["local"], o["offset"], _note(o)) for o in seen["occurrences"]]
    print_table(["your clock", "the job's clock", "offset", "note"], rows, "it has no further run")
    for one in seen["left_out"]:
        moved = f"moves to {one['moved_to']}" if one["moved_to"] else "left out"
        print_message(f"{one['local'].replace('T', ' ')}: {moved}, since it is {one['because']}")


def _note(occurrence: Mapping[str, Any]) -> str | None:
    days = [f"for {one['day']}" for one in occurrence["stands_for"]]
    return ", ".join([*([occurrence["dst"]] if occurrence["dst"] else []), *days]) or None


def _schedule_text(schedule: Mapping[str, Any]) -> str:
    """Return the schedule in short; `jobs preview` gives the sentence."""
    match schedule["kind"]:
        case "cron":
            text = str(schedule["expr"]) + (f" ({schedule['dialect']})" if schedule.get("dialect") else "")
        case "hourly":
            text = f"hourly at :{schedule['minute']:02d}"
        case "interval":
            offset = schedule.get("offset")
            text = f"every {schedule['every']}" + (f" + {offset}" if offset and offset != "0s" else "")
            text += ", balanced" if schedule.get("balanced") else ""
            text += " from {from} until {until}".format_map(schedule["window"]) if schedule.get("window") else ""
        case "calendar":
            on = f" on {schedule['nth']} {schedule['weekdays']}" if schedule.get("nth") else ""
            text = f"every {schedule['every']} {schedule['unit']}{on} at {', '.join(schedule['at'])}"
        case "once":
            text = f"once, {schedule['at']}"
        case "solar":
            text = f"{schedule['event']} at {schedule['latitude']:g}, {schedule['longitude']:g}"
        case "rrule":
            text = f"{schedule['rrule']} from {schedule['dtstart'][:16]}"
        case "any":
            text = "; ".join(map(_schedule_text, schedule["of"]))
        case newer:  # of a service newer than this program
            text = str(newer)
    zone = schedule.get("timezone", "UTC")
    return text if zone == "UTC" else f"{text} {zone}"


def _next(job: Mapping[str, Any]) -> str | None:
    from scheduler_service.cli.output import near

    if job["paused"]:
        return f"paused: {job['pause_reason']}" if job["pause_reason"] else "paused"
    return near(job["next_run_at"]) or ("being placed" if job["schedule"].get("balanced") else None)


def _last(run: Mapping[str, Any] | None) -> str | None:
    from scheduler_service.cli.output import near

    return None if run is None else f"{run['state']} {near(run['finished_at'] or run['scheduled_at'])}"


def _print_job(job: Mapping[str, Any], as_json: bool, done: str) -> None:
    from scheduler_service.cli.output import print_json

    if as_json:
        print_json(job)
    else:
        print_change(job, done)


def print_change(job: Mapping[str, Any], done: str) -> None:
    """Print that the job is changed, and its next run."""
    from scheduler_service.cli.output import print_message, when

    upcoming = job.get("next_runs") or []
    if upcoming:
        coming = f"next run {when(upcoming[0])}"
    elif job["paused"]:
        coming = "no run until it is resumed"
    else:
        balanced = job["schedule"].get("balanced")
        coming = f"next run {'to be placed by the scheduler in a moment' if balanced else 'never'}"
    print_message(f"{job['job_id']} {done}, version {job['version']}; {coming}")
    for warning in () if done in ("paused", "resumed") else job.get("warnings") or ():
        print_message(f"warning: {warning}")
