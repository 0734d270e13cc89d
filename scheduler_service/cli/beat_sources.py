"""The places from which `import-beat` and `shadow` read a beat's schedule: the app, django-celery-beat, RedBeat."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from itinerary.protocol.errors import BadValue

if TYPE_CHECKING:
    from scheduler_service.migrating.beat_entry import BeatEntry

BeatApp = Annotated[
    str | None,
    typer.Argument(metavar="[MODULE:APP]", help="Your Celery app, for its routes and tasks.", show_default=False),
]
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
    """The options that name a beat's schedule."""

    app: str | None
    database: str | None = None
    redbeat: str | None = None
    prefix: str = "redbeat:"
    timezone: str | None = None
    only_config: bool = False

    def read(self, now: int, text: str) -> BeatSource:
        """Read the entries; `text` is the command that reads, for messages."""
        if self.database is not None and self.redbeat is not None:
            raise BadValue("--from-redbeat", self.redbeat, "name one source: --from-database or --from-redbeat")
        if self.database is None and self.redbeat is None:
            return self._of_config(text)
        app, known, notes = self._app()
        if self.database is not None:
            from scheduler_service.migrating.django_beat import NOTES, place_of, read_django_beat

            entries = read_django_beat(self.database, now)
            return BeatSource(
                entries, app, known, (*notes, *NOTES), _owner("django-celery-beat", place_of(self.database))
            )
        from scheduler_service.migrating import redbeat

        assert self.redbeat is not None
        entries = redbeat.read_redbeat(self.redbeat, self.prefix)
        place = redbeat.place_of(self.redbeat) + ("" if self.prefix == redbeat.PREFIX else f"/{self.prefix}")
        return BeatSource(entries, app, known, notes, _owner("redbeat", place))

    def _of_config(self, text: str) -> BeatSource:
        from scheduler_service.migrating.beat import NOTES, entries_of, load_app
        from scheduler_service.migrating.beat_elsewhere import EMPTY, refuse_elsewhere

        if self.app is None:
            raise BadValue("MODULE:APP", None, "name your Celery app, or --from-database URL, or --from-redbeat URL")
        app = load_app(self.app)
        if not self.only_config:
            refuse_elsewhere(app, self.app, text)
        entries = entries_of(app)
        return BeatSource(entries, app, True, NOTES, f"beat:{self.app}", None if entries else EMPTY)

    def _app(self) -> tuple[Any, bool, tuple[str, ...]]:
        from scheduler_service.core.schedules.zones import zone
        from scheduler_service.migrating.beat import NOTES, load_app
        from scheduler_service.migrating.beat_moving import app_of_zone

        if self.app is not None:
            if self.timezone is not None:
                raise BadValue("--timezone", self.timezone, "leave it out: the app names its zone")
            return load_app(self.app), True, NOTES
        meant = zone("UTC" if self.timezone is None else self.timezone).key
        unknown = (
            "without MODULE:APP nothing is known of the app's task_routes, default queue and tasks: an entry that "
            f"names no queue goes to celery, a crontab that names no zone is meant in {meant}"
        )
        return app_of_zone(meant), False, (*NOTES, unknown)


def _owner(kind: str, place: str) -> str:
    return f"{kind}:{_FOREIGN.sub('-', place)[-_LONGEST_PLACE:]}"
