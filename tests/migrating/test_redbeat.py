"""RedBeat's keys, written by RedBeat itself, moved in; and its schedules beside what became of them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab, schedule

from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.protocol.instants import DAY, HOUR, format_instant, parse_instant
from scheduler_service.migrating.beat_entry import ConvertedEntry
from scheduler_service.migrating.beat_moving import app_of_zone, compare_entry, move_entries
from scheduler_service.migrating.redbeat import place_of, read_redbeat

redbeat = pytest.importorskip("redbeat", reason="celery-redbeat is not installed: install the group `test`")
rrules = pytest.importorskip("redbeat.schedules")

pytestmark = pytest.mark.redis

NOW = parse_instant("2026-11-27T10:00:00Z")
SENT = datetime(2026, 11, 27, 9, 55, 3, tzinfo=UTC)


def shop(url: str, prefix: str = "redbeat:") -> Celery:
    app = Celery("shop", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.update(
        redbeat_redis_url=url, redbeat_key_prefix=prefix, redbeat_redis_options={"socket_timeout": 10},
        timezone="Europe/Paris",
    )  # fmt: skip
    return app


def closed(app: Celery) -> None:
    app.redbeat_redis.close()  # type: ignore[attr-defined]


@pytest.fixture
def app(redis_url: str) -> Iterator[Celery]:
    app = shop(redis_url)

    def add(name: str, when: Any, last: datetime | None = None, **fields: Any) -> None:
        entry = redbeat.RedBeatSchedulerEntry(name, "shop.report", when, app=app, **fields)
        entry.save()
        if last is not None:
            entry.reschedule(last)

    add(
        "nightly", crontab(hour=2, minute=30), args=["a"], kwargs={"at": SENT},
        options={
            "queue": "slow", "priority": 2, "expires": 60, "headers": {"tenant": 1}, "shadow": "Nightly", "link": [],
        },
    )  # fmt: skip
    add("quarter", crontab(minute="*/15", day_of_week="mon-fri"), SENT)
    add("ten", schedule(timedelta(minutes=10)), SENT)
    add("half", schedule(0.5))
    add("by rule", rrules.rrule("DAILY"))
    add("off", schedule(60), enabled=False)
    yield app
    closed(app)


def moved_of(url: str, app: Celery, prefix: str = "redbeat:") -> dict[str, ConvertedEntry]:
    found = move_entries(read_redbeat(url, prefix), app, NOW, app_known=False)
    return {entry.entry.name: entry for entry in found}


def test_each_key_becomes_a_job_or_is_refused_by_name(redis_url: str, app: Celery) -> None:
    found = moved_of(redis_url, app)
    assert sorted(found) == ["by rule", "half", "nightly", "off", "quarter", "ten"]
    assert found["nightly"].converted.body == {
        "job_id": "nightly", "task": "shop.report", "args": ["a"],
        "kwargs": {"at": {"$type": "datetime", "$value": "2026-11-27T09:55:03+00:00"}},
        "schedule": {"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Paris", "dst_gap": "shift"},
        "overlap": "allow", "queue": "slow", "priority": 2, "start_within": "1m",
        "headers": {"tenant": 1, "shadow": "Nightly"},
    }  # fmt: skip
    told = "\n".join(found["nightly"].converted.differences)
    assert "option link is not carried over" in told
    assert "rrule schedules are not understood yet" in str(found["by rule"].converted.refused)
    assert "whole seconds" in str(found["half"].converted.refused)
    assert "disabled" in str(found["off"].converted.left_out)


def test_an_interval_goes_on_from_its_last_sending_and_the_shadow_agrees(redis_url: str, app: Celery) -> None:
    found = moved_of(redis_url, app)["ten"]
    assert dict(found.converted.body or {})["schedule"]["anchor"] == "2026-11-27T09:55:03Z"
    seen = compare_entry(found, app, NOW, NOW + DAY)
    assert seen is not None
    assert (seen.differences, seen.note, seen.theirs, seen.itinerary) == ((), None, 144, 144)


def test_an_interval_that_was_never_sent_goes_on_from_when_redbeat_has_it_due(redis_url: str, app: Celery) -> None:
    client = redis.Redis.from_url(redis_url)
    client.hdel("redbeat:ten", "meta")
    client.zadd("redbeat::schedule", {"redbeat:ten": SENT.timestamp() + 600})
    assert dict(moved_of(redis_url, app)["ten"].converted.body or {})["schedule"]["anchor"] == "2026-11-27T09:55:03Z"
    client.close()


def test_another_prefix_is_another_schedule(redis_url: str, app: Celery) -> None:
    other = shop(redis_url, "pre[1]*")
    redbeat.RedBeatSchedulerEntry("theirs", "shop.report", schedule(60), app=other).save()
    assert list(moved_of(redis_url, app, "pre[1]*")) == ["theirs"]
    assert "theirs" not in moved_of(redis_url, app)
    closed(other)


def test_what_is_no_definition_of_redbeats_is_refused_by_its_name(redis_url: str, app: Celery) -> None:
    client = redis.Redis.from_url(redis_url)
    client.hset("redbeat:torn", "definition", "{")
    sun = {"name": "sun", "task": "t", "schedule": {"__type__": "solar", "event": "dusk"}}
    client.hset("redbeat:sun", "definition", json.dumps(sun))
    client.hset("redbeat:own", "definition", json.dumps({"name": "own", "task": "t", "schedule": {"__type__": "mine"}}))
    client.hset("redbeat:no", "definition", json.dumps({"name": "no", "task": "t", "schedule": {"__type__": "crontab",
                "minute": "61"}}))  # fmt: skip
    client.set("redbeat:lock", "x")
    found = moved_of(redis_url, app)
    client.close()
    why = {name: str(found[name].converted.refused) for name in ("torn", "sun", "own", "no")}
    assert "its definition is not understood" in why["torn"]
    assert "solar schedules are not understood yet" in why["sun"]
    assert "'__type__': 'mine'" in why["own"]
    assert "its definition is not understood" in why["no"]


def test_a_redis_without_redbeats_keys_is_refused(redis_url: str) -> None:
    with pytest.raises(ItineraryError, match="no keys of RedBeat under redbeat:"):
        read_redbeat(redis_url)
    with pytest.raises(ItineraryError, match="cannot be read"):
        read_redbeat("redis://:secret@127.0.0.1:1/0")
    for url in ("nonsense", "sentinel://h:26379/0", "redis-cluster://h:7000"):
        with pytest.raises(BadValue, match="--from-redbeat"):
            read_redbeat(url)
    assert place_of("redis://:secret@r:7000/2") == "r:7000/2"


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_every_crontab_fires_when_redbeats_own_object_does_but_for_what_is_named(redis_url: str, zone: str) -> None:
    app = shop(redis_url)
    app.conf.timezone = zone
    given = {
        "a": crontab(minute="5,35", hour="*/6"), "b": crontab(minute="30", hour="2,3"),
        "c": crontab(minute=0, hour="1-3", day_of_week="sun"), "d": crontab(minute=59, hour=23, day_of_month="28-31"),
    }  # fmt: skip
    for name, when in given.items():
        redbeat.RedBeatSchedulerEntry(name, "shop.report", when, app=app).save()
    found = moved_of(redis_url, app)
    for name in given:
        real = redbeat.RedBeatSchedulerEntry.from_key(f"redbeat:{name}", app=app).schedule
        entry = found[name]
        assert entry.job is not None
        assert real == entry.entry.schedule
        seen = compare_entry(entry, app_of_zone(zone), NOW, NOW + 365 * DAY)
        assert seen is not None
        assert seen.theirs > 10
        named = "\n".join(entry.converted.differences)
        for each in seen.differences:
            days = {format_instant(each.at + shift * HOUR)[:10] for shift in (-36, -12, 0, 12, 36)}
            assert any(f"on {day}" in named for day in days), (name, format_instant(each.at), named)
    closed(app)
