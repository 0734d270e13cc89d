"""An app that listens to publications: its receivers fire for our runs where it asked for that."""

from collections.abc import Iterator

import pytest

from itinerary.protocol.instants import HOUR
from itinerary.protocol.keys import Keys
from scheduler_service.core.leader.messages import Succeeded
from tests.support.processes import wait_until
from tests.support.redis_server import RedisServer
from tests.support.worker_process import Bench, dispatched

KEYS = Keys()

pytestmark = [pytest.mark.slow, pytest.mark.redis]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def bench(server: RedisServer, tmp_path: pytest.TempPathFactory) -> Iterator[Bench]:
    with server.client() as client:
        client.flushall()
    with Bench(server.url, tmp_path) as bench:
        yield bench


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_they_fire_once_a_delivery_before_the_apps_prerun(bench: Bench, pool: str) -> None:
    secret = {"PASSWORD": "hunter2", "ITINERARY_SECRET_ENV_NAMES": "PASSWORD"}
    bench.worker("-c", "2", "-P", pool, PUBLISH_SIGNALS="yes", **secret)
    first = dispatched("first", "user.tenant", kwargs={"password": {"$env": "PASSWORD"}})
    second = dispatched("second", "user.tenant", attempt=2, seq=7_000_002, headers={"X-Region": "north"})
    bench.publish(first)
    assert bench.report_of("first", Succeeded).result == ["acme", "acme"]
    bench.publish(first, first, second)  # the copies come later: another process may be faster than the first one's
    assert bench.report_of("second", Succeeded, attempt=2).result == ["acme", "acme"]
    bench.publish(dispatched("last", "user.add", 1, 2, seq=7_000_003))
    bench.report_of("last", Succeeded)
    wait_until(lambda: bench.truth.count("prerun first~1") == 3)
    told = [line for line in bench.truth if line.partition(" ")[0] in ("published", "prerun") and "first~1" in line]
    assert told[:2] == [
        "published user.tenant first~1 [] {'password': {'$env': 'PASSWORD'}}",
        "prerun first~1",
    ]
    assert told[2:] == ["prerun first~1"] * 2
    assert "sent user.tenant default acme south" in bench.truth
    assert "sent user.tenant default acme north" in bench.truth
    assert "published user.tenant second~2 [] {}" in bench.truth
    assert "published user.add last~1 [1, 2] {}" in bench.truth


def test_without_being_asked_nothing_fires_and_a_task_sees_the_headers_of_its_run(bench: Bench) -> None:
    bench.worker("-c", "1")
    bench.publish(dispatched("first", "user.tenant"))
    assert bench.report_of("first", Succeeded).result == [None, None]
    assert not [line for line in bench.truth if line.startswith(("published", "sent"))]
    bench.publish(dispatched("second", "user.tenant", seq=7_000_002, headers={"tenant": {"name": "north"}}))
    assert bench.report_of("second", Succeeded).result == [{"name": "north"}] * 2


def test_a_claim_that_a_time_limit_ended_is_not_asked_for_again(bench: Bench) -> None:
    worker = bench.worker("-c", "1", "--soft-time-limit", "1", PUBLISH_SIGNALS="yes")
    with bench.client() as client:
        client.delete(KEYS.epoch)
    bench.publish(dispatched("first", "user.tenant"))
    wait_until(lambda: "first~1] raised unexpected: SoftTimeLimitExceeded" in worker.output, what=lambda: worker.output)
    bench.accept()
    bench.publish(dispatched("second", "user.tenant", seq=7_000_002, timeout=HOUR))
    bench.report_of("second", Succeeded)
    assert not [line for line in bench.truth if line.startswith("published user.tenant first~1")]
