"""`jobs import-beat`, `jobs import-crontab` and `shadow`: migrations, shown before they are applied."""

import getpass
import os
import re
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from itinerary.protocol.errors import ItineraryError
from scheduler_service.cli.applying import JobsToApply, TakeOver, carry_out
from scheduler_service.cli.beat_sources import (
    AppInterpreter,
    BeatApp,
    BeatPlace,
    FromDatabase,
    FromJson,
    FromRedBeat,
    OnlyConfig,
    RedBeatPrefix,
    Zone,
    text_of,
)
from scheduler_service.cli.connect import instant_text, open_client, remedy
from scheduler_service.cli.status import Json

if TYPE_CHECKING:
    from scheduler_service.migrating.converted import Converted

T = TypeVar("T")

Apply = Annotated[bool, typer.Option("--apply", help="Create the jobs; without it nothing is changed.")]
Partly = Annotated[bool, typer.Option("--partly", help="Apply although some entries cannot be moved.")]
Source = Annotated[str | None, typer.Option(help="The owner of the jobs here.", show_default=False)]
_MOST_HOURS = 24 * 400
_PATIENCE = 3.0
_FOREIGN = re.compile(r"[^A-Za-z0-9._:/@-]+")
_LONGEST_PLACE = 120


def import_beat(
    place: BeatApp = None,
    from_json: FromJson = None,
    python: AppInterpreter = None,
    from_database: FromDatabase = None,
    from_redbeat: FromRedBeat = None,
    redbeat_prefix: RedBeatPrefix = "redbeat:",
    timezone: Zone = None,
    only_config: OnlyConfig = False,
    apply: Apply = False,
    partly: Partly = False,
    source: Source = None,
    take_over: TakeOver = False,
    as_json: Json = False,
) -> None:
    """Translate a beat schedule and show each difference; with --apply, create those jobs.

    Read from an app's beat_schedule, here or as JSON from the app's own environment (--from-json), from
    django-celery-beat's tables (--from-database) or RedBeat's keys (--from-redbeat).
    """
    from scheduler_service.migrating.beat_moving import move_entries

    read = BeatPlace(
        "jobs import-beat", place, from_json, python, from_database, from_redbeat, redbeat_prefix, timezone, only_config
    ).read(_now())
    found = [
        entry.converted for entry in move_entries(read.entries, read.app, _now(), _tracked, app_known=read.app_known)
    ]
    _finish(found, read.notes, source or read.owner, apply, partly, take_over, as_json)
    if read.empty is not None:
        print(f"itinerary: {read.empty}", file=sys.stderr)


def import_crontab(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A crontab; - for standard input (crontab -l).")],
    task: Annotated[str, typer.Option(help="Your task that runs a command; given `command` and `stdin`.")],
    system: Annotated[
        bool | None, typer.Option("--system/--user", help="Whether lines name a user; by default, in /etc.")
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="Zone of the lines; default this machine's.")] = None,
    queue: Annotated[str | None, typer.Option(help="Queue of the jobs.")] = None,
    apply: Apply = False,
    partly: Partly = False,
    source: Source = None,
    take_over: TakeOver = False,
    as_json: Json = False,
) -> None:
    """Translate a crontab and show each difference; with --apply, create those jobs."""
    from scheduler_service.migrating.crontab_file import MOST_BYTES, NOTES, read_crontab
    from scheduler_service.migrating.local_zone import local_zone

    of_system = file.startswith("/etc/") if system is None else system
    found = read_crontab(
        text_of(file, "FILE", MOST_BYTES),
        task=task,
        timezone=local_zone(timezone),
        now=_now(),
        system=of_system,
        queue=queue,
    )
    _finish(found, NOTES, source or _owner_of(file), apply, partly, take_over, as_json)


