"""`itinerary jobs apply FILE`: jobs as code, planned first, then applied as planned."""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from itinerary.protocol.errors import BadValue, ItineraryError
from scheduler_service.cli.app_process import AppInterpreter, run_jobs_there
from scheduler_service.cli.connect import open_client
from scheduler_service.cli.status import Json

if TYPE_CHECKING:
    from itinerary.client.sync import Client

Source = Annotated[
    str | None,
    typer.Option(
        help="The owner of the jobs; by default as in the file, else its name; '' for none.", show_default=False
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
Check = Annotated[bool, typer.Option("--check", help="For CI: as --dry-run, and status 1 if anything would change.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Apply without asking.")]
Prune = Annotated[bool | None, typer.Option(help="Delete jobs that this source owns and does not name (the default).")]
TakeOver = Annotated[bool, typer.Option("--take-over", help="Take over jobs that belong to another source.")]


def apply(
    file: Annotated[str, typer.Argument(metavar="FILE", help="TOML, YAML, JSON, Python, module:schedule, module:app.")],
    source: Source = None,
    dry_run: DryRun = False,
    check: Check = False,
    yes: Yes = False,
    prune: Prune = None,
    take_over: TakeOver = False,
    as_json: Json = False,
    python: AppInterpreter = None,
) -> None:
    """Change the stored jobs to match a file: show the changes, ask, and apply exactly those.

    With --python, MODULE:APP is loaded in its own environment, by `python -m itinerary jobs`.
    """
    if python is not None:
        _apply_there(python, file, source, dry_run, {
            "--check": check, "--yes": yes, "--no-prune": prune is False, "--take-over": take_over, "--json": as_json,
        })  # fmt: skip
    from scheduler_service.jobs_as_code.reading import read_place, source_of_place

    found = read_place(file)
    named = found.source if source is None else source
    owner = source_of_place(file) if named is None else named
    if prune and not owner:
        raise BadValue("--prune", True, "name a source: only what a source owns can be pruned")
    unsure = named is None and prune is None
    wanted = JobsToApply(
        owner or None, found.jobs, prune is not False and bool(owner), take_over, unsure, found.monitors
    )
    with open_client() as client:
        changes = _apply_calendars(client, found.calendars, dry_run=dry_run or check, yes=yes)
        if dry_run or check:
            wanted = _without(wanted, {calendar_id for calendar_id, change in changes.items() if change == "added"})
        differs = carry_out(client, wanted, dry_run=dry_run or check, yes=yes, as_json=as_json) or bool(changes)
    if check and differs:
        raise typer.Exit(1)


def _apply_calendars(
    client: "Client", wanted: Mapping[str, Mapping[str, Any]], *, dry_run: bool, yes: bool
) -> Mapping[str, str]:
    """Show which calendars differ, ask, and define them; return the differences. None is deleted."""
    from scheduler_service.jobs_as_code.calendars import changes_of

    changes = changes_of(wanted, {one.calendar_id: one for one in client.calendars()}) if wanted else {}
    for calendar_id, change in changes.items():
        typer.echo(f"calendar {calendar_id}: {change}", err=True)
    if changes and not dry_run:
        if not yes:
            _ask()
        for calendar_id in changes:
            client.put_calendar(calendar_id, wanted[calendar_id])
    return changes


def _without(wanted: "JobsToApply", added: Collection[str]) -> "JobsToApply":
    """Return what can be planned before these calendars are there, and say what names them."""
    jobs = {job["job_id"]: job for job in wanted.jobs if _names(job, added)}
    monitors = {name: one for name, one in (wanted.monitors or {}).items() if _names(one, added)}
    if not jobs and not monitors:
        return wanted
    named = ", ".join([*jobs, *(f"monitor {name}" for name in monitors)])
    typer.echo(f"planned as if without calendars, until the new ones are there: {named}", err=True)
    plain = {name: {**one, "calendars": None} for name, one in monitors.items()}
    return replace(
        wanted,
        jobs=[{**job, "calendars": None} if job["job_id"] in jobs else job for job in wanted.jobs],
        monitors=None if wanted.monitors is None else {**wanted.monitors, **plain},
    )


def _names(body: Mapping[str, Any], added: Collection[str]) -> bool:
    """Whether the job or monitor names one of these calendars; what is wrong in it, the service says."""
    named = body.get("calendars")
    if not isinstance(named, Mapping):
        return False
    lists = [value if isinstance(value, list) else [value] for value in named.values()]
    return any(calendar_id in one for one in lists for calendar_id in added)


def _apply_there(python: str, place: str, source: str | None, dry_run: bool, flags: Mapping[str, bool]) -> NoReturn:
    if ":" not in place:
        raise BadValue("--python", python, "leave it out, or name MODULE:APP: the service itself reads a file")
    if source == "":
        raise BadValue("--source", source, "name the owner: jobs that an app declares have one")
    options = [name for name, given in flags.items() if given] + (["--source", source] if source else [])
    run_jobs_there(python, "plan" if dry_run or flags["--check"] else "apply", place, *options)


@dataclass(frozen=True, slots=True)
class JobsToApply:
    """The request: the jobs of a source, and options. `unsure`: only the file's name implies the owner."""

    source: str | None
    jobs: list[dict[str, Any]]
    prune: bool
    take_over: bool
    unsure: bool = False
    monitors: Mapping[str, Mapping[str, Any]] | None = None

    def plan(self, client: "Client") -> Mapping[str, Any]:
        """Return the plan of applying."""
        return self._ask(client, prune=self.prune, dry_run=True)

    def apply(self, client: "Client", plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carry out exactly this plan. Requests pruning only if the plan deletes: it needs another role."""
        from scheduler_service.cli.plans import monitors_of

        removes = bool(plan["removed"] or monitors_of(plan)["removed"])
        return self._ask(client, prune=removes, plan_version=plan["plan_version"])

    def _ask(self, client: "Client", **how: Any) -> Mapping[str, Any]:
        return client.apply_jobs(self.source, self.jobs, take_over=self.take_over, monitors=self.monitors, **how)


def carry_out(client: "Client", wanted: JobsToApply, *, dry_run: bool, yes: bool, as_json: bool) -> bool:
    """Plan, show, ask and apply; exactly the plan shown is applied, or nothing. Return whether anything differs."""
    from scheduler_service.cli.output import print_json, print_message
    from scheduler_service.cli.plans import monitors_of, print_plan

    plan = wanted.plan(client)
    if not as_json:
        print_plan(plan)
    if wanted.unsure:
        _refuse_anothers(plan)
    differs = any(part[name] for part in (plan, monitors_of(plan)) for name in ("added", "changed", "removed"))
    if dry_run or not differs:
        if as_json:
            print_json(plan)
        return differs
    if not yes:
        _ask()
    done = wanted.apply(client, plan)
    if as_json:
        print_json(done)
    else:
        print_message("applied")
    for entry in monitors_of(done)["added"]:
        monitor_id = entry["monitor_id"]
        typer.echo(
            f"monitor {monitor_id} is new; to ping it, get its token: itinerary monitors token {monitor_id}", err=True
        )
    return differs


def _refuse_anothers(plan: Mapping[str, Any]) -> None:
    """Refuse to delete jobs that belong to a file elsewhere: two folders may have the same name."""
    from scheduler_service.cli.plans import monitors_of

    theirs = [job["job_id"] for job in plan["removed"]] + [one["monitor_id"] for one in monitors_of(plan)["removed"]]
    if theirs and not (plan["changed"] or plan["unchanged"]):
        named = ", ".join(theirs[:3]) + (", ..." if len(theirs) > 3 else "")
        advice = (
            f"a file of this name has other jobs ({named}): say `source` in yours, or --source; --prune deletes them"
        )
        raise BadValue("source", plan["source"], advice)


def _ask() -> None:
    if not sys.stdin.isatty():
        raise BadValue("--yes", None, "no terminal to ask on: give --yes, or --dry-run to only show the plan")
    if not typer.confirm("Apply?", err=True):
        raise ItineraryError("nothing was applied")
