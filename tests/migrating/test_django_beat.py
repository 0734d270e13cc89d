"""django-celery-beat's tables, written by its own models, moved in; and its crontabs beside what became of them."""

import random
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import schedule

from itinerary.apps.loading import load_app
from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.protocol.instants import DAY, HOUR, format_instant, parse_instant
from scheduler_service.migrating.beat_entry import ConvertedEntry
from scheduler_service.migrating.beat_moving import app_of_zone, compare_entry, move_entries
from scheduler_service.migrating.comparing import compare
from scheduler_service.migrating.django_beat import place_of, read_django_beat
from tests.migrating.django_rows import fill

tzcrontab = pytest.importorskip(
    "django_celery_beat.tzcrontab", reason="django-celery-beat is not installed: install the group `test`"
)

NOW = parse_instant("2026-11-27T10:00:00Z")


def moved_of(url: str, app: Celery | None = None) -> dict[str, ConvertedEntry]:
    entries = read_django_beat(url, NOW)
    found = move_entries(entries, app or app_of_zone("UTC"), NOW, app_known=app is not None)
    return {entry.entry.name: entry for entry in found}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("django") / "db.sqlite3"
    fill(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="module")
def converted(file: Path) -> dict[str, ConvertedEntry]:
    return moved_of(f"sqlite:///{file}", load_app("tests.migrating.beat_app:app"))


def body(entry: ConvertedEntry) -> dict[str, Any]:
    assert entry.converted.body is not None, entry.converted.refused
    return dict(entry.converted.body)


def test_a_row_becomes_a_job_with_its_crontabs_own_zone_and_all_its_columns(
    converted: dict[str, ConvertedEntry],
) -> None:
    assert body(converted["nightly"]) == {
        "job_id": "nightly", "task": "shop.report", "args": ["a"], "kwargs": {"n": 1},
        "schedule": {"kind": "cron", "expr": "30 2 * * *", "timezone": "America/New_York", "dst_gap": "shift"},
        "overlap": "allow", "queue": "slow", "priority": 3, "start_within": "10m", "description": "Counts.",
        "headers": {"periodic_task_name": "nightly"},
    }  # fmt: skip
    assert len(converted["nightly"].converted.differences) == 1


def test_what_is_lost_of_a_row_is_named(converted: dict[str, ConvertedEntry]) -> None:
    told = "\n".join(converted["quarter"].converted.differences)
    for part in ("option exchange", "option routing_key", "goes to the queue celery", "go back from"):
        assert part in told


def test_the_headers_of_a_row_are_the_job_s(converted: dict[str, ConvertedEntry]) -> None:
    assert converted["quarter"].converted.body["headers"] == {"tenant": "x", "periodic_task_name": "quarter"}


def test_an_interval_goes_on_from_its_last_sending(converted: dict[str, ConvertedEntry]) -> None:
    entry = converted["ten"]
    assert body(entry)["schedule"] == {
        "kind": "interval", "every": "10m", "timezone": "Europe/Paris", "anchor": "2026-11-27T09:55:03Z",
    }  # fmt: skip
    (told,) = entry.converted.differences
    assert "counts from when it last sent" in told


def test_a_one_off_becomes_one_time(converted: dict[str, ConvertedEntry]) -> None:
    assert body(converted["at new year"])["schedule"] == {"kind": "once", "at": "2027-01-01T00:00:00Z"}
    assert body(converted["once"])["schedule"] == {"kind": "once", "at": "2027-01-05T07:30:00Z"}
    assert "start_at" not in body(converted["once"])


def test_start_time_and_expires_become_bounds(converted: dict[str, ConvertedEntry]) -> None:
    bounded = body(converted["bounded"])
    assert (bounded["start_at"], bounded["end_at"]) == ("2027-01-05T00:00:00Z", "2027-02-05T00:00:00Z")
    assert "drop what still waits" in converted["bounded"].converted.differences[0]
    assert body(converted["interval from"])["schedule"]["anchor"] == "2027-01-05T00:00:00Z"


