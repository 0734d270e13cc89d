"""`itinerary status`: who leads, what is going on."""

from typing import Annotated

import typer

from scheduler_service.cli.connect import open_client

Json = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]


def status(as_json: Json = False) -> None:
    """Who leads since when, and what the leader sees."""
    from scheduler_service.cli.output import print_fields, print_json, when

    with open_client() as client:
        seen = client.status()
    if as_json:
        print_json(seen)
        return
    times = {"since", "last_rebuild_at", "last_iteration_at", "oldest_due_at"}
    lines = [(name, when(value) if name in times else value) for name, value in seen.items()]
    print_fields([("api", client.base_url), *((name.replace("_", " "), value) for name, value in lines)])
