"""What a worker cannot take, cannot claim or cannot read: never executed, never in silence, never the worker's end."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis
from celery import Celery, Task
from celery.worker.request import Request

from itinerary.worker.claimable import hindrance
from scheduler_service.core.leader.messages import Failed, Started, Succeeded
from tests.support.processes import wait_until
from tests.support.redis_server import RedisServer
from tests.support.worker_process import Bench, dispatched

_BATCHES = ["-m", "celery", "-A", "tests.workers.batchapp", "worker", "-n", "one@here", "-Q", "default", "-c", "1"]


class OwnRequest(Request):
    """As Celery's manual shows it."""

    def on_timeout(self, soft: bool, timeout: float) -> None:
        super().on_timeout(soft, timeout)


class OwnWay(Request):
    def execute_using_pool(self, pool: Any, **kwargs: Any) -> None:
        raise AssertionError("never")


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({}, None),
        ({"Request": OwnRequest}, None),
        ({"Request": "celery.worker.request:Request"}, None),
        ({"Request": OwnWay}, "has a Request with execute_using_pool() of its own, OwnWay"),
        ({"Request": object}, "has a Request that is none of Celery's"),
        ({"Strategy": "tests.workers.batchapp:collecting"}, "has a Strategy of its own, tests.workers.batchapp:coll"),
        ({"start_strategy": lambda *_: None}, "has a start_strategy() of its own, in Odd"),
    ],
)
def test_a_task_can_be_claimed_only_where_celery_s_own_code_takes_its_messages(
    members: dict[str, Any], why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USERAPP_BROKER", "memory://")
    app = Celery("odd", broker="memory://", set_as_current=False)
    task = app.register_task(type("Odd", (Task,), {"name": "odd", "run": lambda self: None, **members})())
    found = hindrance(task)
    assert found == why if why is None else str(found).startswith(why)


@pytest.fixture
def bench(redis_server: RedisServer, tmp_path: Path) -> Iterator[Bench]:
    with Bench(redis_server.url, tmp_path) as bench:
        yield bench


def message(own: dict[str, Any], text: bytes = b"[[], {}, {}]", **changes: Any) -> bytes:
    """A list item as kombu pushes it."""
    whole = {
        "body": base64.b64encode(text).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": "user.add", "id": uuid4().hex, "retries": 0, **own},
        "properties": {
            "correlation_id": "x",
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "default"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": uuid4().hex,
        },
        **changes,
    }
    return json.dumps(whole).encode()


_NO_MESSAGES: list[bytes] = [
    b"not json",
    b"\xff\xfe",
    b"[]",
    b"{}",
    b"7",
    b"null",
    b'"text"',
    b'{"properties": {}}',
    b'{"properties": 7, "headers": 7, "body": 7}',
    b"[" * 100_000,
]
_HOSTILE: list[bytes] = [
    *_NO_MESSAGES,
    message({"timelimit": ["a", "b"]}),
    message({"timelimit": [1, 2, 3]}),
    message({"timelimit": 7}),
    message({"timelimit": {"a": 1}}),
    message({"timelimit": [None, float("inf")]}),
    message({"timelimit": [True, None]}),
    message({"timelimit": [-5, None]}),
    message({"id": None}),
    message({"id": {"a": 1}}),
    message({"id": ["x"]}),
    message({"task": None}),
    message({"task": ["user.add"]}),
    message({"task": {"a": 1}}),
    message({"eta": "soon"}),
    message({"eta": 7}),
    message({"expires": []}),
    message({"stamped_headers": [["a"]], "stamps": []}),
    message({"stamped_headers": 7}),
    message({"stamps": "abc", "stamped_headers": ["a"]}),
    message({"retries": "many"}),
    message({"shadow": {"a": 1}}),
    message({"argsrepr": {"a": 1}, "kwargsrepr": 7}),
    message({"ignore_result": "x", "replaced_task_nesting": "x", "groups": 7, "parent_id": [], "root_id": {}}),
    message({}, b"7"),
    message({}, b"[]"),
    message({}, b"[1, 2, 3]"),
    message({}, b'[[], [], "x"]'),
    message({}, b"[[1, 2], {}, {}]", **{"content-type": "application/x-python-serialize"}),
    message({}, b"\xff\xfe"),
    message({}, b"[[1, 2], {}, {}]", **{"content-encoding": "no such"}),
    message({}, b"[[1, 2], {}, {}]", **{"content-type": 7}),
    message({"compression": "gzip"}, b"not compressed"),
    message({}, headers=[]),
    message({}, headers=None),
    message({}, properties={"delivery_tag": {}, "delivery_info": {}}),
    message({}, body=7),
    *(
        message({}, properties={"delivery_tag": tag, "delivery_info": {"exchange": "", "routing_key": "default"}})
        for tag in (None, True, 1.5, {})
    ),
]


@pytest.mark.slow
@pytest.mark.redis
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_no_forged_message_ends_a_worker_or_comes_back_to_it(bench: Bench, pool: str) -> None:
    worker = bench.worker("-c", "1", "-P", pool)
    with redis.Redis.from_url(bench.url) as client:
        for item in _HOSTILE:
            client.lpush("default", item)
        for item in _NO_MESSAGES:
            client.publish("/0.celery.pidbox", item)
        bench.publish(dispatched("after", "user.add", 1, 2))
        bench.report_of("after", Succeeded)
        assert worker.running, worker.output
        wait_until(lambda: client.hlen("unacked") == 0, what=lambda: str(client.hgetall("unacked")))
        assert client.llen("default") == 0
    assert "Unrecoverable error" not in worker.output
    assert "Restoring" not in worker.output
    assert "Connection to broker lost" not in worker.output
    assert "Pool callback raised" not in worker.output


@pytest.mark.slow
@pytest.mark.redis
def test_runs_whose_message_cannot_be_read_or_taken_fail_with_their_reason(bench: Bench) -> None:
    worker = bench.worker("-c", "1", RESULT_BACKEND="redis://127.0.0.1:1/0")
    with redis.Redis.from_url(bench.url) as client:
        for name, forged in {
            "decoding": {"body": base64.b64encode(b'[[{"__type__": "nope", "__value__": 1}], {}, {}]').decode()},
            "content": {"content-type": "application/x-python-serialize"},
            "limit": {},
            "shape": {"body": base64.b64encode(b"[1]").decode()},
            "embedded": {"body": base64.b64encode(b'[[1, 2], {}, "x"]').decode()},
        }.items():
            bench.publish(dispatched(name, "user.add", 1, 2, queue="elsewhere"))
            whole = json.loads(client.rpop("elsewhere") or b"{}")  # type: ignore[arg-type]
            if name == "limit":
                whole["headers"]["timelimit"] = ["a", "b"]
            client.lpush("default", json.dumps(whole | forged))
    bench.publish(dispatched("unknown", "user.nobody_knows"))
    for name, reason in {
        "decoding": "undecodable",
        "content": "undecodable",
        "limit": "malformed",
        "shape": "malformed",
        "embedded": "malformed",
        "unknown": "unknown_task",
    }.items():
        assert bench.report_of(name, Failed).reason == reason, worker.output
        assert [type(report) for report in bench.about(name)] == [Started, Failed]
    assert bench.truth == []
    bench.publish(dispatched("fine", "user.report", "acme"))
    assert bench.report_of("fine", Succeeded), "its result backend is away, and it needs none"
    bench.publish(dispatched("stored", "user.add", 1, 2))
    assert bench.report_of("stored", Succeeded).result == 3, "its result is with the run all the same"


@pytest.mark.slow
@pytest.mark.redis
def test_a_worker_with_a_task_that_cannot_be_claimed_does_not_start_and_names_it(bench: Bench) -> None:
    worker = bench.spawn(_BATCHES, LATE="1", FINAL="1")
    assert worker.wait() != 0
    assert "task bat.final cannot be given the claim, TypeError('this class is final')" in worker.output
    assert "task bat.collect has a Strategy of its own" in worker.output
    assert "task bat.late has a Strategy of its own" in worker.output
    assert bench.truth == []


@pytest.mark.slow
@pytest.mark.redis
def test_runs_of_an_excluded_task_fail_at_once_and_everybody_else_s_messages_go_its_way(bench: Bench) -> None:
    bench.start(_BATCHES, EXCLUDE="1")
    bench.publish(dispatched("batched", "bat.collect"), dispatched("plain", "bat.plain"))
    failed = bench.report_of("batched", Failed)
    assert failed.reason == "unclaimable"
    assert "bat.collect" in failed.error["message"]
    assert bench.report_of("plain", Succeeded).result == "done"
    bench.app.send_task("bat.collect", task_id="theirs", queue="default")
    bench.witnessed("collected theirs")
    assert bench.truth == ["collected theirs"]
