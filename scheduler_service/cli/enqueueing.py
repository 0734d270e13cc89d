"""`itinerary enqueue TASK`: run a task once."""

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from itinerary.protocol.errors import BadValue
from scheduler_service.cli.connect import after, headers_value, instant_text, json_value, limits_value, open_client
from scheduler_service.cli.progress import spinner
from scheduler_service.cli.status import Json
from scheduler_service.cli.workers import mind_unknown_task


def enqueue(
    task: Annotated[str, typer.Argument(help="Name of the Celery task, such as itinerary.echo.")],
    args: Annotated[str | None, typer.Option(help="Positional arguments, a JSON list.")] = None,
    kwargs: Annotated[str | None, typer.Option(help="Keyword arguments, a JSON object.")] = None,
    at: Annotated[str | None, typer.Option(help="The time; without an offset in your zone.")] = None,
    wait_for: Annotated[str | None, typer.Option("--in", help="The delay, such as 5m.")] = None,
    queue: Annotated[str | None, typer.Option(help="Queue.")] = None,
    priority: Annotated[int | None, typer.Option(help="0 (first) to 9 (last).")] = None,
    timeout: Annotated[str | None, typer.Option(help="Time limit of an attempt.")] = None,
    start_within: Annotated[
        str | None, typer.Option(help="A run not started this long after its time is missed.")
    ] = None,
    must_end_within: Annotated[
        str | None, typer.Option(help="A run not over this long after its time has missed its SLA.")
    ] = None,
    attempts: Annotated[int | None, typer.Option(help="Number of attempts.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="A header of its messages as NAME=VALUE; may be repeated.")
    ] = None,
    limit: Annotated[
        list[str] | None, typer.Option(help="A limit that it counts for, as NAME or NAME=KEY; may be repeated.")
    ] = None,
    fair_key: Annotated[str | None, typer.Option(help="It waits in one lane with the runs of the same key.")] = None,
    key: Annotated[str | None, typer.Option(help="Idempotency key: repeating it enqueues nothing new.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait until the run is over; status 1 unless it completed.")] = False,
    as_json: Json = False,
) -> None:
    """Run a task once, now or later."""
    from scheduler_service.cli.output import print_json, print_message

    if at is not None and wait_for is not None:
        raise BadValue("--in", wait_for, "give --at or --in, not both")
    with open_client() as client:
        run = client.enqueue(
            task,
            json_value(args, "--args"),
            json_value(kwargs, "--kwargs"),
            run_at=instant_text(at, "--at") or after(wait_for, "--in"),
            queue=queue,
            priority=priority,
            timeout=timeout,
            start_within=start_within,
            must_end_within=must_end_within,
            retry=None if attempts is None else {"max_attempts": attempts},
            headers=headers_value(header),
            limits=limits_value(limit),
            fair_key=fair_key,
            idempotency_key=key,
        )
        mind_unknown_task(client, task)
        if wait:
            with spinner(f"waiting for {run['run_id']}"):
                run = client.wait(run["run_id"], timeout=float("inf"))
    if as_json:
        print_json(run)
    else:
        outcome = _outcome(run)
        print_message(f"{run['run_id']} {run['state']}{f': {outcome}' if outcome else ''}")
    if wait and run["state"] != "completed":
        sys.exit(1)


def _outcome(run: Mapping[str, Any]) -> str:
    """Return the result, or the reason for none."""
    if run["result"] is not None:
        return json.dumps(run["result"], ensure_ascii=False)
    return run["reason"] or (run["error"] or {}).get("message") or ""
