"""`itinerary workers`: who runs tasks, where they listen and what they run."""

from scheduler_service.cli.connect import open_client
from scheduler_service.cli.listing import Form, Output, print_list
from scheduler_service.cli.status import Json

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
    empty = "no worker reports to the leader; start one: itinerary worker --app yourapp"
    print_list(output, columns, rows, empty, whole=("worker",), spare=("reported", "runs"))


def _some(run_ids: list[str], *, whole: bool) -> str | None:
    shown = run_ids if whole else run_ids[:_SHOWN]
    rest = len(run_ids) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "") or None
