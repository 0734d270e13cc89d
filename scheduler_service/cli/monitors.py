"""`itinerary monitors`: list, show, set and delete monitors; a new one's token is printed once."""

import json
from typing import Annotated, Any

import typer

from itinerary.protocol.errors import BadValue
from scheduler_service.cli.connect import json_value, open_client
from scheduler_service.cli.status import Json

Id = Annotated[str, typer.Argument(help="The monitor's id.", show_default=False)]

monitors = typer.Typer(help="Monitors: schedules that expect a ping from outside.", no_args_is_help=True)


@monitors.command("list")
def list_monitors(as_json: Json = False) -> None:
    """List the monitors with their states."""
    from scheduler_service.cli.output import none_found, print_json, print_table, when

    with open_client() as client:
        found = client.monitors()
    if as_json:
        print_json([dict(monitor) for monitor in found])
        return
    rows = [
        (m["monitor_id"], m["state"], when(m["last_ping_at"]), when(m["expected_at"]), m["grace"], m["title"])
        for m in found
    ]
    columns = ("monitor", "state", "last ping", "expected", "grace", "title")
    add = "itinerary monitors set backup --cron '0 2 * * *' --timezone Europe/Berlin"
    print_table(columns, rows, none_found("monitors", filtered=False, add=add), whole=("monitor",), spare=("title",))


@monitors.command("show")
def show_monitor(monitor_id: Id, as_json: Json = False) -> None:
    """Show one monitor with its last pings."""
    with open_client() as client:
        _show(client.monitor(monitor_id), as_json)


@monitors.command("set")
def set_monitor(
    monitor_id: Id,
    cron: Annotated[str | None, typer.Option(help="Cron expression of its pings.")] = None,
    every: Annotated[str | None, typer.Option(help="Interval from one ping to the next, such as 1h.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Any schedule, as JSON.")] = None,
    calendars: Annotated[str | None, typer.Option(help="Its calendars, as JSON; '' for none.")] = None,
    timezone: Annotated[str | None, typer.Option("--timezone", "--tz", help="IANA name of the zone.")] = None,
    grace: Annotated[str | None, typer.Option(help="How late a ping may be, such as 10m.")] = None,
    title: Annotated[str | None, typer.Option(help="Title.")] = None,
    description: Annotated[str | None, typer.Option(help="Description.")] = None,
    paused: Annotated[bool | None, typer.Option("--paused/--no-paused", help="Whether nothing is expected.")] = None,
    as_json: Json = False,
) -> None:
    """Define a monitor, or change what is given of it."""
    from itinerary.client.transport import ApiError

    change: dict[str, Any] = {"grace": grace, "title": title, "description": description, "paused": paused}
    change = {name: value for name, value in change.items() if value is not None}
    if calendars is not None:
        change["calendars"] = json_value(calendars, "--calendars") if calendars else None
    wanted = _schedule(cron, every, json_value(schedule, "--schedule"), timezone)
    if wanted is not None:
        change["schedule"] = wanted
    with open_client() as client:
        try:
            there = client.monitor(monitor_id)
        except ApiError as error:
            if error.status != 404:
                raise
            there = None
        fields = ("title", "schedule", "calendars", "grace", "description", "paused")
        kept = {} if there is None else {name: there.get(name) for name in fields if there.get(name) is not None}
        if "schedule" not in change and there is None:
            raise BadValue("--cron", None, "give --cron, --every or --schedule: a new monitor needs a schedule")
        _show(client.put_monitor(monitor_id, {**kept, **change}), as_json)


@monitors.command("token")
def renew_token(monitor_id: Id) -> None:
    """Replace the token of a monitor and print the new one."""
    with open_client() as client:
        print(client.renew_monitor_token(monitor_id))


@monitors.command("delete")
def delete_monitor(monitor_id: Id) -> None:
    """Delete a monitor with its pings."""
    from scheduler_service.cli.output import print_message

    with open_client() as client:
        client.delete_monitor(monitor_id)
    print_message(f"{monitor_id} deleted; its token is worth nothing any more")


def _schedule(cron: str | None, every: str | None, given: Any, timezone: str | None) -> Any:
    found = [
        *([] if cron is None else [{"kind": "cron", "expr": cron}]),
        *([] if every is None else [{"kind": "interval", "every": every}]),
        *([] if given is None else [given]),
    ]
    if len(found) > 1:
        raise BadValue("--cron", cron, "give one of --cron, --every and --schedule")
    if not found:
        return None
    return found[0] if timezone is None else {**found[0], "timezone": timezone}


def _show(monitor: Any, as_json: bool) -> None:
    from scheduler_service.cli.output import print_fields, print_json, when

    if as_json:
        print_json(dict(monitor))
        return
    pings = [
        f"{when(ping['at'])}  {ping['outcome']}{'' if ping['duration'] is None else '  ' + ping['duration']}"
        for ping in (monitor.get("pings") or [])[:20]
    ]
    address = f"POST /api/v1/monitors/{monitor['monitor_id']}/ping"
    print_fields(
        [
            ("monitor", monitor["monitor_id"]),
            ("title", monitor["title"]),
            ("state", monitor["state"]),
            ("expected", when(monitor["expected_at"])),
            ("calendars", None if monitor.get("calendars") is None else json.dumps(monitor["calendars"])),
            ("grace", monitor["grace"]),
            ("last ping", when(monitor["last_ping_at"])),
            ("last duration", monitor["last_duration"]),
            ("description", monitor["description"]),
            ("source", monitor.get("source")),
            ("token", monitor.get("token")),
            ("ping it by", address if monitor.get("token") else None),
            ("pings", "\n".join(pings)),
        ]
    )
