"""`itinerary runs cancel|retry|move|delete`: of named runs one by one or in bulk, of what a filter finds in bulk."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from scheduler_service.cli.bulk import DryRun, Everything, Yes, carry_out, is_bulk
from scheduler_service.cli.connect import open_client
from scheduler_service.cli.job_options import Key
from scheduler_service.cli.run_filters import RUN_FILTERS, run_filters
from scheduler_service.cli.several import NothingToDo, each
from scheduler_service.cli.shared_options import option, with_options
from scheduler_service.cli.status import Json

RunIds = Annotated[list[str] | None, typer.Argument(metavar="[RUN_ID...]", help="Ids of runs.", show_default=False)]
_OF_A_FILTER: Final = (
    *RUN_FILTERS, option("everything", Everything, False), option("dry_run", DryRun, False), option("yes", Yes, False),
    option("as_json", Json, False),
)  # fmt: skip


@with_options(_OF_A_FILTER)
def cancel(run_ids: RunIds = None, **given: Any) -> None:
    """Request that runs never start, or stop. With a filter, all that it finds; --dry-run shows them first."""
    from scheduler_service.cli.output import print_message
    from scheduler_service.core.run_state import FINAL, RunState

    filters = run_filters(given)
    if is_bulk(run_ids, filters, given["everything"]):
        _in_bulk("cancel", filters, given)
        return

    def cancelled(run_id: str) -> Mapping[str, Any]:
        run = client.cancel(run_id)
        if run["state"] in FINAL - {RunState.CANCELLED}:
            raise NothingToDo(f"run {run_id} is {run['state']}: it cannot be cancelled any more")
        return run

    with open_client() as client:
        each(
            run_ids or [], cancelled, given["as_json"],
            lambda run_id, run: print_message(
                f"{run_id} is {run['state']}" + (", cancel requested" if run["cancel_requested_at"] else "")
            ),
        )  # fmt: skip


@with_options(_OF_A_FILTER)
def retry(run_ids: RunIds = None, key: Key = None, **given: Any) -> None:
    """Run the tasks of final runs again, each as a new run. With a filter, all that it finds: name the states."""
    from scheduler_service.cli.output import print_message

    filters = run_filters(given)
    if is_bulk(run_ids, filters, given["everything"]):
        _in_bulk("retry", filters, given, key=key)
        return
    named = run_ids or []

    def again(run_id: str) -> Mapping[str, Any]:
        own = key if key is None or len(named) == 1 else f"{key} {run_id}"
        return client.retry(run_id, idempotency_key=own)

    with open_client() as client:
        each(named, again, given["as_json"], lambda run_id, run: print_message(f"{run['run_id']} runs {run_id} again"))


@with_options(_OF_A_FILTER)
def move(
    run_ids: RunIds = None,
    to: Annotated[str, typer.Option("--to", help="The queue to move to.", show_default=False)] = "",
    **given: Any,
) -> None:
    """Move runs that wait to another queue. What was sent to its queue stays there."""
    if not to:
        raise typer.BadParameter("name the queue with --to")
    _named_or_filtered("move", run_ids, given, to=to)


@with_options(_OF_A_FILTER)
def delete(run_ids: RunIds = None, **given: Any) -> None:
    """Delete runs that are over, for ever; those of schedules stay. With a filter: name the states."""
    _named_or_filtered("delete", run_ids, given)


def _named_or_filtered(action: str, run_ids: list[str] | None, given: Mapping[str, Any], to: str | None = None) -> None:
    filters = run_filters(given)
    is_bulk(run_ids, filters, given["everything"])
    _in_bulk(action, {**filters, "run_ids": run_ids or None}, given, to=to)


def _in_bulk(
    action: str, filters: Mapping[str, Any], given: Mapping[str, Any], *, key: str | None = None, to: str | None = None
) -> None:
    asked: dict[str, Any] = {**filters, "everything": given["everything"], **({} if to is None else {"to": to})}
    carry_out(
        lambda client: client.plan_bulk_runs(action, **asked),
        lambda client: client.bulk_runs(action, **asked, idempotency_key=key),
        dry_run=given["dry_run"], yes=given["yes"], as_json=given["as_json"],
    )  # fmt: skip
