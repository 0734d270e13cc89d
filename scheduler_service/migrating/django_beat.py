"""django-celery-beat's tables as beat's entries, read by SQLAlchemy: neither Django nor the app's settings are needed.

Reads the tables of every release: a column that an older one lacks has its default. Never writes: SQLite is opened
read-only and PostgreSQL's transaction is one.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from celery.schedules import ParseException, crontab, schedule, solar
from kombu.utils.json import loads as celerys_loads
from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.protocol.instants import Instant, format_instant, from_datetime
from scheduler_service.core.schedules.zones import zone
from scheduler_service.migrating.beat_entry import BeatEntry
from scheduler_service.migrating.converted import CannotConvert
from scheduler_service.migrating.one_time import OneTime
from scheduler_service.sql.database_url import read_url

NOTES: Final = ("times in the tables are read as UTC where they name no zone, as Django stores them with USE_TZ",)
_PREFIX: Final = "django_celery_beat_"
_TASKS: Final = f"{_PREFIX}periodictask"
_KINDS: Final = ("interval", "crontab", "solar", "clocked")  # as django-celery-beat looks for them
_TABLES: Final = {kind: f"{_PREFIX}{kind}schedule" for kind in _KINDS}
_OLDEST: Final = (_TASKS, _TABLES["interval"], _TABLES["crontab"])
_FIELDS: Final = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
_PERIODS: Final = ("days", "hours", "minutes", "seconds", "microseconds")
_NAME_HEADER: Final = "periodic_task_name"
_PATIENCE: Final = 10
_OPTIONS: Final = ("queue", "exchange", "routing_key", "priority")

Row = Mapping[str, Any]


def read_django_beat(url: str, now: Instant) -> list[BeatEntry]:
    """Every PeriodicTask of the database, by name; ItineraryError where its tables are not there."""
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            tasks, schedules = _rows_of(connection)
    except (SQLAlchemyError, sqlite3.Error) as exc:
        message = " ".join(str(getattr(exc, "orig", None) or exc).split())
        raise ItineraryError(f"the database of django-celery-beat cannot be read: {message}") from exc
    finally:
        engine.dispose()
    return [_entry(task, schedules, now) for task in sorted(tasks, key=lambda row: str(row["name"]))]


def place_of(url: str) -> str:
    """The place of the tables, without a password."""
    at = read_url(url)
    host = f"{at.host or 'localhost'}{f':{at.port}' if at.port else ''}" if at.drivername != "sqlite+pysqlite" else ""
    return f"{host}/{at.database or ''}" if host else str(Path(at.database or "").absolute())


def _engine(url: str) -> Engine:
    scheme = url.partition(":")[0]
    if scheme.partition("+")[0] in ("mysql", "mariadb", "oracle", "mssql"):
        raise BadValue("--from-database", f"{scheme}://...", "tables in PostgreSQL and SQLite can be read, no others")
    try:
        at = read_url(url)
    except BadValue as exc:
        raise BadValue("--from-database", exc.value, "give postgresql://user@host/database or sqlite:///path") from exc
    if at.drivername != "sqlite+pysqlite":
        return create_engine(
            at,
            poolclass=NullPool,
            connect_args={"connect_timeout": _PATIENCE},
            execution_options={"postgresql_readonly": True},
        )
    file = Path(at.database or "")
    if not file.is_file():
        raise BadValue("--from-database", str(file), "no such file: give the SQLite file that Django's DATABASES names")
    return create_engine(
        "sqlite+pysqlite://", poolclass=NullPool,
        creator=lambda: sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True),
    )  # fmt: skip


def _rows_of(connection: Connection) -> tuple[list[Row], dict[str, dict[Any, Row]]]:
    """The tasks, and the rows of each kind of schedule by their id."""
    there = set(inspect(connection).get_table_names())
    if missing := [table for table in _OLDEST if table not in there]:
        raise ItineraryError(
            f"the database has no table {', '.join(missing)}: name the database (and its schema, by "
            "?options=-csearch_path%3DNAME) in which Django has migrated django_celery_beat"
        )
    by_kind = {
        kind: {row["id"]: row for row in _all(connection, table)} for kind, table in _TABLES.items() if table in there
    }
    return _all(connection, _TASKS), by_kind


def _all(connection: Connection, table: str) -> list[Row]:
    return [dict(row) for row in connection.execute(text(f"SELECT * FROM {table}")).mappings()]


def _entry(task: Row, schedules: Mapping[str, Mapping[Any, Row]], now: Instant) -> BeatEntry:
    name, refused, given, zone_name = str(task["name"]), None, None, None
    args: Any = ()
    kwargs: Any = {}
    headers: Any = {}
    differences: list[str] = []
    try:
        given, zone_name = _schedule(task, schedules, differences)
        args, kwargs = _json(task, "args", list, "[]"), _json(task, "kwargs", dict, "{}")
        headers = _json(task, "headers", dict, "{}")
    except CannotConvert as exc:
        refused = str(exc)
    ends, starts = _instant(task.get("expires")), _instant(task.get("start_time"))
    if ends is not None:
        differences.append(
            f"expires: no run is made from {format_instant(ends)} on; beat also has workers drop what still waits then"
        )
    options = {key: task.get(key) for key in _OPTIONS if task.get(key) not in (None, "")}
    if ends is None and task.get("expire_seconds"):
        options["expires"] = task["expire_seconds"]
    options["headers"] = {**headers, _NAME_HEADER: name}  # as django-celery-beat itself sends it
    return BeatEntry(
        name, str(task["task"]), given, args, kwargs, options,
        zone=zone_name, refused=refused, asleep=_asleep(task, given, ends, now),
        once=bool(task.get("one_off")), start_at=starts, end_at=ends,
        last_run_at=_sent(task, starts), description=str(task.get("description") or ""), differences=tuple(differences),
    )  # fmt: skip


def _asleep(task: Row, given: Any, ends: Instant | None, now: Instant) -> str | None:
    """Why beat sends it no more."""
    if not task["enabled"]:
        return "it is disabled there; enable it and import again, or write it as a job of your own"
    if task.get("one_off") and task.get("total_run_count"):
        return "it is one_off and was sent"
    if ends is not None and ends <= now:
        return f"it expired at {format_instant(ends)}"
    if isinstance(given, OneTime) and given.at <= now:
        return f"its time, {format_instant(given.at)}, is past; beat would send it at once: `itinerary enqueue` does"
    return None


def _sent(task: Row, starts: Instant | None) -> Instant | None:
    """From when on beat counts: its last sending, else the start, else when the row was last saved."""
    last = _instant(task.get("last_run_at"))
    return last if last is not None or starts is not None else _instant(task.get("date_changed"))


def _schedule(task: Row, schedules: Mapping[str, Mapping[Any, Row]], differences: list[str]) -> tuple[Any, str | None]:
    """The first schedule that the task names, as Celery's object, and the zone that is its own."""
    named = [kind for kind in _KINDS if task.get(f"{kind}_id") is not None]
    if not named:
        raise CannotConvert("it names no schedule")
    kind = named[0]
    if len(named) > 1:
        differences.append(
            f"it names {' and '.join(named)}: django-celery-beat goes by the {kind}, and so does the import"
        )
    row = schedules.get(kind, {}).get(task[f"{kind}_id"])
    if row is None:
        raise CannotConvert(
            f"its {kind} {task[f'{kind}_id']} is not in {_TABLES[kind]}: django-celery-beat disables it"
        )
    match kind:
        case "interval":
            return _interval(row), None
        case "crontab":
            return _crontab(row)
        case "clocked":
            at = _instant(row["clocked_time"])
            assert at is not None  # the column takes no NULL
            return OneTime(at), None
        case _:
            return _solar(row), None


