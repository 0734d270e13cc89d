"""The commands of `python -m itinerary`, for an app in its own environment: worker, jobs, and exports.

Exit status 2 for a wrong call, 1 where a command failed, else the command's own. An error is one line on stderr.
Imports only what the command needs.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from itinerary.ownership import ownership_error
from itinerary.protocol.errors import BadValue, BadValues, ItineraryError

_HELP: Final = """\
usage: python -m itinerary COMMAND ..., in the environment of your Celery app

  worker              run one Celery worker under Itinerary; the command if none is named
  export-beat         print an app's beat schedule as JSON, for `itinerary jobs import-beat --from-json`
  export-apscheduler  print the jobs of a scheduler of APScheduler 3 as JSON
  jobs plan           show what applying the jobs declared beside an app's tasks would change in a service
  jobs apply          change it, as shown

python -m itinerary COMMAND --help describes a command."""


def main(argv: list[str]) -> int:
    """Run one command; return the exit status."""
    if argv and argv[0] in ("-h", "--help", "help"):
        print(_HELP)
        return 0
    name, arguments = (argv[0], argv[1:]) if argv and not argv[0].startswith("-") else ("worker", argv)
    try:
        if error := ownership_error():
            raise BadValue("environment", None, error)
        if name == "worker":
            from itinerary.worker.command import run_worker

            return run_worker(arguments)
        if name == "export-beat":
            return _export_beat(arguments)
        if name == "jobs":
            return _jobs(arguments)
        if name == "export-apscheduler":
            return _export_apscheduler(arguments)
        known = "worker, export-beat, export-apscheduler or jobs"
        raise BadValue("COMMAND", name, f"give {known}; see python -m itinerary --help")
    except (BadValue, BadValues) as exc:
        return _end(str(exc), 2)
    except ItineraryError as exc:
        # A supervisor that sees 2 need not try again; for CI, 1 means that something differs.
        return _end(str(exc), 2 if name == "worker" or "--check" in arguments else 1)


def _export_beat(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m itinerary export-beat", description="Print an app's beat schedule as JSON; opens no connection."
    )
    parser.add_argument("app", metavar="MODULE:APP", help="your Celery app, as `celery -A` takes it")
    parser.add_argument("--once", action="store_true", help="do not load it again to find what is random at import")
    asked = parser.parse_args(arguments)
    with _only_ours_on_stdout() as out:
        from itinerary.apps.beat_schedule import differing, export_beat
        from itinerary.apps.loading import load_app

        found = export_beat(load_app(asked.app), asked.app)
        if not asked.once:
            differing(found, _loaded_again(asked.app))
        print(json.dumps(found, indent=1, ensure_ascii=True), file=out)
    return 0


def _jobs(arguments: list[str]) -> int:
    from itinerary.jobs_command import jobs_parser, run_jobs

    asked = jobs_parser().parse_args(arguments)
    with _only_ours_on_stdout() as out:
        return run_jobs(asked, out)


def _export_apscheduler(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m itinerary export-apscheduler", description="Print the jobs of a scheduler, without starting it."
    )
    parser.add_argument("scheduler", metavar="MODULE:SCHEDULER", help="your scheduler of APScheduler 3")
    parser.add_argument(
        "--unpickle", action="store_true", help="read stored jobs too, which runs whatever code their store holds"
    )
    parser.add_argument(
        "--between", nargs=2, metavar=("FROM", "TO"), help="print also all times between two moments, RFC 3339"
    )
    asked = parser.parse_args(arguments)
    with _only_ours_on_stdout() as out:
        from itinerary.apps.apscheduler_jobs import export_apscheduler
        from itinerary.apps.loading import find
        from itinerary.protocol.instants import parse_instant, to_datetime

        given = [to_datetime(parse_instant(text, "--between")) for text in asked.between or ()]
        span = (given[0], given[1]) if given else None
        found = export_apscheduler(find(asked.scheduler), asked.scheduler, unpickle=asked.unpickle, span=span)
        print(json.dumps(found, indent=1, ensure_ascii=True), file=out)
    return 0


def _loaded_again(place: str) -> dict[str, Any]:
    """The same export from a new process: what is random at import is another there."""
    safe = ["-P"] if getattr(sys.flags, "safe_path", False) else []  # Python 3.10 has no such flag
    command = [sys.executable, *safe, "-m", "itinerary", "export-beat", "--once", place]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ended.returncode:
        sys.stderr.write(ended.stderr.decode(errors="replace"))
        raise ItineraryError(f"{place} was loaded once, but not again (exit status {ended.returncode}), see above")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@contextmanager
def _only_ours_on_stdout() -> Iterator[TextIO]:
    """Send to stderr what the app prints at import, so that stdout holds the JSON alone."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        try:
            yield out
        finally:
            sys.stdout.flush()
            os.dup2(out.fileno(), 1)


def _end(message: str, status: int) -> int:
    print(f"itinerary: {message}", file=sys.stderr)
    return status
