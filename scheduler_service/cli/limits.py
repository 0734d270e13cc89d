"""`itinerary limits`: list, show, set and delete limits."""

from typing import Annotated, Any

import typer

from scheduler_service.cli.bounds import (
    Concurrency,
    Description,
    Rate,
    bounds_change,
)
from scheduler_service.cli.completing import limit_names
from scheduler_service.cli.connect import open_client
from scheduler_service.cli.listing import Form, Output, print_list
from scheduler_service.cli.status import Json
from scheduler_service.core.contract.limit_texts import bounds_text, read_overrides

Name = Annotated[str, typer.Argument(help="The limit's name.", show_default=False, autocompletion=limit_names)]

limits = typer.Typer(help="Limits: how many runs at a time, and how many in a window of time.", no_args_is_help=True)


@limits.command("list")
def list_limits(as_json: Json = False, output: Output = Form.TABLE) -> None:
    """List the limits with their present use."""
    from scheduler_service.cli.output import none_found, print_json

    with open_client() as client:
        found = client.limits()
    if as_json or output is Form.JSON:
        print_json([dict(limit) for limit in found])
        return
    rows = [
        (limit["name"], bounds_text(limit), _keys(limit), limit["in_flight"], _waiting(limit), limit["description"])
        for limit in found
    ]
    columns = ("limit", "bounds", "keys", "in flight", "waiting", "description")
    add = "itinerary limits set NAME --concurrency 5"
    empty = none_found("limits", filtered=False, add=add)
    print_list(output, columns, rows, empty, whole=("limit",), spare=("description",))


@limits.command("show")
def show_limit(name: Name, as_json: Json = False) -> None:
    """Show one limit."""
    with open_client() as client:
        _show(client.limit(name), as_json)


@limits.command("set")
def set_limit(
    name: Name,
    concurrency: Concurrency = None,
    rate: Rate = None,
    per_key: Annotated[
        bool | None, typer.Option("--per-key/--no-per-key", help="Whether they hold for each key by itself.")
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(help="Other bounds of a key: KEY=20, KEY=90/10s, KEY=none; may be repeated.", show_default=False),
    ] = None,
    description: Description = None,
    as_json: Json = False,
) -> None:
    """Define a limit, or change what is given of it."""
    from itinerary.client.transport import ApiError

    change = bounds_change(concurrency, rate)
    given = {
        "per_key": per_key,
        "overrides": read_overrides(override or (), "--override") or None,
        "description": description,
    }
    change |= {field: value for field, value in given.items() if value is not None}
    new = {**change, "overrides": {key: own for key, own in change.get("overrides", {}).items() if own is not None}}
    with open_client() as client:
        try:
            limit = client.patch_limit(name, change)
        except ApiError as error:
            if error.status != 404:
                raise
            limit = client.put_limit(name, new)
        _show(limit, as_json)


@limits.command("delete")
def delete_limit(name: Name) -> None:
    """Delete a limit that no job names."""
    from scheduler_service.cli.output import print_message

    with open_client() as client:
        client.delete_limit(name)
    print_message(f"{name} deleted; runs that name it wait for it no longer")


def _show(limit: Any, as_json: bool) -> None:
    from scheduler_service.cli.output import print_fields, print_json

    if as_json:
        print_json(dict(limit))
        return
    busiest = [
        f"{use['key']}: {use['in_flight']} in flight, {use['waiting']} waiting" for use in limit["busiest_keys"] or ()
    ]
    overrides = [f"{key}: {bounds_text(bounds)}" for key, bounds in limit["overrides"].items()]
    print_fields(
        [
            ("limit", limit["name"]),
            ("description", limit["description"]),
            ("bounds", bounds_text(limit)),
            ("counted", _keys(limit)),
            ("overrides", "\n".join(overrides)),
            ("in flight", limit["in_flight"]),
            ("waiting", _waiting(limit)),
            ("busiest", "\n".join(busiest)),
        ]
    )


def _keys(limit: Any) -> str:
    if not limit["per_key"]:
        return "together"
    overrides = len(limit["overrides"])
    return "per key" + (f", {overrides} override{'s' * (overrides > 1)}" if overrides else "")


def _waiting(limit: Any) -> str | None:
    if limit["waiting"] is None:
        return None
    return str(limit["waiting"]) if limit["waiting_is_exact"] else f"more than {limit['waiting']}"
