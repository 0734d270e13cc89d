"""`itinerary workers` and `itinerary tasks`: who runs tasks, where they listen, what they run and what they know."""

import sys
from typing import TYPE_CHECKING

from scheduler_service.cli.connect import open_client
from scheduler_service.cli.listing import Form, Output, print_list
from scheduler_service.cli.status import Json
from scheduler_service.core.worker_command import worker_command

if TYPE_CHECKING:
    from itinerary.client.sync import Client

_SHOWN = 3


def workers(as_json: Json = False, output: Output = Form.TABLE) -> None:
    """List the workers that the leader hears, and what each runs."""
    from rich.text import Text

    from scheduler_service.cli.output import near, print_json

    with open_client() as client:
        found = sorted(client.workers(), key=lambda worker: worker["name"])
    if as_json or output is Form.JSON:
        print_json([dict(worker) for worker in found])
        return
    rows = [
        (
            worker["name"], Text("alive", "green") if worker["alive"] else Text("silent", "red"),
            f"{len(worker['running'])} of {worker['concurrency']}", ", ".join(worker["queues"]),
            near(worker["last_seen_at"]), _some(worker["running"], whole=output is not Form.TABLE),
        )
        for worker in found
    ]  # fmt: skip
    columns = ("worker", "state", "busy", "queues", "reported", "runs")
    empty = "no worker reports to the leader; start one: " + worker_command()
    print_list(output, columns, rows, empty, whole=("worker",), spare=("reported", "runs"))


def tasks(as_json: Json = False, output: Output = Form.TABLE) -> None:
    """List the tasks that living workers say they know."""
    from scheduler_service.cli.output import print_json

    with open_client() as client:
        known = client.tasks()
    if as_json or output is Form.JSON:
        print_json(dict(known))
        return
    empty = "no living worker has said which tasks it knows"
    print_list(output, ("task",), [(name,) for name in known.items], empty, whole=("task",))
    if known.items and not known.complete:
        print("a worker may know more: it has not said all its tasks", file=sys.stderr)


def mind_unknown_task(client: "Client", task: str) -> None:
    """Say on stderr that no living worker knows the task, where all have said what they know."""
    from itinerary.protocol.errors import ItineraryError
    from itinerary.protocol.task_names import TaskNames
    from scheduler_service.observability.logs import escaped

    try:
        known = client.tasks()
    except ItineraryError:  # a limited token may not ask; what was saved is saved
        return
    warning = TaskNames(tuple(known.items), known.complete).warning(task)
    if warning is not None:
        print(escaped(f"warning: {warning}"), file=sys.stderr)


def _some(run_ids: list[str], *, whole: bool) -> str | None:
    shown = run_ids if whole else run_ids[:_SHOWN]
    rest = len(run_ids) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "") or None
