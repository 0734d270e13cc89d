"""APScheduler 3's jobs moved in: real triggers and stores, policies, and what is refused by name."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from apscheduler.jobstores.memory import MemoryJobStore  # type: ignore[import-untyped]
from apscheduler.jobstores.redis import RedisJobStore  # type: ignore[import-untyped]
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore  # type: ignore[import-untyped]
from apscheduler.schedulers.background import BackgroundScheduler  # type: ignore[import-untyped]
from apscheduler.triggers.cron import CronTrigger  # type: ignore[import-untyped]
from celery import _state

from itinerary.apps.apscheduler_jobs import export_apscheduler
from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import from_datetime, parse_instant
from scheduler_service.core.schedules.schedule import occurrences, parse_schedule
from scheduler_service.migrating.apscheduler_cron import cron_spec
from scheduler_service.migrating.apscheduler_export import read_apscheduler
from scheduler_service.migrating.converted import Converted
from tests.migrating import apscheduler_app
from tests.migrating.apscheduler_app import report, scheduler

PLACE = "tests.migrating.apscheduler_app:scheduler"


def now() -> int:
    return from_datetime(datetime.now(UTC))


def read(given: Any, *, task: str | None = None, unpickle: bool = False) -> dict[str, Converted]:
    text = json.dumps(export_apscheduler(given, PLACE, unpickle=unpickle))
    named, found = read_apscheduler(text, PLACE, task=task, queue=None, now=now())
    assert named == PLACE
    return {each.name: each for each in found}


@pytest.fixture(scope="module")
def converted() -> dict[str, Converted]:
    # Added anew, as at a program's start: all tests of a run may have been collected minutes ago.
    scheduler.remove_job("every 25")
    scheduler.add_job(report, "interval", minutes=25, id="every 25")
    return read(scheduler)


@pytest.fixture
def current_app() -> Iterator[None]:
    """A task is unpickled as that of the current app."""
    before = _state.get_current_app()
    apscheduler_app.app.set_current()
    yield
    before.set_current()


def one_job(*, args: Any = (), kwargs: Any = None, **fields: Any) -> BackgroundScheduler:
    given = BackgroundScheduler(timezone="UTC")
    given.add_job(report, "cron", id="one", args=args, kwargs=kwargs, **fields)
    return given


def body(converted: Converted) -> dict[str, Any]:
    assert converted.refused is None
    return dict(converted.body or {})


def test_a_function_becomes_the_task_of_its_name_with_its_arguments(converted: dict[str, Converted]) -> None:
    assert body(converted["aps-nightly"]) == {
        "job_id": "aps-nightly",
        "title": "Nightly report",
        "task": "tests.migrating.apscheduler_app.report",
        "args": [1],
        "kwargs": {"a": "b"},
        "schedule": {
            "kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin", "dst_gap": "shift", "dst_fold": "both",
        },
        "misfire": {"policy": "skip", "grace": "1s"},
        "overlap": "skip",
    }  # fmt: skip
    assert "--task names one task that calls any function" in converted["aps-nightly"].differences[0]


def test_one_task_may_call_any_function() -> None:
    made = body(read(one_job(hour=3, args=[1], kwargs={"a": "b"}), task="ops.call")["one"])
    assert (made["task"], made["kwargs"]) == (
        "ops.call", {"function": "tests.migrating.apscheduler_app:report", "args": [1], "kwargs": {"a": "b"}},
    )  # fmt: skip


def test_a_job_that_sends_a_celery_task_becomes_a_job_of_that_task(converted: dict[str, Converted]) -> None:
    made = body(converted["mail"])
    assert (made["task"], made["args"]) == ("apscheduler.mail", ["me"])
    assert converted["mail"].differences[-1].startswith("the clocks") or "--task" not in str(converted["mail"])


def test_weekdays_count_from_monday(converted: dict[str, Converted]) -> None:
    assert body(converted["monday"])["schedule"]["expr"] == "0 9 * * 1"
    assert body(converted["second friday"])["schedule"]["expr"] == "0 9 * * 5#2"


def test_policies_become_the_jobs_and_their_differences_are_named(converted: dict[str, Converted]) -> None:
    assert body(converted["monday"])["misfire"] == {"policy": "fire_once"}
    many = converted["second friday"]
    assert body(many)["overlap"] == "allow"
    assert "max_instances 3: that many run at once there" in " ".join(many.differences)
    jittered = converted["jittered"]
    assert body(jittered)["misfire"] == {"policy": "skip", "grace": "30s"}
    assert body(jittered)["jitter"] == "90s"
    assert "jitter 90: up to 90 s earlier or later there" in " ".join(jittered.differences)
    assert "coalesce: what is late by up to 30 s runs once there" in " ".join(jittered.differences)


def test_intervals_and_dates_keep_their_moments(converted: dict[str, Converted]) -> None:
    assert body(converted["every 25"])["schedule"] == {
        "kind": "interval", "every": "25m", "anchor": None, "timezone": "Europe/Berlin",
    }  # fmt: skip
    assert "APScheduler counts from its start" in " ".join(converted["every 25"].differences)
    assert body(converted["from then"])["schedule"]["anchor"] == "2025-12-31T23:07:00Z"
    assert body(converted["aps-once"])["schedule"] == {"kind": "once", "at": "2031-05-01T07:00:00Z"}
    bounded = body(converted["aps-bounded"])
    assert (bounded["start_at"], bounded["end_at"]) == ("2030-12-31T23:00:00Z", "2031-01-10T03:00:00.000001Z")


def test_the_next_times_are_apschedulers_own(converted: dict[str, Converted]) -> None:
    differing = {name for name, each in converted.items() if "of its next" in " ".join(each.differences)}
    assert differing == set()


def test_a_time_that_differs_is_named() -> None:
    text = export_apscheduler(one_job(minute=7), PLACE, unpickle=False)
    (entry,) = text["entries"]
    entry["times"][3:4] = [entry["times"][3].replace(":07:", ":08:")]
    _, found = read_apscheduler(json.dumps({**text, "entries": [entry]}), "x", task=None, queue=None, now=now())
    assert found[0].differences[0].startswith("1 of its next 200 times are only there, first ")
    assert found[0].differences[1].startswith("1 of its next 200 times are only here, first ")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("week 5", "its week 5 counts ISO weeks"),
        ("twice a second", "whole seconds"),
        ("either", "its trigger or[cron[hour='1'], cron[hour='5', minute='5']] has no equal"),
        ("applied", "of the task apscheduler.mail: let it call delay"),
        ("nameless", "has no name of its own"),
        ("object", "not JSON"),
    ],
)
def test_what_has_no_equal_is_refused_by_its_name(converted: dict[str, Converted], name: str, why: str) -> None:
    assert why in str(converted[name].refused)


def test_a_paused_job_is_left_out(converted: dict[str, Converted]) -> None:
    assert converted["paused"].left_out == "it is paused there; resume it and import again"


# Stores


@pytest.mark.usefixtures("current_app")
@pytest.mark.parametrize("kind", ["memory", "sqlalchemy", "redis"])
def test_a_job_store_is_read_and_what_is_pickled_only_when_asked(kind: str, tmp_path: Path, redis_url: str) -> None:
    stores = {
        "memory": MemoryJobStore,
        "sqlalchemy": lambda: SQLAlchemyJobStore(url=f"sqlite:///{tmp_path / 'jobs.sqlite3'}"),
        "redis": lambda: RedisJobStore(connection_pool=redis.ConnectionPool.from_url(redis_url)),
    }
    stored = BackgroundScheduler(jobstores={"default": stores[kind]()}, timezone="UTC")
    stored.start(paused=True)
    try:
        stored.add_job(report, "cron", hour=3, id="stored", args=["x"])
        stored.add_job(apscheduler_app.mail.delay, "cron", hour=3, id="sent", args=["me"])
        stored.add_job(report, "cron", hour=3, id="paused").pause()
        if kind != "memory":
            refused = read(stored)
            assert all(
                "--unpickle reads it, which runs whatever code" in str(each.refused) for each in refused.values()
            )
        found = read(stored, unpickle=True)
        assert body(found["stored"])["args"] == ["x"]
        assert (body(found["sent"])["task"], body(found["sent"])["args"]) == ("apscheduler.mail", ["me"])
        assert found["paused"].left_out
        stored.remove_all_jobs()
    finally:
        stored.shutdown(wait=False)


def test_a_store_that_cannot_be_read_is_refused_by_its_name(tmp_path: Path) -> None:
    class MongoDBJobStore(MemoryJobStore):  # type: ignore[misc]
        pass

    # Not started: its table was never created, and the export creates none.
    file = tmp_path / "none.sqlite3"
    stores = {"mongo": MongoDBJobStore(), "sql": SQLAlchemyJobStore(url=f"sqlite:///{file}")}
    found = read(BackgroundScheduler(jobstores=stores, timezone="UTC"))
    assert "MongoDBJobStore is no job store that can be read" in str(found["job store mongo"].refused)
    assert "no such table: apscheduler_jobs" in str(found["job store sql"].refused)


def test_a_torn_pickle_is_refused_alone(redis_url: str) -> None:
    client = redis.Redis.from_url(redis_url)
    client.hset("torn", "broken", b"\x80\x04garbage")
    store = RedisJobStore(jobs_key="torn", connection_pool=redis.ConnectionPool.from_url(redis_url))
    found = read(BackgroundScheduler(jobstores={"default": store}, timezone="UTC"), unpickle=True)
    assert "it cannot be unpickled" in str(found["broken"].refused)
    client.delete("torn")
    client.close()


def test_no_scheduler_and_no_job_are_errors() -> None:
    with pytest.raises(BadValue, match="it names a Celery, not a scheduler of APScheduler 3"):
        export_apscheduler(apscheduler_app.app, "x:app", unpickle=False)
    empty = json.dumps(export_apscheduler(BackgroundScheduler(timezone="UTC"), "x:y", unpickle=False))
    with pytest.raises(BadValue, match="it has no job"):
        read_apscheduler(empty, "x", task=None, queue=None, now=now())
    with pytest.raises(BadValue, match="what `python -m itinerary export-apscheduler MODULE:SCHEDULER` prints"):
        read_apscheduler("[]", "x", task=None, queue=None, now=now())


@pytest.mark.slow
def test_the_command_prints_the_jobs_alone() -> None:
    words = [sys.executable, "-m", "itinerary", "export-apscheduler", PLACE]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout)["entries"]) == 16
    wrong = subprocess.run(
        [*words[:-1], "tests.migrating.apscheduler_app:app"], capture_output=True, text=True, check=False
    )
    assert (wrong.returncode, "not a scheduler" in wrong.stderr) == (2, True)


# The dialect, against the library


def theirs(trigger: Any, start: datetime, end: datetime) -> list[int]:
    found: list[int] = []
    last, moment = None, start
    while (last := trigger.get_next_fire_time(last, moment)) is not None and last < end:
        found.append(from_datetime(last))
        moment = last
    return found


def ours(trigger: Any, zone: str, start: datetime, end: datetime) -> list[int]:
    spec = cron_spec({field.name: str(field) for field in trigger.fields}, zone)
    schedule = parse_schedule(spec, job_id="", created_at=parse_instant("2026-11-27T10:00:00Z")).schedule
    return occurrences(schedule, from_datetime(start), from_datetime(end))


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Africa/Cairo", "Australia/Lord_Howe"])
def test_times_are_the_librarys_at_changes_of_the_clocks_or_named(zone: str) -> None:
    """The library loses or doubles some times of a skipped hour, each in its own way."""
    given = BackgroundScheduler(timezone=ZoneInfo(zone))
    exact = [{"minute": "*/20"}, {"hour": "0-3", "minute": 15}, {"minute": 0}, {"hour": "5", "second": "5/20"}]
    odd = [{"hour": 2, "minute": 30}, {"hour": "*/2"}, {"hour": 0}, {"hour": 2, "minute": "0,30"}]
    for number, fields in enumerate([*exact, *odd]):
        given.add_job(report, "cron", id=str(number), **fields)
    found = read(given)
    named = {name for name, each in found.items() if "when the clocks change" in " ".join(each.differences)}
    # The day after the clocks went forward, the library loses the run at midnight.
    assert named == (set() if zone == "Africa/Cairo" else {"6"})
    assert body(found["7"])["schedule"]["dst_gap"] == (
        "next_valid" if zone in ("Europe/Berlin", "America/New_York") else "shift"
    )
    if zone == "Africa/Cairo":  # midnight is skipped: the library loses it
        assert body(found["6"])["schedule"]["dst_gap"] == "skip"


def test_days_are_the_librarys_over_a_year() -> None:
    pick = random.Random(3)
    start = datetime(2027, 1, 1, tzinfo=UTC)
    fields = [
        {"day": "last"}, {"day": "last sun"}, {"day": "1st mon,3rd mon"}, {"day": "*/2", "day_of_week": "mon-fri"},
        {"day_of_week": "*/2"}, {"day_of_week": "5/1"}, {"month": "jan-mar", "day": "31"}, {"year": "2027", "day": "5"},
        {"day": "13", "day_of_week": 4}, {"day_of_week": "sun,0"}, {"month": "*/5", "day": "last,1"},
    ]  # fmt: skip
    fields += [
        {"day": pick.choice(["*", "1-10", "5/9", "31"]), "day_of_week": pick.choice(["*", "0", "6", "1-4", "sat,sun"]),
         "month": pick.choice(["*", "2,3", "*/4"])}
        for _ in range(15)
    ]  # fmt: skip
    for each in fields:
        trigger = CronTrigger(timezone=UTC, hour=6, **each)
        end = start + timedelta(days=366)
        assert ours(trigger, "UTC", start, end) == theirs(trigger, start, end), each
