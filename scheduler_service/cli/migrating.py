"""`jobs import-beat` and `shadow`: a beat's schedule, compared before it is moved."""

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeVar

import typer

from scheduler_service.cli.applying import TakeOver
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
)
from scheduler_service.cli.connect import instant_text
from scheduler_service.cli.importing import Apply, Partly, Source, finish, now
from scheduler_service.cli.status import Json

T = TypeVar("T")

_MOST_HOURS = 24 * 400


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
    ).read(now())
    found = [
        entry.converted for entry in move_entries(read.entries, read.app, now(), _tracked, app_known=read.app_known)
    ]
    finish(found, read.notes, source or read.owner, apply, partly, take_over, as_json)
    if read.empty is not None:
        print(f"itinerary: {read.empty}", file=sys.stderr)


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
    begin = now() if text is None else parse_instant(text)
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


def _tracked(items: Sequence[T]) -> Iterable[T]:
    """Yield the items, with a bar on a terminal: entries of every minute take long."""
    from rich.console import Console
    from rich.progress import track

    quiet = not sys.stderr.isatty()
    return track(items, "looking ahead", console=Console(stderr=True), transient=True, disable=quiet)
