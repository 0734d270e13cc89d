"""`itinerary sessions` and `itinerary share`: who is signed in, which pages are shared; end both."""

from typing import Annotated

import typer

from scheduler_service.cli.connect import open_client
from scheduler_service.cli.status import Json

Number = Annotated[int, typer.Argument(help="Its number in the list.", show_default=False, min=1)]

sessions = typer.Typer(help="Sessions: browsers that are signed in.", no_args_is_help=True)
share = typer.Typer(help="Links that show one page to somebody without a login.", no_args_is_help=True)


@sessions.command("list")
def list_sessions(as_json: Json = False) -> None:
    """List the browsers that are signed in, those in use last first."""
    from scheduler_service.cli.output import print_json, print_table, when

    with open_client() as client:
        found = client.sessions()
    if as_json:
        print_json([dict(one) for one in found])
        return
    rows = [
        (
            one["session_id"], one["name"], one.get("address") or "-", when(one["seen_at"]), when(one["ends_at"]),
            one["browser"],
        )
        for one in found
    ]  # fmt: skip
    columns = ("session", "name", "address", "seen", "until", "browser")
    print_table(columns, rows, "nobody is signed in", whole=("session",), spare=("browser",))


@sessions.command("end")
def end_session(number: Number) -> None:
    """End a session: its browser signs in again."""
    with open_client() as client:
        client.end_session(number)
    print(f"session {number} is ended")


@share.command("create")
def create_link(
    page: Annotated[str, typer.Argument(help="Path and query of the page, such as /jobs.", show_default=False)],
    lasts: Annotated[str, typer.Option("--for", help="How long, an hour to 90 days.")] = "7d",
    as_json: Json = False,
) -> None:
    """Create a link and print it; its secret is shown this once."""
    from scheduler_service.cli.output import print_json

    with open_client() as client:
        link = client.share_page(page, lasts)
        url = f"{client.base_url}{link['path']}"
    if as_json:
        print_json(dict(link))
    else:
        print(url)


@share.command("list")
def list_links(as_json: Json = False) -> None:
    """List the links that last, the newest first."""
    from scheduler_service.cli.output import print_json, print_table, when

    with open_client() as client:
        found = client.share_links()
    if as_json:
        print_json([dict(one) for one in found])
        return
    rows = [(one["link_id"], one["page"], one["created_by"], when(one["ends_at"])) for one in found]
    print_table(("link", "page", "shared by", "until"), rows, "nothing is shared", whole=("link",), spare=("page",))


@share.command("revoke")
def revoke_link(number: Number) -> None:
    """Revoke a link: it shows nothing any more."""
    with open_client() as client:
        client.revoke_share_link(number)
    print(f"link {number} is revoked")
