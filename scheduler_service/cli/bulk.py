"""Everything that a filter finds: what would happen, the question, progress, result; and `itinerary bulk ...`."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from itinerary.protocol.errors import BadValue, ItineraryError
from scheduler_service.cli.connect import instant_text, open_client
from scheduler_service.cli.listing import Form, Output, print_list
from scheduler_service.cli.progress import spinner
from scheduler_service.cli.status import Json

if TYPE_CHECKING:
    from itinerary.client.sync import Client

_EVERY: Final = 0.5

bulk = typer.Typer(help="Bulk operations: what was done to all that a filter found.", no_args_is_help=True)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen to what the filter finds.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed for bulk operations without a terminal.")]
Everything = Annotated[bool, typer.Option("--all", help="All of them, instead of a filter.")]
OperationId = Annotated[str, typer.Argument(metavar="OPERATION", help="The operation's id.", show_default=False)]


def past_text(text: str | None, option: str) -> str | None:
    """Format a time as RFC 3339: the one given, or now less the duration given."""
    from datetime import UTC, datetime, timedelta

    from itinerary.protocol.instants import format_instant, from_datetime, parse_duration

    if text is None:
        return None
    try:
        ago = timedelta(microseconds=parse_duration(text, option))
        return format_instant(from_datetime(datetime.now(UTC) - ago))
    except BadValue:
        try:
            return instant_text(text, option)
        except BadValue as exc:
            raise BadValue(option, text, f"{exc.allowed}, or how long ago, such as 1h") from None


def is_bulk(ids: Sequence[str] | None, filters: Mapping[str, Any], everything: bool) -> bool:
    """Whether a filter is given rather than ids; BadValue for both, or for neither."""
    filtered = everything or any(value is not None for value in filters.values())
    if filtered and ids:
        raise BadValue("ids", " ".join(ids), "give ids or a filter, not both")
    if not filtered and not ids:
        raise typer.BadParameter("name some, give a filter, or --all")
    return filtered


def carry_out(
    plan: Callable[["Client"], Mapping[str, Any]],
    begin: Callable[["Client"], Mapping[str, Any]],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Say what would happen, ask, begin, follow to the end and say what came of it."""
    from scheduler_service.cli.output import print_json

    with open_client() as client:
        planned = plan(client)
        if dry_run and as_json:
            print_json(planned)
            return
        if not as_json:
            _print_plan(planned)
        if dry_run or not planned["changing"]:
            return
        if not yes:
            if not sys.stdin.isatty():
                raise BadValue("--yes", None, "no terminal to ask on: give --yes, or --dry-run to only show the plan")
            typer.confirm(f"{planned['action']} {_number(planned, 'changing')} {planned['on']}?", abort=True)
        follow(client, begin(client), as_json)


def follow(client: "Client", operation: Mapping[str, Any], as_json: bool) -> None:
    """Wait until the operation is over and print what came of it; an error if it failed."""
    from scheduler_service.cli.output import print_json

    with spinner(f"{operation['action']}: 0") as report:
        while operation["state"] == "running":
            report(f"{operation['action']}: {operation['seen']:,} of {_number(operation, 'total')}")
            time.sleep(_EVERY)
            operation = client.bulk_operation(operation["operation_id"])
    if as_json:
        print_json(operation)
    else:
        _print_result(operation)
    if operation["state"] == "failed":
        raise ItineraryError(f"bulk operation {operation['operation_id']} failed: {operation['error']}")


@bulk.command("list")
def list_operations(as_json: Json = False, output: Output = Form.TABLE) -> None:
    """List the last operations, the newest first."""
    from scheduler_service.cli.output import print_json, when

    with open_client() as client:
        found = client.bulk_operations()
    if as_json or output is Form.JSON:
        print_json(found)
        return
    rows = [
        (one["operation_id"], _what(one), one["state"], _counts_text(one), one["actor"], when(one["created_at"]))
        for one in found["items"]
    ]
    columns = ["operation", "what", "state", "counts", "by", "began"]
    print_list(output, columns, rows, "there are no bulk operations", whole=("operation",), spare=("by", "began"))


@bulk.command("show")
def show_operation(operation_id: OperationId, as_json: Json = False) -> None:
    """Show one operation."""
    from scheduler_service.cli.output import print_json

    with open_client() as client:
        operation = client.bulk_operation(operation_id)
    if as_json:
        print_json(operation)
    else:
        _print_result(operation)


@bulk.command("stop")
def stop_operation(operation_id: OperationId, as_json: Json = False) -> None:
    """End an operation before its next page; what it did stays."""
    from scheduler_service.cli.output import print_json

    with open_client() as client:
        operation = client.stop_bulk(operation_id)
    if as_json:
        print_json(operation)
    else:
        _print_result(operation)


@bulk.command("undo")
def undo_operation(operation_id: OperationId, as_json: Json = False) -> None:
    """Take back what an operation changed, where nobody changed it since."""
    with open_client() as client:
        follow(client, client.undo_bulk(operation_id), as_json)


def _print_plan(plan: Mapping[str, Any]) -> None:
    from scheduler_service.cli.output import print_message, print_table

    rows = [
        (one["what"], _number(one, "count"), "; ".join(filter(None, (one["outcome"] or "unchanged", one["why"]))))
        for one in plan["groups"]
    ]
    print_table([plan["on"], "number", "what becomes of them"], rows, f"no {plan['on']} match")
    if plan["sample"]:
        print_message(f"the first of them: {', '.join(plan['sample'])}")


def _print_result(operation: Mapping[str, Any]) -> None:
    from scheduler_service.cli.output import print_message

    print_message(f"{_what(operation)}: {operation['state']}; {_counts_text(operation)}")
    if operation["can_be_undone"]:
        print_message(f"take it back: itinerary bulk undo {operation['operation_id']}")


def _what(operation: Mapping[str, Any]) -> str:
    to = f" to {operation['queue']}" if operation["queue"] else ""
    return f"{'undo of ' if operation['undo_of'] else ''}{operation['action']} {operation['on']}{to}"


def _counts_text(operation: Mapping[str, Any]) -> str:
    counts = [f"{number:,} {outcome.replace('_', ' ')}" for outcome, number in operation["counts"].items()]
    return ", ".join(counts) or "nothing changed"


def _number(body: Mapping[str, Any], name: str) -> str:
    return f"{body[name]:,}" if body[f"{name}_is_exact"] else f"more than {body[name]:,}"