def _solar(row: Row) -> solar:
    try:
        event: Any = row["event"]
        return solar(event, float(row["latitude"]), float(row["longitude"]))
    except (TypeError, ValueError) as exc:
        raise CannotConvert(f"its solar schedule is not understood by Celery: {exc}") from exc


def _interval(row: Row) -> schedule:
    period = str(row["period"])
    if period not in _PERIODS:
        raise CannotConvert(f"its interval's period is {period!r}; known are {', '.join(_PERIODS)}")
    try:
        return schedule(timedelta(**{period: int(row["every"])}))
    except OverflowError as exc:
        raise CannotConvert(f"every {row['every']} {period} is longer than Celery can count") from exc


def _crontab(row: Row) -> tuple[crontab, str | None]:
    try:
        own = zone(str(row["timezone"])).key if row.get("timezone") else None
    except BadValue as exc:
        raise CannotConvert(f"its crontab's timezone {row['timezone']!r} is not known here") from exc
    try:
        return crontab(**{field: str(row[field]) for field in _FIELDS}), own
    except (ValueError, ParseException) as exc:
        raise CannotConvert(f"its crontab is not understood by Celery: {exc}") from exc


def _json(task: Row, field: str, kind: type, empty: str) -> Any:
    held = task.get(field) or empty
    try:
        value = celerys_loads(held)
    except (ValueError, TypeError) as exc:
        raise CannotConvert(f"its {field} are not JSON ({exc}): django-celery-beat disables it") from exc
    if not isinstance(value, kind):
        raise CannotConvert(f"its {field} are {held}: give {empty}")
    return value


def _instant(value: Any) -> Instant | None:
    """A stored time; Django keeps it in UTC, which SQLite's text does not say."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise ItineraryError(f"a time of django-celery-beat's tables is not understood: {value!r}")
    return from_datetime(value if value.tzinfo else value.replace(tzinfo=UTC))
