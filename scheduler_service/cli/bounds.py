"""The options of bounds, for limits and for queues: `--concurrency 5`, `--rate 90/10s`; `none` lifts one."""

from typing import Annotated, Any

import typer

from scheduler_service.core.contract.limit_texts import read_concurrency, read_rate

Concurrency = Annotated[
    str | None, typer.Option(help="How many runs may be in flight; none: any number.", show_default=False)
]
Rate = Annotated[
    str | None,
    typer.Option(
        help="How many runs may start in a window of time, such as 90/10s; none: any number.", show_default=False
    ),
]
Description = Annotated[str | None, typer.Option(help="The purpose.", show_default=False)]


def bounds_change(concurrency: str | None, rate: str | None) -> dict[str, Any]:
    """Return the change of the bounds that were given; none of them is null."""
    change: dict[str, Any] = {}
    if concurrency is not None:
        change["concurrency"] = read_concurrency(concurrency, "--concurrency")
    if rate is not None:
        change["rate"] = read_rate(rate, "--rate")
    return change
