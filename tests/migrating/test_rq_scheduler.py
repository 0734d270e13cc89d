"""rq-scheduler's jobs moved in: hashes as rq writes them, lines, intervals, repeats, and pickles that name classes."""

import pickle
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import redis

from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.protocol.instants import SECOND, parse_instant
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.schedules.schedule import occurrences, upcoming
from scheduler_service.migrating.converted import Converted
from scheduler_service.migrating.plain_pickle import NotPlain, load_plain
from scheduler_service.migrating.rq_scheduler import SCHEDULED, read_rq

NOW = parse_instant("2026-11-27T10:00:00Z")
DUE = parse_instant("2026-11-28T03:00:00Z")


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    found = redis.Redis.from_url(redis_url)
    found.flushdb()
    yield found
    found.flushdb()
    found.close()


def add(client: redis.Redis, name: str, data: bytes, due: int = DUE, **fields: Any) -> None:
    client.hset(f"rq:job:{name}", mapping={"data": data, "origin": "reports", **fields})
    client.zadd(SCHEDULED, {name: due // SECOND})


def call(args: tuple[Any, ...] = (), kwargs: Any = None) -> bytes:
    return zlib.compress(pickle.dumps(("shop.jobs.report", None, args, kwargs or {})))


def read(url: str, *, task: str | None = None, timezone: str = "Europe/Berlin") -> dict[str, Converted]:
    found = read_rq(url, task=task, queue=None, timezone=timezone, now=NOW)
    return {each.name: each for each in found}


def body(converted: Converted) -> dict[str, Any]:
    assert converted.refused is None
    return dict(converted.body or {})


def test_a_line_an_interval_and_a_time_become_jobs(client: redis.Redis, redis_url: str) -> None:
    line = {"cron_string": "30 2 * * 1-5", "use_local_timezone": False}
    add(client, "nightly", call((1,), {"since": datetime(2026, 1, 1, tzinfo=UTC)}), meta=pickle.dumps(line), timeout=90)
    add(client, "often", call(), meta=pickle.dumps({"interval": 600}))
    add(client, "once", call())
    add(client, "late", call(), due=NOW - SECOND)
    found = read(redis_url)
    assert body(found["nightly"]) == {
        "job_id": "nightly",
        "task": "shop.jobs.report",
        "args": [1],
        "kwargs": {"since": {"$type": "datetime", "$value": "2026-01-01T00:00:00+00:00"}},
        "schedule": {
            "kind": "cron", "expr": "30 2 * * 1-5", "timezone": "Europe/Berlin",
            "dst_gap": "shift", "dst_fold": "first",
        },
        "overlap": "allow",
        "queue": "reports",
        "timeout": "90s",
    }  # fmt: skip
    assert "in the zone of its own machine" in " ".join(found["nightly"].differences)
    often = body(found["often"])["schedule"]
    assert (often["every"], often["anchor"]) == ("600s", "2026-11-28T03:00:00Z")
    assert body(found["once"])["schedule"] == {"kind": "once", "at": "2026-11-28T03:00:00Z"}
    assert "is past; rq-scheduler would enqueue it at once" in str(found["late"].left_out)


def test_a_repeated_job_ends_after_the_last_of_its_times(client: redis.Redis, redis_url: str) -> None:
    add(client, "three", call(), meta=pickle.dumps({"interval": 600, "repeat": 3}))
    job, _ = read_job(body(read(redis_url)["three"]), created_at=NOW)
    times = upcoming(job.schedule, NOW, 9, start_at=job.start_at, end_at=job.end_at)
    assert [(at - DUE) // SECOND for at in times] == [0, 600, 1200]


def test_what_rq_itself_writes_is_read(client: redis.Redis, redis_url: str) -> None:
    rq = pytest.importorskip("rq", reason="rq is not installed: install the environment of the present lock")
    written = rq.job.Job.create(
        "shop.jobs.report", args=(1, "two"), kwargs={"three": 3.5}, connection=client, timeout=30, origin="slow",
        meta={"interval": 60},
    )  # fmt: skip
    written.save()
    client.zadd(SCHEDULED, {written.id: DUE // SECOND})
    made = body(read(redis_url, task="ops.call")[written.id])
    assert made["job_id"] == "shop.jobs.report"
    assert made["kwargs"] == {"function": "shop.jobs.report", "args": [1, "two"], "kwargs": {"three": 3.5}}
    assert (made["task"], made["queue"], made["timeout"]) == ("ops.call", "slow", "30s")


def test_what_json_serializers_write_is_read(client: redis.Redis, redis_url: str) -> None:
    add(client, "json", zlib.compress(b'["shop.jobs.report", null, [1], {}]'), meta=b'{"cron_string": "*/5 * * * *"}')
    made = body(read(redis_url, timezone="UTC")["json"])
    assert (made["args"], made["schedule"]["expr"]) == ([1], "*/5 * * * *")
    there = body(read(redis_url)["json"])["schedule"]
    assert there["expr"].endswith(" 0-23 * * *"), "a leading star would follow elapsed time"


class Evil:
    """Unpickled, it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_pickle_that_names_a_function_runs_nothing(client: redis.Redis, redis_url: str, tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    add(client, "evil", call((Evil(trap),)))
    add(client, "meta", call(), meta=pickle.dumps({"x": Evil(trap)}))
    add(client, "fraction", call((Fraction(1, 2),)))
    found = read(redis_url)
    assert "its definition holds a pickled pathlib.Path" in str(found["evil"].refused)
    assert "its meta holds a pickled" in str(found["meta"].refused)
    assert "holds a pickled fractions.Fraction, which to read runs code" in str(found["fraction"].refused)
    assert not trap.exists()
    with pytest.raises(NotPlain, match=r"os\.system|posix\.system"):
        load_plain(b"cos\nsystem\n(S'true'\ntR.")
    assert load_plain(pickle.dumps([{"a": (1, timedelta(1))}])) == [{"a": (1, timedelta(1))}]


@pytest.mark.parametrize(
    ("data", "fields", "why"),
    [
        (b"\x80\x04garbage", {}, "its definition is not understood"),
        (call(), {"meta": b"{"}, "its meta is no JSON"),
        (call(), {"meta": pickle.dumps([1])}, "its meta is no object"),
        (call(), {"meta": pickle.dumps({"cron_string": "0 0 * * * 2027"})}, "has 6 fields"),
        (call(), {"meta": pickle.dumps({"cron_string": "61 0 * * *"})}, "minute '61' is not understood"),
        (call(), {"meta": pickle.dumps({"interval": "soon"})}, "no job that rq-scheduler would store"),
        (call(), {"meta": pickle.dumps({"interval": 60, "repeat": "all"})}, "no job that rq-scheduler would store"),
        (zlib.compress(pickle.dumps(("run", None, 5, {}))), {}, "no job that rq-scheduler would store"),
        (call(), {"dependency_id": "other"}, "depends on another job"),
        (zlib.compress(pickle.dumps(("run", {"a": 1}, (), {}))), {}, "calls a method of"),
        (zlib.compress(pickle.dumps((1, 2))), {}, "no function with arguments"),
    ],
)
def test_what_cannot_be_moved_is_refused_by_its_name(
    client: redis.Redis, redis_url: str, data: bytes, fields: dict[str, Any], why: str
) -> None:
    add(client, "job", data, **fields)
    assert why in str(read(redis_url)["job"].refused)


def test_a_job_whose_hash_is_gone_and_a_redis_without_jobs_are_named(client: redis.Redis, redis_url: str) -> None:
    with pytest.raises(ItineraryError, match=f"has no jobs in {SCHEDULED}"):
        read(redis_url)
    client.zadd(SCHEDULED, {"gone": 1})
    assert "gone from Redis" in str(read(redis_url)["gone"].refused)
    with pytest.raises(BadValue, match="URL"):
        read("http://localhost")
    with pytest.raises(ItineraryError, match="cannot be read"):
        read("redis://127.0.0.1:1/0")


def test_both_day_fields_are_wanted_as_the_library_wants_them(client: redis.Redis, redis_url: str) -> None:
    add(client, "13th", call(), meta=pickle.dumps({"cron_string": "0 0 13 * 5"}))
    job, _ = read_job(body(read(redis_url, timezone="UTC")["13th"]), created_at=NOW)
    year = parse_instant("2027-01-01T00:00:00Z"), parse_instant("2028-01-01T00:00:00Z")
    assert occurrences(job.schedule, *year) == [parse_instant("2027-08-13T00:00:00Z")]
