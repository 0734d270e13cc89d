"""The places from which `import-beat` and `shadow` read a beat's schedule: the app, django-celery-beat, RedBeat."""

import re
import shlex
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from itinerary.protocol.errors import BadValue
from scheduler_service.cli.app_process import AppInterpreter, exported_by
from scheduler_service.cli.shared_options import option

if TYPE_CHECKING:
    from scheduler_service.migrating.beat_entry import BeatEntry
    from scheduler_service.migrating.beat_export import ExportedApp


BeatApp = Annotated[
    str | None,
    typer.Argument(metavar="[MODULE:APP]", help="Your Celery app, for its routes and tasks.", show_default=False),
]
FromJson = Annotated[
    str | None,
    typer.Option(
        "--from-json", metavar="FILE", help="What `python -m itinerary export-beat` printed; - for standard input.",
        show_default=False,
    ),
]  # fmt: skip
FromDatabase = Annotated[
    str | None,
    typer.Option("--from-database", metavar="URL", help="django-celery-beat's database.", show_default=False),
]
FromRedBeat = Annotated[
    str | None, typer.Option("--from-redbeat", metavar="URL", help="RedBeat's Redis.", show_default=False)
]
RedBeatPrefix = Annotated[str, typer.Option(help="redbeat_key_prefix of the app.")]
Zone = Annotated[
    str | None,
    typer.Option("--timezone", help="Zone of crontabs that name none, where no app is given; default UTC."),
]
OnlyConfig = Annotated[
    bool, typer.Option("--only-config", help="Read beat_schedule alone, whatever else the app's scheduler reads.")
]
BEAT_OPTIONS = (
    option("place", BeatApp),
    option("from_json", FromJson),
    option("python", AppInterpreter),
    option("from_database", FromDatabase),
    option("from_redbeat", FromRedBeat),
    option("redbeat_prefix", RedBeatPrefix, "redbeat:"),
    option("timezone", Zone),
    option("only_config", OnlyConfig, False),
)
_FOREIGN = re.compile(r"[^A-Za-z0-9._:/@-]+")
_LONGEST_PLACE = 100


@dataclass(frozen=True, slots=True)
class BeatSource:
    """Entries as read, the app that they belong to, and the owner of their jobs."""

    entries: "list[BeatEntry]"
    app: Any
    app_known: bool
    notes: tuple[str, ...]
    owner: str
    empty: str | None = None


@dataclass(frozen=True, slots=True)
class BeatPlace:
    """The options that name a beat's schedule; `command` is the command that reads it, for messages."""

    command: str
    place: str | None
    from_json: str | None
    python: str | None
    from_database: str | None
    from_redbeat: str | None
    redbeat_prefix: str
    timezone: str | None
    only_config: bool

    def read(self, now: int) -> BeatSource:
        """Read the entries."""
        if self.from_database is not None and self.from_redbeat is not None:
            raise BadValue("--from-redbeat", self.from_redbeat, "name one source: --from-database or --from-redbeat")
        if self.from_database is None and self.from_redbeat is None:
            return self._of_config()
        app, known, notes = self._app()
        if self.from_database is not None:
            from scheduler_service.migrating.django_beat import NOTES, place_of, read_django_beat

            entries = read_django_beat(self.from_database, now)
            return BeatSource(
                entries, app, known, (*notes, *NOTES), _owner("django-celery-beat", place_of(self.from_database))
            )
        from itinerary.apps.beat_scheduler import REDBEAT_PREFIX
        from scheduler_service.migrating import redbeat

        assert self.from_redbeat is not None
        entries = redbeat.read_redbeat(self.from_redbeat, self.redbeat_prefix)
        place = redbeat.place_of(self.from_redbeat) + (
            "" if self.redbeat_prefix == REDBEAT_PREFIX else f"/{self.redbeat_prefix}"
        )
        return BeatSource(entries, app, known, notes, _owner("redbeat", place))

    def _of_config(self) -> BeatSource:
        from scheduler_service.migrating.beat_elsewhere import EMPTY, refuse_elsewhere
        from scheduler_service.migrating.beat_export import NOTES

        found = self._exported()
        if found is None:
            named = "name your Celery app, or --from-json FILE, or --from-database URL, or --from-redbeat URL"
            others = ", or another scheduler, such as --from-crontab FILE" if self.command == "shadow" else ""
            raise BadValue("MODULE:APP", None, named + others)
        if not self.only_config:
            again = self.place if self.from_json is None else f"--from-json {shlex.quote(self.from_json)}"
            again = again if self.python is None else f"{again} --python {shlex.quote(self.python)}"
            refuse_elsewhere(found.scheduler, found.place, f"itinerary {self.command} {again}")
        return BeatSource(
            found.entries, found.app, True, NOTES, f"beat:{found.place}", None if found.entries else EMPTY
        )

    def _exported(self) -> "ExportedApp | None":
        """The app as its own environment prints it; None if none is named."""
        from scheduler_service.migrating.beat_export import MOST_BYTES, parse_export

        if self.from_json is not None:
            if self.place is not None:
                raise BadValue("MODULE:APP", self.place, "leave it out: --from-json names the app")
            return parse_export(text_of(self.from_json, "--from-json", MOST_BYTES), self.from_json)
        if self.place is None:
            return None
        return parse_export(exported_by("export-beat", self.place, self.python), self.place)

    def _app(self) -> tuple[Any, bool, tuple[str, ...]]:
        from scheduler_service.core.schedules.zones import zone
        from scheduler_service.migrating.beat_export import NOTES
        from scheduler_service.migrating.beat_moving import app_of_zone

        found = self._exported()
        if found is not None:
            if self.timezone is not None:
                raise BadValue("--timezone", self.timezone, "leave it out: the app names its zone")
            return found.app, True, NOTES
        meant = zone("UTC" if self.timezone is None else self.timezone).key
        unknown = (
            "without MODULE:APP nothing is known of the app's task_routes, default queue and tasks: an entry that "
            f"names no queue goes to celery, a crontab that names no zone is meant in {meant}"
        )
        return app_of_zone(meant), False, (*NOTES, unknown)


def text_of(file: str, option: str, most_bytes: int) -> str:
    """Return the text of a file; - is standard input."""
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as source:
            raw = source.read(most_bytes + 1)
        if len(raw) > most_bytes:
            raise BadValue(option, file, f"give a file of at most {most_bytes:,} bytes; split it")
        return raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise BadValue(option, file, f"give a readable file ({exc})") from exc


def _owner(kind: str, place: str) -> str:
    return f"{kind}:{_FOREIGN.sub('-', place)[-_LONGEST_PLACE:]}"
