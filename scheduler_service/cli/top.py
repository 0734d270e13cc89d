"""`itinerary top`: the installation at a glance, drawn again every few seconds, as `top` shows a machine."""

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from scheduler_service.cli.connect import open_client
from scheduler_service.cli.progress import progress_bar
from scheduler_service.cli.status import leader_text, redis_warnings

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from itinerary.client.sync import Client

_RUNS: Final = 15
_HOUR: Final = timedelta(hours=1)
_BARS: Final = "▁▂▃▄▅▆▇█"


def top(
    every: Annotated[float, typer.Option(help="Seconds between polls.", min=0.5)] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
) -> None:
    """Show the leader, the last hour, queues, workers and what runs, live; Ctrl-C ends it. In a pipe, once."""
    from rich.live import Live

    from scheduler_service.cli.output import console

    out = console()
    with open_client() as client:
        if once or not sys.stdout.isatty():
            out.print(frame(client))
            return
        with Live(frame(client), console=out, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(_frame_or_error(client), refresh=True)


def _frame_or_error(client: "Client") -> "RenderableType":
    """Return the frame, or the reason that there is none: the next poll may have one again."""
    from itinerary.protocol.errors import ItineraryError
    from scheduler_service.cli.output import plain

    try:
        return frame(client)
    except ItineraryError as exc:
        return plain(str(exc))


def frame(client: "Client") -> "RenderableType":
    """Read the present state and return what is drawn of it."""
    from rich.console import Group
    from rich.text import Text

    from scheduler_service.cli.output import plain

    seen = client.status()
    running = list(islice(client.runs(state=["running"], limit=_RUNS)["items"], _RUNS))
    parts: list[RenderableType] = [
        Text.assemble((f"{datetime.now().astimezone():%H:%M:%S}  ", "bold"), plain(leader_text(seen))),
        *(Text(sentence, "bold red") for sentence in redis_warnings(seen)),
        _last_hour(client),
        Text(),
        _queues(client.queues()),
        Text(),
        _workers(client.workers() if seen["leader_answers"] else ()),
        Text(),
        _runs(running),
    ]
    return Group(*parts)


def _last_hour(client: "Client") -> "RenderableType":
    from rich.text import Text

    since = datetime.now(UTC) - _HOUR
    points = client.trends(since=since.isoformat())["points"]
    sums = {name: sum(point[name] for point in points) for name in ("started", "completed", "failed", "missed")}
    words = ", ".join(f"{number:,} {name}" for name, number in sums.items())
    return Text.assemble("last hour: ", words, "  ", (sparkline([point["started"] for point in points]), "cyan"))


def sparkline(figures: Sequence[int]) -> str:
    """Draw figures as bars of eighths of a line; none is drawn as the lowest bar."""
    most = max(figures, default=0)
    return "".join(_BARS[figure * (len(_BARS) - 1) // most if most else 0] for figure in figures)


def _queues(queues: Sequence[Mapping[str, Any]]) -> "Table":
    from scheduler_service.cli.output import at_least

    table = _table("queue", "state", "lag", "waiting", "pending", "running", "workers")
    for queue in queues:
        state = "paused" if queue["paused"] else "" if queue["workers"] else "no worker"
        waiting = at_least(queue["waiting"], is_exact=queue["waiting_is_exact"])
        cells = (queue["lag"], waiting, queue["pending"], queue["running"], queue["workers"])
        _add(table, queue["name"], state, *cells)
    return table


def _workers(workers: Sequence[Mapping[str, Any]]) -> "Table":
    from scheduler_service.cli.output import near

    table = _table("worker", "busy", "queues", "reported")
    for worker in sorted(workers, key=lambda worker: str(worker["name"])):
        busy = f"{len(worker['running'])} of {worker['concurrency']}"
        reported = near(worker["last_seen_at"]) if worker["alive"] else f"silent, {near(worker['last_seen_at'])}"
        _add(table, worker["name"], busy, ", ".join(worker["queues"]), reported)
    return table


def _runs(runs: Sequence[Mapping[str, Any]]) -> "Table":
    from scheduler_service.cli.output import near

    table = _table("runs now", "task", "worker", "started", "progress")
    for run in runs:
        _add(table, run["run_id"], run["task"], run["worker"], near(run["started_at"]), progress_bar(run["progress"]))
    return table


def _table(*columns: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for name in columns:
        table.add_column(name, no_wrap=name != "progress", overflow="ellipsis" if name != columns[0] else "ignore")
    return table


def _add(table: "Table", *cells: Any) -> None:
    from scheduler_service.cli.output import plain

    table.add_row(*(plain(cell) for cell in cells))
