"""The tree of commands, and the exit status and message of every error."""

import errno
import io
import os
import sys
from typing import Annotated, Final, NoReturn

import typer

from itinerary import version as small
from itinerary.protocol.errors import BadValue, BadValues, ItineraryError
from scheduler_service.cli.access import sessions, share
from scheduler_service.cli.applying import apply
from scheduler_service.cli.bulk import bulk
from scheduler_service.cli.bulk_jobs import delete, move, pause, resume
from scheduler_service.cli.calendars import calendars
from scheduler_service.cli.connect import remedy
from scheduler_service.cli.enqueueing import enqueue
from scheduler_service.cli.exporting import export
from scheduler_service.cli.failures import failures
from scheduler_service.cli.freezes import freezes
from scheduler_service.cli.import_others import (
    import_apscheduler,
    import_crontab,
    import_kubernetes,
    import_rq,
    import_systemd,
)
from scheduler_service.cli.jobs import jobs
from scheduler_service.cli.limits import limits
from scheduler_service.cli.migrating import import_beat
from scheduler_service.cli.monitors import monitors
from scheduler_service.cli.notify import notify
from scheduler_service.cli.processes import api, doctor, flower, leader, migrate, up, worker
from scheduler_service.cli.pruning import prune
from scheduler_service.cli.queues import queues
from scheduler_service.cli.records import audit, explain_job, explain_run
from scheduler_service.cli.runs import runs
from scheduler_service.cli.schedule import schedule
from scheduler_service.cli.shadowing import shadow
from scheduler_service.cli.status import status
from scheduler_service.cli.top import top
from scheduler_service.cli.views import views
from scheduler_service.cli.workers import tasks, workers
from scheduler_service.cli.zones import zones
from scheduler_service.version import VERSION

app = typer.Typer(
    name="itinerary",
    help="The cron service for Celery that never loses a run, never starts one twice, and can say why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_NO_RIGHT: Final = "let this user read and write there, or name another place (the data: ITINERARY_DATA_DIR)"
_OF_THE_MACHINE: Final = {
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.EROFS: _NO_RIGHT,
    errno.ENOTDIR: "a part of this path is a file; name another place",
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room on its disk",
}
"""What a user does about errors of the operating system that are no error of ours."""


@app.callback()
def _root(
    config: Annotated[str | None, typer.Option("--config", help="A TOML file of settings.")] = None,
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, help="Print both versions.", callback=lambda on: _print_versions(on)),
    ] = False,
) -> None:
    if config is not None:
        os.environ["ITINERARY_CONFIG"] = config


def _print_versions(wanted: bool) -> None:
    if wanted:
        print(f"itinerary-server {VERSION}\ncelery-itinerary {small.VERSION}")
        raise typer.Exit


for command in (
    up,
    leader,
    api,
    flower,
    migrate,
    prune,
    doctor,
    status,
    top,
    workers,
    tasks,
    failures,
    enqueue,
    audit,
    shadow,
):
    app.command()(command)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(worker)
for name, of_jobs in (
    ("apply", apply), ("export", export), ("import-beat", import_beat), ("import-crontab", import_crontab),
    ("import-kubernetes", import_kubernetes), ("import-systemd", import_systemd),
    ("import-apscheduler", import_apscheduler),
    ("import-rq", import_rq),
):  # fmt: skip
    jobs.command(name)(of_jobs)
jobs.command("explain")(explain_job)
runs.command("explain")(explain_run)
for change in (pause, resume, move, delete):
    jobs.command()(change)
app.add_typer(jobs, name="jobs")
app.add_typer(runs, name="runs")
app.add_typer(bulk, name="bulk")
app.add_typer(queues, name="queues")
app.add_typer(calendars, name="calendars")
app.add_typer(limits, name="limits")
app.add_typer(monitors, name="monitors")
app.add_typer(freezes, name="freezes")
app.add_typer(sessions, name="sessions")
app.add_typer(share, name="share")
app.add_typer(views, name="views")
app.add_typer(zones, name="zones")
app.add_typer(schedule, name="schedule")
app.add_typer(notify, name="notify")


def run() -> NoReturn:
    """Run the command line of this process, then exit."""
    _print_at_once()
    try:
        sys.argv = [_read_as_utf8(word) for word in sys.argv]
        status = _carried_out()
    except typer.TyperException as exc:
        _end(_usage(exc), 2)
    except BadValues as exc:
        _end("; ".join(str(error) for error in exc.errors), 2)
    except BadValue as exc:
        _end(str(exc), 2)
    except ItineraryError as exc:
        _end(f"{exc}{_next_step(exc)}", 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of our output closed the pipe
        sys.exit(1)
    except OSError as exc:
        if exc.errno not in _OF_THE_MACHINE:
            raise
        _end(f"{exc.filename or 'this machine'}: {exc.strerror}; {_OF_THE_MACHINE[exc.errno]}", 1)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    sys.exit(status if isinstance(status, int) else 0)


def _carried_out() -> object:
    """Return the command's status; flushes its output here, while a closed pipe can still be handled."""
    try:
        return app(prog_name="itinerary", standalone_mode=False)
    finally:
        sys.stdout.flush()


def _next_step(error: ItineraryError) -> str:
    from itinerary.client.transport import NoAnswer

    return f"; {remedy()}" if isinstance(error, NoAnswer) else ""


def _print_at_once() -> None:
    """Flush each line at its end, in a pipe too; escape characters that the locale cannot write."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")


def _read_as_utf8(word: str) -> str:
    """Decode an argument that the locale could not read."""
    try:
        return word if word.isascii() else os.fsencode(word).decode("utf-8")
    except UnicodeError as exc:
        raise BadValue("command line", word.encode("ascii", "backslashreplace").decode(), "give UTF-8") from exc


def _usage(exc: typer.TyperException) -> str:
    """Return the error in the command line, and how to get help; empty if the help was printed already."""
    text = exc.format_message().strip()
    context = getattr(exc, "ctx", None)
    return f"{text.rstrip('.')}; see {context.command_path} --help" if text and context is not None else text


def _end(message: str, status: int) -> NoReturn:
    from scheduler_service.observability.logs import escaped

    if message:
        print(f"itinerary: {escaped(message)}", file=sys.stderr)
    sys.exit(status)
