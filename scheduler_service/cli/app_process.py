"""Commands that import a user's app: `python -m itinerary ...` in a process of its own, by the app's interpreter."""

import os
import subprocess
import sys
from typing import Annotated, Final, NoReturn

import typer

from scheduler_service.cli.connect import NAMED_BY, api_address
from scheduler_service.runtime.app_python import ELSEWHERE, app_python

AppInterpreter = Annotated[
    str | None,
    typer.Option(
        "--python",
        "--worker-python",
        metavar="PATH",
        help="The interpreter of your app's environment.",
        show_default=False,
    ),
]
_MISSING: Final = ("there is no module", "No module named")


def exported_by(name: str, place: str, python: str | None, *options: str) -> bytes:
    """Return what the export prints; what the app does at import stays in its process."""
    command = [*app_python(python, "--python").command(name, place), *options]
    errors = None if python else subprocess.PIPE
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, check=False)
    message = (ended.stderr or b"").decode("utf-8", "replace")
    if ended.returncode and any(mark in message for mark in _MISSING):
        message = f"{message.rstrip()}; {ELSEWHERE} python -m itinerary {name} {place}, for --from-json\n"
    sys.stderr.write(message)
    if ended.returncode:
        raise typer.Exit(ended.returncode)  # it has said why on stderr
    return ended.stdout


def run_jobs_there(python: str, action: str, place: str, *options: str) -> NoReturn:
    """Plan or apply the jobs that the app declares, in its environment, against the service of this command line."""
    command = app_python(python, "--python").command("jobs", action, place, *options)
    ended = subprocess.run(command, env={**os.environ, NAMED_BY: api_address()}, check=False)
    raise typer.Exit(ended.returncode)
