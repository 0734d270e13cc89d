"""`itinerary zones`: the zone rules in force, and the jobs that other rules would move."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from scheduler_service.cli.connect import open_client
from scheduler_service.cli.status import Json

_NAMES: Final = {"in-force": "in_force", "before": "before", "installed": "installed"}
_WITHIN_SECONDS: Final = 60.0

zones = typer.Typer(help="Zone rules: those in force, and the jobs that other rules would move.", no_args_is_help=True)


@zones.command("show")
def show_zones(as_json: Json = False) -> None:
    """Show the zone rules in force, those adopted before, and whether a host has others."""
    from scheduler_service.cli.output import print_fields, print_json, print_table, when

    with open_client() as client:
        found = client.zone_rules()
    if as_json:
        print_json(dict(found))
        return
    print_fields(
        [
            ("in force", f"{found['version']} ({found['digest'][:12]})"),
            ("leader", found["leader"]),
            ("api's host", f"{found['installed_source']} ({found['installed_digest'][:12]})"),
            ("standby", found["standby"]),
        ]
    )
    rows = [
        (one["version"], one["digest"][:12], when(one["effective_from"]), one["source"], one["holder"])
        for one in found["adopted"]
    ]
    columns = ("adopted", "digest", "from", "source", "holder")
    print_table(columns, rows, "nothing was adopted yet: no leader led", whole=("adopted",), spare=("holder", "digest"))
    if found["difference"] is not None:
        print(f"itinerary: zone rules of the API's host are {found['difference']}", file=sys.stderr)


@zones.command("diff")
def diff_zones(
    before: Annotated[
        str, typer.Option("--from", help="in-force, before (the last adoption), installed, or a folder or wheel.")
    ] = "in-force",
    after: Annotated[
        str, typer.Option("--to", help="installed (on the API's host), in-force, or a folder or wheel of zone files.")
    ] = "installed",
    days: Annotated[int, typer.Option(help="How many days ahead to compare.", min=1, max=3660)] = 730,
    limit: Annotated[int, typer.Option(help="How many jobs to list.", min=1, max=10_000)] = 1000,
    as_json: Json = False,
) -> None:
    """List the jobs whose coming times change by other zone rules, were they adopted now. Changes nothing."""
    from scheduler_service.cli.output import print_json

    sides = _side(before, "--from"), _side(after, "--to")
    with open_client(timeout=_WITHIN_SECONDS) as client:
        found = client.zone_rules_diff(*sides, days=days, limit=limit)
    if as_json:
        print_json(dict(found))
    else:
        _print(found)


def _side(given: str, option: str) -> str | Mapping[str, str]:
    if given in _NAMES:
        return _NAMES[given]
    from scheduler_service.cli.zone_files import read_zone_files

    rules = read_zone_files(Path(given), option)
    return {"version": rules.version, "files": rules.packed()}


def _print(found: Mapping[str, Any]) -> None:
    from scheduler_service.cli.output import print_table, when

    print(_summary(found))
    zone_rows = [(zone["timezone"], when(zone["first_at"])) for zone in found["zones"]]
    if not zone_rows:
        return
    print_table(("zone", "clocks differ from"), zone_rows, "", whole=("zone",))
    rows = [
        (job["job_id"], job["timezone"], when(job["before"]), when(job["after"]), _shift(job)) for job in found["jobs"]
    ]
    none = "no job changes" if not found["unchecked"] else "no job that was compared changes"
    print_table(("job", "zone", "no more at", "new at", "by"), rows, none, whole=("job",), spare=("zone",))
    if found["changed"] > len(rows):
        print(f"{len(rows):,} of {found['changed']:,} jobs; --limit N lists more of them", file=sys.stderr)
    if found["unchecked"]:
        print(f"itinerary: {found['unchecked']} jobs would take too long to compare; try fewer --days", file=sys.stderr)


def _summary(found: Mapping[str, Any]) -> str:
    pair = f"from {found['from']} to {found['to']}"
    if found["same"]:
        return f"{pair}: the same files"
    if not found["zones"]:
        return f"{pair}: no clock of {found['compared']} jobs differs until {found['end'][:10]}"
    return f"{pair}: {found['changed']} of {found['compared']} jobs change until {found['end'][:10]}"


def _shift(job: Mapping[str, Any]) -> str | None:
    from itinerary.protocol.instants import format_duration, parse_instant

    if job["before"] is None or job["after"] is None:
        return None
    by = parse_instant(job["after"]) - parse_instant(job["before"])
    return f"{'later' if by > 0 else 'earlier'} by {format_duration(abs(by))}"
