"""`itinerary freezes`: start, list, show and end freezes."""

from typing import Annotated, Any

import typer

from itinerary.protocol.errors import BadValue
from scheduler_service.cli.connect import coming_text, open_client
from scheduler_service.cli.listing import Form, Output, print_list
from scheduler_service.cli.status import Json
from scheduler_service.core.freezes import scope_text

Number = Annotated[int, typer.Argument(help="The freeze's number.", show_default=False, min=1)]
Names = list[str] | None

freezes = typer.Typer(help="Freezes: times in which nothing of a scope starts.", no_args_is_help=True)


@freezes.command("start")
def start_freeze(
    reason: Annotated[str, typer.Option(help="The reason; shown where a run waits.", show_default=False)],
    everything: Annotated[bool, typer.Option("--all", help="Freeze everything.")] = False,
    queue: Annotated[Names, typer.Option(help="Freeze this queue; may be repeated.", show_default=False)] = None,
    tag: Annotated[Names, typer.Option(help="Freeze jobs with this tag; may be repeated.", show_default=False)] = None,
    job: Annotated[Names, typer.Option(help="Freeze this job; may be repeated.", show_default=False)] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Begin then, or after so long, such as 2h.", show_default=False)
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="End then, or so long from now, such as 2h.", show_default=False)
    ] = None,
    skip: Annotated[
        bool, typer.Option("--skip/--hold", help="Skip occurrences that fall due within it, or let them wait.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Freeze a scope: its runs wait, those that run go on."""
    given: dict[str, Any] = {"all": everything, "queues": queue, "tags": tag, "jobs": job}
    scope = {name: value for name, value in given.items() if value}
    if len(scope) != 1:
        raise BadValue("scope", None, "give --all, --queue, --tag or --job, of one kind")
    with open_client() as client:
        freeze = client.start_freeze(
            scope, reason, since=coming_text(since, "--from"), until=coming_text(until, "--until"),
            during="skip" if skip else "hold",
        )  # fmt: skip
    _show(freeze, as_json)


@freezes.command("list")
def list_freezes(
    status: Annotated[
        str | None, typer.Option(help="Only those that are active, coming or past.", show_default=False)
    ] = None,
    as_json: Json = False,
    output: Output = Form.TABLE,
) -> None:
    """List freezes, the newest first."""
    from scheduler_service.cli.output import none_found, print_json, when

    with open_client() as client:
        found = client.freezes(status)
    if as_json or output is Form.JSON:
        print_json([dict(one) for one in found])
        return
    rows = [
        (one["freeze_id"], one["status"], scope_text(one["scope"]), one["during"], when(one["from"]), _end(one),
         one["reason"])
        for one in found
    ]  # fmt: skip
    columns = ("freeze", "status", "scope", "during", "from", "until", "reason")
    add = "itinerary freezes start --all --reason 'a deploy'"
    empty = none_found("freezes", filtered=status is not None, add=add)
    print_list(output, columns, rows, empty, whole=("freeze",), spare=("reason",))


@freezes.command("show")
def show_freeze(number: Number, as_json: Json = False) -> None:
    """Show one freeze."""
    with open_client() as client:
        _show(client.freeze(number), as_json)


@freezes.command("end")
def end_freeze(number: Number, as_json: Json = False) -> None:
    """End a freeze, also one that is to come: what waits is dispatched."""
    with open_client() as client:
        _show(client.end_freeze(number), as_json)


def _show(freeze: Any, as_json: bool) -> None:
    from scheduler_service.cli.output import at_least, print_fields, print_json, when

    if as_json:
        print_json(dict(freeze))
        return
    print_fields(
        [
            ("freeze", freeze["freeze_id"]),
            ("status", freeze["status"]),
            ("scope", scope_text(freeze["scope"])),
            ("during", freeze["during"]),
            ("from", when(freeze["from"])),
            ("until", _end(freeze)),
            ("reason", freeze["reason"]),
            ("started by", freeze["created_by"]),
            ("ended by", freeze["ended_by"]),
            ("running", at_least(freeze["running"], is_exact=freeze["in_flight_is_exact"])),
            ("pending", at_least(freeze["pending"], is_exact=freeze["in_flight_is_exact"])),
        ]
    )
    if freeze["pending"]:
        print("pending runs are recalled as soon as the leader can; `itinerary freezes show` says how many are left")


def _end(freeze: Any) -> str | None:
    from scheduler_service.cli.output import when

    ends = [at for at in (freeze["until"], freeze["ended_at"]) if at]
    return when(min(ends)) if ends else None
