"""The filters of runs as options of commands, each declared once."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from scheduler_service.cli.bulk import past_text
from scheduler_service.cli.completing import job_ids, states
from scheduler_service.cli.shared_options import option

JobFilter = Annotated[str | None, typer.Option("--job", help="Only runs of this job.", autocompletion=job_ids)]
StateFilter = Annotated[
    list[str] | None, typer.Option("--state", help="Only these states; may be repeated.", autocompletion=states)
]
_Queue = Annotated[str | None, typer.Option("--queue", help="Only runs of this queue.")]
_Task = Annotated[str | None, typer.Option("--task", help="Only runs of this task.")]
_LimitName = Annotated[str | None, typer.Option("--limit-name", help="Only runs that count for this limit.")]
_LimitKey = Annotated[str | None, typer.Option("--limit-key", help="Only runs with this key of a limit.")]
_Since = Annotated[str | None, typer.Option(help="Scheduled at or after this time, or so long ago, such as 1h.")]
_Until = Annotated[str | None, typer.Option(help="Scheduled before this time, or so long ago.")]

RUN_FILTERS: Final = (
    option("job", JobFilter), option("state", StateFilter), option("queue", _Queue), option("since", _Since),
    option("until", _Until), option("task", _Task), option("limit_name", _LimitName), option("limit_key", _LimitKey),
)  # fmt: skip
_AS_GIVEN: Final = ("state", "queue", "task", "limit_name", "limit_key")


def run_filters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filters as the client takes them, from the options of a command."""
    times = {name: past_text(given[name], f"--{name}") for name in ("since", "until")}
    return {"job_id": given["job"], **times, **{name: given[name] for name in _AS_GIVEN}}
