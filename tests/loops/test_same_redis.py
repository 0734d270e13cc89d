"""Leader, standby, API and command line on two real Redis servers: whoever uses another one hears of it."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import make_url
from structlog.testing import capture_logs

from itinerary.protocol.instants import SECOND
from scheduler_service.api.app import build_app
from scheduler_service.api.context import ApiContext, system_clock
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.bootstrap.parts import open_stores
from scheduler_service.broker.marks import RedisMarks
from scheduler_service.cli.doctor import examine
from scheduler_service.cli.status import redis_warnings
from scheduler_service.config.settings import Settings
from scheduler_service.core.redis_marks import SAME_REDIS
from tests.support.leading import LeaderThread
from tests.support.processes import wait_until
from tests.support.proxy import FaultProxy
from tests.support.redis_server import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.slow]

TTL = 2 * SECOND


@contextmanager
def api_of(settings: Settings) -> Iterator[TestClient]:
    with open_stores(settings) as stores:
        context = ApiContext(settings, stores, LeaderLine(stores.inbox, system_clock), system_clock)
        with closing(TestClient(build_app(context), base_url="http://127.0.0.1")) as client:
            yield client


def shows(contender: LeaderThread, line: str) -> bool:
    return f"\n{line}\n" in contender.meter.exposition()


def leads(contender: LeaderThread) -> bool:
    return shows(contender, "scheduler_is_leader 1.0")


def is_recorded(contender: LeaderThread) -> bool:
    view = contender.leases.peek(0)
    return view is not None and view.live and view.redis_mark is not None


def is_without_redis(contender: LeaderThread) -> bool:
    view = contender.leases.peek(0)
    return view is not None and view.live and view.without_redis


def test_a_standby_an_api_and_a_doctor_with_another_redis_say_so_with_the_cure(
    sqlite_url: str, redis_url: str, redis_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    right = Settings(database_url=sqlite_url, redis_url=redis_url)
    wrong = Settings(database_url=sqlite_url, redis_url=redis_server.url)
    with LeaderThread(sqlite_url, redis_url, ttl=TTL) as one, capture_logs() as logs:
        wait_until(lambda: is_recorded(one), what="the leader to record its marks")
        with LeaderThread(sqlite_url, redis_server.url, holder="two", ttl=TTL) as two:
            wait_until(lambda: shows(two, "scheduler_redis_differs 1.0"), what="the standby's metric")
            assert shows(one, "scheduler_redis_differs 0.0")
            with api_of(right) as api:
                ready = api.get("/readyz")
                assert (ready.status_code, ready.json()["redis"]) == (200, "ok")
                status = api.get("/api/v1/scheduler/status").json()
                assert (status["other_than_leaders"], redis_warnings(status)) == (None, [])
                assert "This API uses" not in api.get("/").text
            with api_of(wrong) as api:
                ready = api.get("/readyz")
                assert (ready.status_code, ready.json()["redis"]) == (503, "not the leader's Redis")
                (sentence,) = redis_warnings(api.get("/api/v1/scheduler/status").json())
                assert sentence.startswith("the API uses another Redis and another broker than the leader; give both")
                assert "This API uses another Redis than the leader" in api.get("/").text
            capsys.readouterr()
            examine(right)
            assert "ok    same redis  Redis and broker are the leader's\n" in (told := capsys.readouterr().out)
            assert "or the workers use another Redis" in told
            assert examine(wrong) == 1
            told = capsys.readouterr().out
            assert "FAIL  same redis  the leader uses another Redis and another broker than this command; give" in told
            assert "--    leader      skipped: see same redis\n" in told
            stopped_at = time.monotonic()
            one.stop()
            wait_until(lambda: leads(two), what="the second to lead, since no other does")
            assert time.monotonic() - stopped_at >= TTL / SECOND
            wait_until(lambda: shows(two, "scheduler_redis_differs 0.0"), what="its metric to be at rest")
    (taken,) = [entry for entry in logs if entry["event"].startswith("leading with another Redis and another broker")]
    assert (taken["log_level"], taken["term"], taken["remedy"]) == ("error", 2, SAME_REDIS)
    said = [entry for entry in logs if "this standby uses" in entry["event"]]
    assert [entry["log_level"] for entry in said] == ["error"]
    assert "ITINERARY_REDIS_URL" in said[0]["remedy"]
    assert any("this API uses" in entry["event"] for entry in logs)


def test_a_leader_that_cannot_reach_its_broker_gives_way_to_a_standby_that_can(
    sqlite_url: str, redis_url: str, redis_server: RedisServer
) -> None:
    target = make_url(redis_server.url)
    settings = Settings(database_url=sqlite_url, redis_url=redis_url, broker_url=redis_server.url)
    with FaultProxy(target.port or 6379) as proxy:
        via = redis_server.url.replace(f":{target.port}", f":{proxy.port}", 1)
        with LeaderThread(sqlite_url, redis_url, broker_url=via, ttl=TTL) as one:
            wait_until(lambda: is_recorded(one), what="the leader to record its marks")
            proxy.become("refuse")
            wait_until(lambda: is_without_redis(one), what="the leader to say that it cannot publish")
            assert leads(one)
            with api_of(settings) as api:
                asked = lambda: api.get("/api/v1/scheduler/status").json()  # noqa: E731 - an answer may come too late
                status = wait_until(lambda: (seen := asked())["leader_answers"] and seen, what="the leader to answer")
                assert status["leader_without_redis"] is True
                assert "dispatches nothing" in redis_warnings(status)[0]
                assert api.get("/readyz").json()["leader"] == "cannot reach Redis or its broker"
                assert "The leader cannot reach Redis or its broker" in api.get("/").text
            with LeaderThread(sqlite_url, redis_url, broker_url=redis_server.url, holder="two", ttl=TTL) as two:
                wait_until(lambda: leads(two), what="the standby that reaches the broker to take over")
                wait_until(lambda: not leads(one), what="the first to find that its term is over")
                assert not is_without_redis(two)


def test_a_standby_with_the_data_of_another_leader_does_not_relieve_one_without_redis(
    sqlite_url: str, redis_url: str, redis_server: RedisServer
) -> None:
    target = make_url(redis_url)
    with closing(RedisMarks(redis_server.url, redis_server.url)) as marks:
        marks.put()
    with FaultProxy(target.port or 6379) as proxy:
        via = redis_url.replace(f":{target.port}", f":{proxy.port}", 1)
        with LeaderThread(sqlite_url, via, ttl=TTL) as one:
            wait_until(lambda: is_recorded(one), what="the leader to record its marks")
            with LeaderThread(sqlite_url, redis_server.url, holder="two", ttl=TTL) as two:
                proxy.become("refuse")
                wait_until(lambda: is_without_redis(one), what="the leader to say that it has no Redis")
                wait_until(lambda: shows(two, "scheduler_redis_differs 1.0"), what="the standby to see the difference")
                assert (leads(one), leads(two)) == (True, False)
                with LeaderThread(sqlite_url, redis_url, holder="three", ttl=TTL) as three:
                    wait_until(lambda: leads(three), what="the standby with the leader's Redis to take over")
                    view = three.leases.peek(0)
                    assert view is not None
                    assert (view.term, view.holder) == (2, "three")
