"""`itinerary jobs explain`, `runs explain` and `itinerary audit`: events, their reasons, and their authors."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from itinerary.protocol.errors import BadValue, ItineraryError
from scheduler_service.cli.completing import job_ids
from scheduler_service.cli.connect import instant_text, open_client
from scheduler_service.cli.listing import Form, Output, print_list
from scheduler_service.cli.status import Json

if TYPE_CHECKING:
    from itinerary.client.sync import Client


def explain_job(
    job_id: Annotated[str, typer.Argument(help="The job's id.", show_default=False, autocompletion=job_ids)],
    instant: Annotated[str | None, typer.Argument(metavar="AT", help="The occurrence; else --at.")] = None,
    at: Annotated[str | None, typer.Option(help="The occurrence; without an offset in your zone.")] = None,
    as_json: Json = False,
) -> None:
    """Explain the decision about a job at an instant."""
    wanted = instant_text(instant, "AT") if at is None else instant_text(at, "--at")
    if wanted is None:
        raise BadValue("AT", None, "give the instant, such as 2026-11-27T10:17:00Z")
    with open_client() as client:
        _print(client.explain_job(job_id, wanted), as_json)


def explain_run(
    run_id: Annotated[str, typer.Argument(help="The run's id.", show_default=False)], as_json: Json = False
) -> None:
    """Explain the state of a run."""
    with open_client() as client:
        _print(client.explain_run(run_id), as_json)


def audit(
    subject: Annotated[str | None, typer.Argument(help="Only changes of this job or run.", show_default=False)] = None,
    actor: Annotated[str | None, typer.Option(help="Only changes by this token.")] = None,
    action: Annotated[str | None, typer.Option(help="Only these, such as job.pause.")] = None,
    since: Annotated[str | None, typer.Option(help="At or after this time.")] = None,
    until: Annotated[str | None, typer.Option(help="Before this time.")] = None,
    limit: Annotated[int, typer.Option(help="How many.", min=1, max=1000)] = 30,
    as_json: Json = False,
    output: Output = Form.TABLE,
) -> None:
    """Who changed what, newest first."""
    from scheduler_service.cli.output import print_json, print_more, when

    times = {"since": instant_text(since, "--since"), "until": instant_text(until, "--until")}
    with open_client() as client:
        page = client.audit(subject=subject, actor=actor, action=action, limit=limit, **times)
        if subject is not None and not page["items"]:
            _check_subject(client, subject)
    if as_json or output is Form.JSON:
        print_json(page)
        return
    rows = [
        (when(entry["at"]), entry["actor"], entry["role"], entry["action"], entry["subject"], _difference(entry))
        for entry in page["items"]
    ]
    columns = ("at", "by", "role", "what", "of", "change")
    print_list(output, columns, rows, "nothing was changed", whole=("of",), spare=("role",))
    print_more(len(rows), page.body, "changes")


def _check_subject(client: "Client", subject: str) -> None:
    """Raise ItineraryError if nothing was found because the name is unknown."""
    from itinerary.client.transport import ApiError

    for known in (client.run, client.job):
        try:
            known(subject)
        except ApiError as exc:
            if exc.status != 404:
                raise
        else:
            return
    if not client.audit(subject=subject, limit=1)["items"]:
        raise ItineraryError(f"there is no job and no run {subject}")


def _print(explained: Mapping[str, Any], as_json: bool) -> None:
    from rich.text import Text

    from scheduler_service.cli.output import plain, print_json, print_lines, when

    if as_json:
        print_json(explained)
        return
    subject = explained["run_id"] or explained["job_id"]
    at = f"  {when(explained['at'])}" if explained["at"] else ""
    lines = [Text.assemble((explained["verdict"].replace("_", " "), "bold"), "  ", plain(f"{subject}{at}"))]
    for because in explained["because"]:
        lines.append(plain(f"- {because['words']}"))
        if because["row"] is not None:
            lines.append(Text.assemble("    ", plain(_row_name(because["row"])), style="dim"))
    for name, text in (("nearest_before", "before it"), ("nearest_after", "after it")):
        if explained[name] is not None:
            lines.append(plain(f"  {text}: {when(explained[name])}"))
    print_lines(lines)


def _row_name(row: Mapping[str, Any]) -> str:
    """Name a row: its table and its key; of a freeze its times and its reason as well."""
    keys = (
        "job_id", "version", "run_id", "attempt", "term", "id", "start_at", "materialised_until", "pruned_until",
        "freeze_id", "from", "until", "reason",
    )  # fmt: skip
    named = [f"{key}={row[key]}" for key in keys if row.get(key) is not None]
    return f"{row['table']}: {', '.join(named)}"


def _difference(entry: Mapping[str, Any]) -> str:
    """Return the fields that changed, in short."""
    before, after = entry["before"], entry["after"]
    if not isinstance(before, dict) or not isinstance(after, dict):
        return "created" if before is None else "removed" if after is None else ""
    changed = [name for name in after if name != "version" and after[name] != before.get(name)]
    return ", ".join(f"{name}: {before.get(name)} -> {after[name]}"[:80] for name in changed)
