"""`jobs import-beat`: a beat's schedule as jobs."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from scheduler_service.cli.beat_sources import BEAT_OPTIONS, BeatPlace
from scheduler_service.cli.importing import Imported, importing, now

T = TypeVar("T")


@importing(*BEAT_OPTIONS)
def import_beat(**given: Any) -> Imported:
    """Translate a beat schedule and show each difference; with --apply, create those jobs.

    Read from an app's beat_schedule, here or as JSON from the app's own environment (--from-json), from
    django-celery-beat's tables (--from-database) or RedBeat's keys (--from-redbeat).
    """
    from scheduler_service.migrating.beat_moving import move_entries

    read = BeatPlace("jobs import-beat", **given).read(now())
    found = move_entries(read.entries, read.app, now(), tracked, app_known=read.app_known)
    return Imported([entry.converted for entry in found], read.notes, read.owner, read.empty)


def tracked(items: Sequence[T]) -> Iterable[T]:
    """Yield the items, with a bar on a terminal: entries of every minute take long."""
    from rich.console import Console
    from rich.progress import track

    quiet = not sys.stderr.isatty()
    return track(items, "looking ahead", console=Console(stderr=True), transient=True, disable=quiet)
