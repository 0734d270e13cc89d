"""`jobs import-apscheduler` and `import-rq`: the jobs of Python's other schedulers."""

import subprocess
from typing import Annotated

import typer

from itinerary.protocol.errors import BadValue
from scheduler_service.cli.applying import TakeOver
from scheduler_service.cli.beat_sources import AppInterpreter, FromJson, text_of
from scheduler_service.cli.import_files import Queue
from scheduler_service.cli.importing import Apply, Partly, Source, finish, now
from scheduler_service.cli.status import Json
from scheduler_service.runtime.app_python import app_python

Task = Annotated[
    str | None,
    typer.Option(help="Your task that calls a function; given `function`, `args`, `kwargs`.", show_default=False),
]


def import_apscheduler(
    place: Annotated[
        str | None,
        typer.Argument(metavar="[MODULE:SCHEDULER]", help="Your scheduler; it is not started.", show_default=False),
    ] = None,
    from_json: FromJson = None,
    python: AppInterpreter = None,
    unpickle: Annotated[
        bool, typer.Option("--unpickle", help="Read stored jobs too: this runs whatever code their store holds.")
    ] = False,
    task: Task = None,
    queue: Queue = None,
    apply: Apply = False,
    partly: Partly = False,
    source: Source = None,
    take_over: TakeOver = False,
    as_json: Json = False,
) -> None:
    """Translate the jobs of APScheduler 3 and show each difference; with --apply, create those jobs.

    Read from the scheduler of a module, here or as JSON from its own environment (--from-json, --python). Its jobs are
    those that the module adds, and those of its job stores.
    """
    from scheduler_service.migrating.apscheduler_export import MOST_BYTES, NOTES, read_apscheduler

    if (from_json is None) == (place is None):
        raise BadValue("MODULE:SCHEDULER", place, "name your scheduler, or --from-json FILE")
    if from_json is not None:
        text: str | bytes = text_of(from_json, "--from-json", MOST_BYTES)
    else:
        assert place is not None
        text = _exported(place, python, unpickle)
    named, found = read_apscheduler(text, from_json or str(place), task=task, queue=queue, now=now())
    finish(found, NOTES, source or f"apscheduler:{named}", apply, partly, take_over, as_json)


def _exported(place: str, python: str | None, unpickle: bool) -> bytes:
    """Return what the scheduler's own environment prints, in a process of its own."""
    command = app_python(python, "--python").command("export-apscheduler", place)
    ended = subprocess.run(
        [*command, *(["--unpickle"] if unpickle else [])], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    )
    if ended.returncode:
        raise typer.Exit(ended.returncode)  # it has said why on stderr
    return ended.stdout


def import_rq(
    url: Annotated[str, typer.Argument(metavar="URL", help="The Redis of rq-scheduler; it is only read.")],
    timezone: Annotated[
        str | None, typer.Option(help="Zone of the machine on which rq-scheduler runs; default this one's.")
    ] = None,
    task: Task = None,
    queue: Annotated[str | None, typer.Option(help="Queue of the jobs; default that of rq.")] = None,
    apply: Apply = False,
    partly: Partly = False,
    source: Source = None,
    take_over: TakeOver = False,
    as_json: Json = False,
) -> None:
    """Translate the jobs of rq-scheduler and show each difference; with --apply, create those jobs."""
    from scheduler_service.migrating.local_zone import local_zone
    from scheduler_service.migrating.rq_scheduler import NOTES, place_of, read_rq

    found = read_rq(url, task=task, queue=queue, timezone=local_zone(timezone), now=now())
    finish(found, NOTES, source or f"rq-scheduler:{place_of(url)}", apply, partly, take_over, as_json)
