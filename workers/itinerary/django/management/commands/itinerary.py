"""`manage.py itinerary`: the jobs that the project's code declares, beside those of the service."""

import os
import shutil
import subprocess
import sys
from argparse import REMAINDER
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import autodiscover_modules

from itinerary.django.settings import setting

_FROM_ELSEWHERE: Final = ("--from-database", "--from-redbeat", "--from-json")


class Command(BaseCommand):
    """Runs `python -m itinerary jobs`, or the service's `jobs import-beat`, by the project's settings."""

    help = "Compare the jobs declared beside the project's tasks with the service's, and apply them."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take a command, and the options that it has itself."""
        parser.add_argument("command", choices=("check", "plan", "apply", "import-beat"))
        parser.add_argument("options", nargs=REMAINDER, help="see python -m itinerary jobs apply --help")

    def handle(self, command: str, options: list[str], **_: Any) -> None:
        """Run it; the exit status is that command's own."""
        from itinerary.command_line import main

        app = setting("APP")
        if app is None:
            raise CommandError('name your Celery app in the settings: ITINERARY = {"APP": "shop.celery:app", ...}')
        os.environ["ITINERARY_API_URL"] = setting("URL") or ""
        if (token := setting("TOKEN")) is not None:
            os.environ["ITINERARY_API_TOKEN"] = token  # everybody sees a command line
        if command == "import-beat":
            sys.exit(_import_beat(app, options))
        autodiscover_modules("schedules")
        words = ["plan", app, "--check"] if command == "check" else [command, app]
        sys.exit(main(["jobs", *words, *options]))


def _import_beat(app: str, options: list[str]) -> int:
    """Run the service's command, which reads the app in this interpreter."""
    named = setting("COMMAND") or ""
    program = shutil.which(named)
    if program is None:
        advice = 'set ITINERARY["COMMAND"] to its path, such as "/srv/itinerary/.venv/bin/itinerary"'
        raise CommandError(f"the service's command {named!r} is not found: {advice}")
    place = [] if any(word.startswith(_FROM_ELSEWHERE) for word in options) else [app, "--python", sys.executable]
    return subprocess.run([program, "jobs", "import-beat", *place, *options]).returncode
