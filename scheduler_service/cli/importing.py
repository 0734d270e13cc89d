"""The common part of every import: its options, the dry run against the stored jobs, and the apply."""

import getpass
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from itinerary.protocol.errors import ItineraryError
from scheduler_service.cli.applying import JobsToApply, TakeOver, carry_out
from scheduler_service.cli.connect import NotRunning, open_client, remedy
from scheduler_service.cli.shared_options import option, with_options
from scheduler_service.cli.status import Json

if TYPE_CHECKING:
    from scheduler_service.migrating.converted import Converted

Apply = Annotated[bool, typer.Option("--apply", help="Create the jobs; without it nothing is changed.")]
Partly = Annotated[bool, typer.Option("--partly", help="Apply although some entries cannot be moved.")]
Source = Annotated[str | None, typer.Option(help="The owner of the jobs here.", show_default=False)]
_PATIENCE = 3.0
_FOREIGN = re.compile(r"[^A-Za-z0-9._:/@-]+")
_LONGEST_PLACE = 120


_OPTIONS = (
    option("apply", Apply, False),
    option("partly", Partly, False),
    option("source", Source),
    option("take_over", TakeOver, False),
    option("as_json", Json, False),
)


@dataclass(frozen=True, slots=True)
class Imported:
    """The entries as read, what holds for all, their owner here, and what to say where there is none."""

    found: "Sequence[Converted]"
    notes: Sequence[str]
    owner: str
    empty: str | None = None


def importing(*shared: Parameter) -> Callable[[Callable[..., Imported]], Callable[..., Any]]:
    """Give a function that reads entries the options of every import: it becomes the command."""

    def decorated(read: Callable[..., Imported]) -> Callable[..., Any]:
        @with_options((*shared, *_OPTIONS))
        @wraps(read)
        def command(
            *, apply: bool, partly: bool, source: str | None, take_over: bool, as_json: bool, **given: Any
        ) -> None:
            imported = read(**given)
            owner = source or imported.owner
            _finish(imported.found, imported.notes, owner, apply, partly, take_over, as_json)
            if imported.empty is not None:
                print(f"itinerary: {imported.empty}", file=sys.stderr)

        return command

    return decorated


def _finish(
    found: "Sequence[Converted]",
    notes: Sequence[str],
    source: str,
    apply: bool,
    partly: bool,
    take_over: bool,
    as_json: bool,
) -> None:
    """Show the entries and the plan against the stored jobs, or apply them."""
    from scheduler_service.cli.output import print_json, print_message
    from scheduler_service.cli.plans import print_plan
    from scheduler_service.cli.shadows import converted_body, print_converted

    bodies = [dict(each.body) for each in found if each.body is not None and each.left_out is None]
    if not apply:
        plan = _compared(JobsToApply(source, bodies, True, take_over))
        if as_json:
            items = [converted_body(each, now()) for each in found]
            print_json({"source": source, "items": items, "notes": list(notes), "plan": plan})
            return
        print_converted(found, notes, now(), plan)
        if plan is not None:
            print_plan(plan, entries=False)
        print_message("nothing was changed; --apply creates these jobs")
        return
    if not as_json:
        print_converted(found, notes, now())
    refused = [each.name for each in found if each.refused]
    if refused and not partly:
        names = f"{refused[0]}{', ...' if len(refused) > 1 else ''}"
        raise ItineraryError(f"nothing was applied, {len(refused)} cannot be moved ({names}): --partly to go on")
    with open_client() as client:
        carry_out(client, JobsToApply(source, bodies, True, take_over), dry_run=False, yes=True, as_json=as_json)


def _compared(wanted: JobsToApply) -> Mapping[str, Any] | None:
    """Return the plan against the stored jobs; None if no API answers, which it prints."""
    from itinerary.client.transport import NoAnswer

    try:
        with open_client(timeout=_PATIENCE, retries=0) as client:
            return wanted.plan(client)
    except NoAnswer:
        print(f"itinerary: not compared with what is stored, as no API answers; {remedy()}", file=sys.stderr)
    except NotRunning as exc:
        print(f"itinerary: not compared with what is stored: {exc}", file=sys.stderr)
    except ItineraryError as exc:
        print(f"itinerary: applying it would be refused: {exc}", file=sys.stderr)
    return None


def now() -> int:
    """Return the present instant."""
    return time.time_ns() // 1_000


def owner_of(kind: str, file: str) -> str:
    """Return the source of a file, for one machine and one user: applying it must not delete another's jobs."""
    host = socket.gethostname()
    place = f"{host}:{Path(file).absolute()}" if file != "-" else f"{_user()}@{host}"
    return f"{kind}:{_FOREIGN.sub('-', place)[-_LONGEST_PLACE:]}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())