def shadow(
    place: BeatApp = None,
    from_json: FromJson = None,
    python: AppInterpreter = None,
    from_database: FromDatabase = None,
    from_redbeat: FromRedBeat = None,
    redbeat_prefix: RedBeatPrefix = "redbeat:",
    timezone: Zone = None,
    only_config: OnlyConfig = False,
    hours: Annotated[int, typer.Option(help="How far ahead.", min=1, max=_MOST_HOURS)] = 48,
    start: Annotated[str | None, typer.Option("--from", help="From this time on; default now.")] = None,
    as_json: Json = False,
) -> None:
    """Compare a beat schedule with ours over the coming hours and list the differences; runs nothing."""
    from itinerary.protocol.instants import HOUR, parse_instant
    from scheduler_service.cli.output import print_json
    from scheduler_service.cli.shadows import print_shadow, shadow_body
    from scheduler_service.migrating.beat_moving import compare_entry, move_entries

    text = instant_text(start, "--from")
    begin = _now() if text is None else parse_instant(text)
    end = begin + hours * HOUR
    read = BeatPlace(
        "shadow", place, from_json, python, from_database, from_redbeat, redbeat_prefix, timezone, only_config
    ).read(begin)
    lines: list[dict[str, Any]] = []
    for each in _tracked(move_entries(read.entries, read.app, begin, clocks=False, app_known=read.app_known)):
        found = compare_entry(each, read.app, begin, end)
        lines.append(shadow_body(each.entry.name, found, each.converted.refused, each.converted.left_out))
    if as_json:
        print_json({"items": lines})
    else:
        print_shadow(lines, begin, end)
    if read.empty is not None:
        print(f"itinerary: {read.empty}", file=sys.stderr)


def _finish(
    found: "Sequence[Converted]",
    notes: Sequence[str],
    source: str,
    apply: bool,
    partly: bool,
    take_over: bool,
    as_json: bool,
) -> None:
    from scheduler_service.cli.output import print_json, print_message
    from scheduler_service.cli.shadows import converted_body, print_converted

    bodies = [dict(each.body) for each in found if each.body is not None and each.left_out is None]
    if not apply:
        items = [converted_body(each, _now()) for each in found]
        if not as_json:
            print_converted(found, notes, _now())
        plan = _compared(JobsToApply(source, bodies, True, take_over), as_json)
        if as_json:
            print_json({"source": source, "items": items, "notes": list(notes), "plan": plan})
        else:
            print_message("nothing was changed; --apply creates these jobs")
        return
    if not as_json:
        print_converted(found, notes, _now())
    refused = [each.name for each in found if each.refused]
    if refused and not partly:
        names = f"{refused[0]}{', ...' if len(refused) > 1 else ''}"
        raise ItineraryError(f"nothing was applied, {len(refused)} cannot be moved ({names}): --partly to go on")
    with open_client() as client:
        carry_out(client, JobsToApply(source, bodies, True, take_over), dry_run=False, yes=True, as_json=as_json)


def _compared(wanted: JobsToApply, as_json: bool) -> dict[str, Any] | None:
    """Return the plan against the stored jobs; None if no API answers, which it prints."""
    from itinerary.client.transport import NoAnswer
    from scheduler_service.cli.output import print_message
    from scheduler_service.cli.plans import print_plan

    try:
        with open_client(timeout=_PATIENCE, retries=0) as client:
            plan = wanted.plan(client)
    except NoAnswer:
        print(f"itinerary: not compared with what is stored, as no API answers; {remedy()}", file=sys.stderr)
        return None
    except ItineraryError as exc:
        print(f"itinerary: applying it would be refused: {exc}", file=sys.stderr)
        return None
    if not as_json:
        print_message("compared with what is stored:")
        print_plan(plan)
    return plan


def _now() -> int:
    return time.time_ns() // 1_000


def _owner_of(file: str) -> str:
    """Return the source of a crontab, for one machine and one user: applying it must not delete another's jobs."""
    host = socket.gethostname()
    place = f"{host}:{Path(file).absolute()}" if file != "-" else f"{_user()}@{host}"
    return f"crontab:{_FOREIGN.sub('-', place)[-_LONGEST_PLACE:]}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


def _tracked(items: Sequence[T]) -> Iterable[T]:
    """Yield the items, with a bar on a terminal: entries of every minute take long."""
    from rich.console import Console
    from rich.progress import track

    quiet = not sys.stderr.isatty()
    return track(items, "looking ahead", console=Console(stderr=True), transient=True, disable=quiet)
