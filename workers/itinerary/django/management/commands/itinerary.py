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

_OF_SERVICE: Final = {"import-beat": ("jobs", "import-beat"), "shadow": ("shadow",)}


class Command(BaseCommand):
    """Runs `python -m itinerary jobs`, or a command of the service, by the project's settings."""

    help = "Compare the jobs declared beside the project's tasks with the service's, and apply them."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take a command, and the options that it has itself."""
        parser.add_argument("command", choices=("check", "plan", "apply", *_OF_SERVICE, "back-out"))
        parser.add_argument("options", nargs=REMAINDER, help="see python -m itinerary jobs apply --help")

    def handle(self, command: str, options: list[str], **_: Any) -> None:
        """Run it; the exit status is that command's own."""
        from itinerary.command_line import main

        ours = _without_djangos(options)
        app = setting("APP")
        if app is None:
            raise CommandError('name your Celery app in the settings: ITINERARY = {"APP": "shop.celery:app", ...}')
        os.environ["ITINERARY_API_URL"] = setting("URL") or ""
        if (token := setting("TOKEN")) is not None:
            os.environ["ITINERARY_API_TOKEN"] = token  # everybody sees a command line
        if command in _OF_SERVICE:
            sys.exit(_of_service(command, app, ours))
        if command == "back-out":
            from itinerary.django.backing_out import run

            return run(ours, self.stdout.write)
        autodiscover_modules("schedules")
        words = ["plan", app, "--check"] if command == "check" else [command, app]
        sys.exit(main(["jobs", *words, *ours]))


def _without_djangos(options: list[str]) -> list[str]:
    """Return the words that are no option of every command of Django's; it has read --settings before it came here."""
    djangos = BaseCommand().create_parser("manage.py", "itinerary", add_help=False, allow_abbrev=False)
    ours: list[str]
    known, ours = djangos.parse_known_args(options)
    if known.no_color:
        os.environ["NO_COLOR"] = "1"
    return ours


def _of_service(command: str, app: str, options: list[str]) -> int:
    """Run the service's command, which reads the app in this interpreter."""
    named = setting("COMMAND") or ""
    program = shutil.which(named)
    if program is None:
        advice = 'set ITINERARY["COMMAND"] to its path, such as "/srv/itinerary/.venv/bin/itinerary"'
        raise CommandError(f"the service's command {named!r} is not found: {advice}")
    place = [] if any(word.startswith("--from-json") for word in options) else [app, "--python", sys.executable]
    return subprocess.run([program, *_OF_SERVICE[command], *place, *options]).returncode