def test_a_solar_row_becomes_a_solar_schedule(converted: dict[str, ConvertedEntry]) -> None:
    spec = {"kind": "solar", "event": "sunset", "latitude": 50.0, "longitude": 8.0}
    assert {name: body(converted["sun"])["schedule"][name] for name in spec} == spec


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("tiny", "whole seconds"),
        ("no args", "its args are not JSON"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(converted: dict[str, ConvertedEntry], name: str, why: str) -> None:
    assert converted[name].converted.body is None
    assert why in str(converted[name].converted.refused)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("off", "disabled"), ("expired", "expired at 2026-01-01"), ("sent", "one_off and was sent"),
        ("at old year", "is past"),
    ],
)  # fmt: skip
def test_what_is_sent_no_more_is_left_out_with_the_reason(
    converted: dict[str, ConvertedEntry], name: str, why: str
) -> None:
    assert why in str(converted[name].converted.left_out)
    assert body(converted[name])["task"] == "shop.report"


def test_a_row_of_two_schedules_goes_by_the_one_that_beat_goes_by(converted: dict[str, ConvertedEntry]) -> None:
    assert body(converted["two kinds"])["schedule"]["kind"] == "interval"
    assert any("interval and crontab" in told for told in converted["two kinds"].converted.differences)


def test_the_shadow_agrees_within_bounds_and_phase(converted: dict[str, ConvertedEntry]) -> None:
    app = load_app("tests.migrating.beat_app:app")
    counts = {}
    for name in ("ten", "once", "bounded", "interval from", "at new year"):
        found = compare_entry(converted[name], app, NOW, NOW + 100 * DAY)
        assert found is not None
        assert (found.differences, found.note) == ((), None), name
        assert found.theirs == found.itinerary
        counts[name] = found.theirs
    assert (counts["once"], counts["bounded"], counts["at new year"]) == (1, 31, 1)


def test_an_older_releases_tables_are_read(file: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.sqlite3"
    with sqlite3.connect(file) as new, sqlite3.connect(old) as copy:
        new.backup(copy)
        for table, columns in (
            ("periodictask", ("priority", "headers", "start_time", "one_off", "expire_seconds", "clocked_id")),
            ("crontabschedule", ("timezone",)),
        ):
            kept = [
                name for _, name, *_ in copy.execute(f"PRAGMA table_info(django_celery_beat_{table})")
                if name not in columns
            ]  # fmt: skip
            named = ", ".join(kept)
            copy.execute(f"CREATE TABLE kept AS SELECT {named} FROM django_celery_beat_{table}")
            copy.execute(f"DROP TABLE django_celery_beat_{table}")
            copy.execute(f"ALTER TABLE kept RENAME TO django_celery_beat_{table}")
        for table in ("clockedschedule", "solarschedule"):
            copy.execute(f"DROP TABLE django_celery_beat_{table}")
    found = moved_of(f"sqlite:///{old}")
    assert body(found["nightly"])["schedule"]["timezone"] == "UTC"
    assert "priority" not in body(found["nightly"])
    assert "solar 1 is not in" in str(found["sun"].converted.refused)
    assert "names no schedule" in str(found["at new year"].converted.refused)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE django_celery_beat_intervalschedule SET every = 99999999999, period = 'days'", "longer than Celery"),
        ("UPDATE django_celery_beat_intervalschedule SET every = 0", "whole seconds"),
        ("UPDATE django_celery_beat_intervalschedule SET period = 'moons'", "period is 'moons'"),
        ("DELETE FROM django_celery_beat_intervalschedule", "is not in django_celery_beat_intervalschedule"),
        ("UPDATE django_celery_beat_periodictask SET kwargs = '[]'", "its kwargs are []"),
        ("UPDATE django_celery_beat_periodictask SET interval_id = NULL, crontab_id = NULL", "names no schedule"),
    ],
)
def test_a_row_that_was_changed_by_hand_is_refused_alone(file: Path, tmp_path: Path, change: str, why: str) -> None:
    other = tmp_path / "changed.sqlite3"
    with sqlite3.connect(file) as kept, sqlite3.connect(other) as copy:
        kept.backup(copy)
        copy.execute(change + (" WHERE name = 'ten'" if "periodictask" in change else ""))
    found = moved_of(f"sqlite:///{other}")
    assert why in str(found["ten"].converted.refused)
    assert found["nightly"].job is not None


@pytest.mark.parametrize("minute", ["", "x", "61"])
def test_a_crontab_that_celery_does_not_read_is_refused_alone(file: Path, tmp_path: Path, minute: str) -> None:
    other = tmp_path / "changed.sqlite3"
    with sqlite3.connect(file) as kept, sqlite3.connect(other) as copy:
        kept.backup(copy)
        copy.execute("UPDATE django_celery_beat_crontabschedule SET minute = ? WHERE minute = '*/15'", (minute,))
    assert "not understood by Celery" in str(moved_of(f"sqlite:///{other}")["quarter"].converted.refused)


