"""`itinerary views`: lists of the dashboard with their filters, saved under names."""

from typing import Annotated

import typer

from scheduler_service.cli.connect import open_client
from scheduler_service.cli.listing import Form, Output, print_list
from scheduler_service.cli.status import Json

Name = Annotated[str, typer.Argument(help="The view's name.", show_default=False)]
Personal = Annotated[bool, typer.Option("--personal", help="Your own view, which nobody else sees.")]

views = typer.Typer(help="Saved views: lists of the dashboard under names.", no_args_is_help=True)


@views.command("list")
def list_views(as_json: Json = False, output: Output = Form.TABLE) -> None:
    """List the views of all and your own."""
    from scheduler_service.cli.output import none_found, print_json, when

    with open_client() as client:
        found = client.views()
    if as_json or output is Form.JSON:
        print_json([dict(view) for view in found])
        return
    rows = [
        (view["name"], view["address"], "me" if view["personal"] else "all", view["saved_by"], when(view["updated_at"]))
        for view in found
    ]
    empty = none_found("views", filtered=False, add='itinerary views save NAME "/runs?state=failed"')
    print_list(output, ("view", "address", "for", "by", "saved"), rows, empty, whole=("view",), spare=("saved", "by"))


@views.command("save")
def save_view(
    name: Name,
    address: Annotated[str, typer.Argument(help="Path and query, such as /runs?state=failed.", show_default=False)],
    personal: Personal = False,
    as_json: Json = False,
) -> None:
    """Save a list under a name, in place of what the name meant before."""
    from scheduler_service.cli.output import print_json, print_message

    with open_client() as client:
        view = client.put_view(name, address, personal=personal)
    if as_json:
        print_json(dict(view))
    else:
        print_message(f"{view['name']} leads to {view['address']}")


@views.command("delete")
def delete_view(name: Name, personal: Personal = False) -> None:
    """Delete a view."""
    from scheduler_service.cli.output import print_message

    with open_client() as client:
        client.delete_view(name, personal=personal)
    print_message(f"{name} deleted")
