"""`itinerary failures`: what failed lately, grouped by cause."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Final

import typer

from scheduler_service.cli.bulk import past_text
from scheduler_service.cli.connect import open_client
from scheduler_service.cli.listing import Form, Output, print_list
from scheduler_service.cli.progress import counted
from scheduler_service.cli.status import Json

_MOST: Final = 1000
_STATES: Final = ("failed", "missed")


@dataclass(slots=True)
class Group:
    """Runs of one job or task that ended alike, the newest first."""

    what: str
    cause: str
    newest: Mapping[str, Any]
    count: int = 0


def failures(
    within: Annotated[str, typer.Option(help="Due since so long ago, such as 1h or 7d, or since a time.")] = "24h",
    job: Annotated[str | None, typer.Option("--job", help="Only runs of this job.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Only runs of this queue.")] = None,
    as_json: Json = False,
    output: Output = Form.TABLE,
) -> None:
    """Group the latest 1,000 failed and missed runs by job and error, the largest group first."""
    from scheduler_service.cli.output import near, print_json

    since = past_text(within, "--within")
    with open_client() as client:
        found = client.all_runs(job_id=job, state=list(_STATES), queue=queue, since=since)
        groups = grouped(islice(counted(found, "reading failures"), _MOST))
    if as_json or output is Form.JSON:
        print_json([
            {"what": g.what, "cause": g.cause, "count": g.count, "newest": dict(g.newest)} for g in groups
        ])  # fmt: skip
        return
    rows = [
        (g.count, g.what, g.cause, near(g.newest["finished_at"] or g.newest["due_at"]), g.newest["run_id"])
        for g in groups
    ]
    columns = ("count", "of", "cause", "last", "newest run")
    print_list(output, columns, rows, f"nothing failed since {since}", whole=("newest run",), spare=("last",))


def grouped(runs: Iterable[Mapping[str, Any]]) -> list[Group]:
    """Return the groups of these runs, which come newest first."""
    from scheduler_service.cli.runs import why_text

    groups: dict[tuple[str, str], Group] = {}
    for run in runs:
        what, cause = run["job_id"] or run["task"], why_text(run) or run["state"]
        groups.setdefault((what, cause), Group(what, cause, run)).count += 1
    return sorted(groups.values(), key=lambda group: -group.count)
