"""`jobs import-beat`, `jobs import-crontab` and `shadow`: moving in, looked at on paper first."""

import getpass
import os
import re
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from itinerary.protocol.errors import BadValue, ItineraryError
from scheduler_service.cli.applying import JobsToApply, TakeOver, carry_out
from scheduler_service.cli.connect import instant_text, open_client
from scheduler_service.cli.status import Json

if TYPE_CHECKING:
    from scheduler_service.migrating.converted import Moved

T = TypeVar("T")

BeatApp = Annotated[str, typer.Argument(metavar="MODULE:APP", help="Your Celery app.")]
Apply = Annotated[bool, typer.Option("--apply", help="Make the jobs; without it nothing is changed.")]
Partly = Annotated[bool, typer.Option("--partly", help="Apply although some entries cannot be moved.")]
Source = Annotated[str | None, typer.Option(help="Who owns the jobs here.", show_default=False)]
_MOST_HOURS = 24 * 400
_FOREIGN = re.compile(r"[^A-Za-z0-9._:/@-]+")
_LONGEST_PLACE = 120


def import_beat(
    place: BeatApp,
    apply: Apply = False,
    partly: Partly = False,
    source: Source = None,
    take_over: TakeOver = False,
    as_json: Json = False,
) -> None:
    """Show what an app's beat schedule is here, each difference with it; with --apply, make those jobs."""
    from scheduler_service.migrating.beat import NOTES, load_app, move_beat

    found = [entry.moved for entry in move_beat(load_app(place), _now(), _tracked)]
    _finish(found, NOTES, source or f"beat:{place}", apply, partly, take_over, as_json)


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
    """Show what a crontab's lines are here, each difference with it; with --apply, make those jobs."""
    from scheduler_service.migrating.crontab_file import NOTES, read_crontab
    from scheduler_service.migrating.local_zone import local_zone

    of_system = file.startswith("/etc/") if system is None else system
    found = read_crontab(
        _text_of(file), task=task, timezone=local_zone(timezone), now=_now(), system=of_system, queue=queue
    )
    _finish(found, NOTES, source or _owner_of(file), apply, partly, take_over, as_json)


def shadow(
    place: BeatApp,
    hours: Annotated[int, typer.Option(help="How far ahead.", min=1, max=_MOST_HOURS)] = 48,
    start: Annotated[str | None, typer.Option("--from", help="From this time on; default now.")] = None,
    as_json: Json = False,
) -> None:
    """Run an app's beat schedule and ours over the coming hours, on paper, and list where they differ."""
    from itinerary.protocol.instants import HOUR, parse_instant
    from scheduler_service.cli.output import print_json
    from scheduler_service.cli.shadows import print_shadow, shadow_body
    from scheduler_service.migrating.beat import load_app, move_beat
    from scheduler_service.migrating.comparing import compare

    app = load_app(place)
    text = instant_text(start, "--from")
    begin = _now() if text is None else parse_instant(text)
    end = begin + hours * HOUR
    lines: list[dict[str, Any]] = []
    for each in _tracked(move_beat(app, begin, clocks=False)):
        found = None if each.job is None else compare(each.entry.schedule, app, each.job.schedule, begin, end)
        lines.append(shadow_body(each.entry.name, found, each.moved.refused))
    if as_json:
        print_json({"items": lines})
    else:
        print_shadow(lines, begin, end)


def _finish(
    found: "Sequence[Moved]",
    notes: Sequence[str],
    source: str,
    apply: bool,
    partly: bool,
    take_over: bool,
    as_json: bool,
) -> None:
    from scheduler_service.cli.output import print_json, say
    from scheduler_service.cli.shadows import moved_body, print_moved

    if as_json and not apply:
        print_json({"source": source, "items": [moved_body(each, _now()) for each in found], "notes": list(notes)})
    elif not as_json:
        print_moved(found, notes, _now())
    if not apply:
        if not as_json:
            say("nothing was changed; --apply makes these jobs")
        return
    refused = [each.name for each in found if each.refused]
    if refused and not partly:
        told = f"{refused[0]}{', ...' if len(refused) > 1 else ''}"
        raise ItineraryError(f"nothing was applied, {len(refused)} cannot be moved ({told}): --partly to go on")
    bodies = [dict(each.body) for each in found if each.body is not None]
    with open_client() as client:
        carry_out(client, JobsToApply(source, bodies, True, take_over), dry_run=False, yes=True, as_json=as_json)


def _now() -> int:
    return time.time_ns() // 1_000


def _owner_of(file: str) -> str:
    """A crontab is one machine's and one user's: applying it must not delete what another's became."""
    host = socket.gethostname()
    place = f"{host}:{Path(file).absolute()}" if file != "-" else f"{_user()}@{host}"
    return f"crontab:{_FOREIGN.sub('-', place)[-_LONGEST_PLACE:]}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


def _text_of(file: str) -> str:
    from scheduler_service.migrating.crontab_file import MOST_BYTES

    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as source:
            raw = source.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise BadValue("FILE", file, f"give a file of at most {MOST_BYTES:,} bytes; split it")
        return raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise BadValue("FILE", file, f"give a readable file ({exc})") from exc


def _tracked(items: Sequence[T]) -> Iterable[T]:
    """The items, with a bar on a terminal: entries of every minute take their time."""
    from rich.console import Console
    from rich.progress import track

    quiet = not sys.stderr.isatty()
    return track(items, "looking ahead", console=Console(stderr=True), transient=True, disable=quiet)
