"""`itinerary queues`: list, show, set, describe, pause and resume queues."""

from typing import Annotated, Any

import typer

from scheduler_service.cli.bounds import Concurrency, Description, Rate, bounds_change
from scheduler_service.cli.connect import coming_text, open_client
from scheduler_service.cli.listing import Form, Output, print_list
from scheduler_service.cli.status import Json
from scheduler_service.core.contract.limit_texts import bounds_text

Name = Annotated[str, typer.Argument(help="The queue's name.", show_default=False)]

queues = typer.Typer(help="Queues: what waits there, and whether it may go.", no_args_is_help=True)


@queues.command("list")
def list_queues(as_json: Json = False, output: Output = Form.TABLE) -> None:
    """List the queues that somebody defined or paused, or that have runs or workers."""
    from scheduler_service.cli.output import none_found, print_json

    with open_client() as client:
        found = client.queues()
    if as_json or output is Form.JSON:
        print_json([dict(queue) for queue in found])
        return
    rows = [
        (q["name"], _state(q), _waiting(q), q["pending"], q["running"], q["workers"], q["description"]) for q in found
    ]
    columns = ("queue", "state", "waiting", "pending", "running", "workers", "description")
    add = "itinerary enqueue shop.tasks.hello"
    empty = none_found("queues", filtered=False, add=add)
    print_list(output, columns, rows, empty, whole=("queue",), spare=("description",))


@queues.command("show")
def show_queue(name: Name, as_json: Json = False) -> None:
    """Show one queue."""
    with open_client() as client:
        _show(client.queue(name), as_json)


@queues.command("set")
def set_queue(
    name: Name,
    concurrency: Concurrency = None,
    rate: Rate = None,
    fair: Annotated[
        bool | None, typer.Option("--fair/--no-fair", help="Whether runs of different keys and jobs take turns.")
    ] = None,
    description: Description = None,
    as_json: Json = False,
) -> None:
    """Change what is given of a queue's definition."""
    given = {"fair": fair, "description": description}
    change = bounds_change(concurrency, rate) | {field: value for field, value in given.items() if value is not None}
    with open_client() as client:
        _show(client.patch_queue(name, change), as_json)


@queues.command("describe")
def describe_queue(
    name: Name, description: Annotated[str, typer.Argument(help="The purpose of the queue.", show_default=False)],
    as_json: Json = False,
) -> None:  # fmt: skip
    """Say what a queue is for."""
    with open_client() as client:
        _show(client.describe_queue(name, description), as_json)


@queues.command("pause")
def pause_queue(
    name: Name,
    reason: Annotated[str, typer.Option(help="The reason; shown where a run waits.", show_default=False)],
    until: Annotated[str | None, typer.Option(help="Resume then, or after so long, such as 2h.")] = None,
    as_json: Json = False,
) -> None:
    """Pause a queue: its runs wait, those that run go on."""
    with open_client() as client:
        _show(client.pause_queue(name, reason, coming_text(until, "--until")), as_json)


@queues.command("resume")
def resume_queue(name: Name, as_json: Json = False) -> None:
    """Resume a paused queue."""
    with open_client() as client:
        _show(client.resume_queue(name), as_json)


def _show(queue: Any, as_json: bool) -> None:
    from scheduler_service.cli.output import at_least, print_fields, print_json, when

    if as_json:
        print_json(dict(queue))
        return
    print_fields(
        [
            ("queue", queue["name"]),
            ("description", queue["description"]),
            ("bounds", bounds_text(queue)),
            ("turns", "fair" if queue["fair"] else None),
            ("state", _state(queue)),
            ("paused since", queue["paused_at"] and when(queue["paused_at"])),
            ("paused by", queue["paused_by"]),
            ("until", queue["paused_until"] and when(queue["paused_until"])),
            ("reason", queue["pause_reason"]),
            ("waiting", _waiting(queue)),
            ("pending", at_least(queue["pending"], is_exact=queue["in_flight_is_exact"])),
            ("running", at_least(queue["running"], is_exact=queue["in_flight_is_exact"])),
            ("workers", queue["workers"]),
        ]
    )
    if queue["paused"] and queue["pending"]:
        print("pending runs are recalled as soon as the leader can; `itinerary queues show` says how many are left")


def _state(queue: Any) -> str:
    return "paused" if queue["paused"] else "active"


def _waiting(queue: Any) -> str:
    return str(queue["waiting"]) if queue["waiting_is_exact"] else f"more than {queue['waiting']}"