@pytest.mark.postgres
def test_postgresql_is_read_the_same(converted: dict[str, ConvertedEntry], empty_postgres_url: str) -> None:
    app = load_app("tests.migrating.beat_app:app")
    found = moved_of(fill(empty_postgres_url), app)
    changing = {"off", "two kinds"}  # counted from when the row was saved
    assert {name: each.converted for name, each in found.items() if name not in changing} == {
        name: each.converted for name, each in converted.items() if name not in changing
    }


def test_a_database_without_the_tables_is_refused_with_their_names(tmp_path: Path) -> None:
    empty = tmp_path / "empty.sqlite3"
    sqlite3.connect(empty).close()
    with pytest.raises(ItineraryError, match="no table django_celery_beat_periodictask, django_celery_beat_interval"):
        read_django_beat(f"sqlite:///{empty}", NOW)
    (tmp_path / "text").write_text("no database, but long enough to be looked at as one" * 40)
    with pytest.raises(ItineraryError, match="cannot be read"):
        read_django_beat(f"sqlite:///{tmp_path / 'text'}", NOW)


@pytest.mark.parametrize("url", ["mysql://u:secret@h/db", "sqlite:////nowhere/db", "gibberish"])
def test_what_is_no_database_here_is_refused_and_nothing_is_made(url: str) -> None:
    with pytest.raises(BadValue) as refused:
        read_django_beat(url, NOW)
    assert "--from-database" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert not Path("/nowhere").exists()


def test_the_place_holds_no_password(tmp_path: Path) -> None:
    assert place_of("postgresql://u:secret@db:5433/shop") == "db:5433/shop"
    assert place_of(f"sqlite:///{tmp_path}/x.db") == f"{tmp_path}/x.db"


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Cairo")


def random_crontabs(seed: int, count: int) -> list[dict[str, str]]:
    pick = random.Random(seed)
    rows = []
    for number in range(count):
        rows.append(
            {
                "minute": pick.choice(["0", "30", "5,35", "*/20", "7", "59"]),
                "hour": pick.choice(["2", "1,2,3", "*/6", "0", "23", "9-17/4", "3"]),
                "day_of_week": pick.choice(["*", "*", "mon-fri", "0,6", "sun"]),
                "day_of_month": pick.choice(["*", "*", "1", "*/10", "28-31"]),
                "month_of_year": pick.choice(["*", "*", "3,4,10,11", "*/2"]),
                "timezone": ZONES[number % len(ZONES)],
            }
        )
    return rows


@pytest.mark.slow
def test_every_crontab_fires_when_django_celery_beats_own_object_does_but_for_what_is_named(tmp_path: Path) -> None:
    given = random_crontabs(17, 60)
    found = moved_of(fill(f"sqlite:///{tmp_path / 'many'}", given))
    beats, fired = app_of_zone("UTC"), 0
    for number, fields in enumerate(given):
        entry = found[f"cron {number:03d}"]
        assert entry.job is not None
        seen = compare(peer(fields), beats, entry.job.schedule, NOW, NOW + 365 * DAY)
        fired += seen.theirs
        named = "\n".join(entry.converted.differences)
        for each in seen.differences:
            days = {format_instant(each.at + shift * HOUR)[:10] for shift in (-36, -12, 0, 12, 36)}
            assert any(f"on {day}" in named for day in days), (fields, format_instant(each.at), named)
    assert fired > 2_000


def peer(fields: dict[str, str]) -> Any:
    """django-celery-beat's own object, on the clock that it is given, which it reads in its own zone as ever."""

    class OnPaper(tzcrontab.TzAwareCrontab):  # type: ignore[misc]
        def now(self) -> datetime:
            told: datetime = super().now()
            return told.astimezone(self.tz)

    given = {key: text for key, text in fields.items() if key != "timezone"}
    return OnPaper(**given, tz=ZoneInfo(fields["timezone"]))


def test_every_interval_fires_when_celerys_own_object_does(converted: dict[str, ConvertedEntry]) -> None:
    real = schedule(600)
    real.last_run_at = parse_instant("2026-11-27T09:55:03Z")
    job = converted["ten"].job
    assert job is not None
    seen = compare(real, app_of_zone("UTC"), job.schedule, NOW, NOW + 30 * DAY)
    assert (seen.differences, seen.note, seen.theirs) == ((), None, 30 * 144)
