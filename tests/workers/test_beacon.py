"""A worker that would never get a run says so before it takes anything, with what to change."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery

from itinerary.protocol.keys import Keys
from itinerary.protocol.wire import PROTOCOL
from itinerary.worker.beacon import NotComparable, RepeatedCheck, misfit
from itinerary.worker.connection import RedisConnection
from scheduler_service.broker.claims import RedisClaims
from scheduler_service.broker.dispatcher import CeleryDispatcher, publishing_app
from scheduler_service.core.leader.messages import Succeeded
from tests.support.processes import free_port
from tests.support.redis_server import RedisServer
from tests.support.worker_process import Bench, dispatched

KEYS = Keys()

pytestmark = pytest.mark.redis


def announce(url: str, beacon: Mapping[str, Any] = {"v": 1, "protocol": 1}, **options: Any) -> None:
    """What a leader with these transport options does."""
    with (
        closing(CeleryDispatcher(publishing_app(url, options))) as dispatcher,
        closing(RedisClaims(url)) as claims,
    ):
        claims.announce({**beacon, "broker": dispatcher.mark()})


@pytest.fixture
def connection(redis_url: str) -> Iterator[RedisConnection]:
    opened = RedisConnection(redis_url)
    yield opened
    opened.client.close()


def asked(connection: RedisConnection, broker: str, **settings: Any) -> str | None:
    app = Celery("theirs", broker=broker, set_as_current=False)
    app.conf.update(settings)
    with closing(app):
        return misfit(app, connection, patience=0)


@pytest.mark.parametrize(
    ("leaders", "settings", "why"),
    [
        ({}, {}, None),
        ({}, {"task_protocol": 1, "task_serializer": "pickle", "accept_content": ["pickle", "json"]}, None),
        ({}, {"accept_content": ["application/json"]}, None),
        ({}, {"broker_transport_options": {"sep": ":", "queue_order_strategy": "priority"}}, None),
        ({}, {"broker_transport_options": {"priority_steps": list(range(10)), "visibility_timeout": 60}}, None),
        ({}, {"accept_content": ["pickle"]}, "accept_content is ['pickle']"),
        ({}, {"accept_content": []}, "accept_content is []"),
        (
            {},
            {"broker_transport_options": {"global_keyprefix": "shop:"}},
            "set ITINERARY_BROKER_KEY_PREFIX=shop: for the leader",
        ),
        ({"global_keyprefix": "shop:"}, {}, "its keys begin with ''"),
        (
            {"global_keyprefix": "shop:"},
            {"broker_transport_options": {"global_keyprefix": "shop:"}},
            None,
        ),
        ({}, {"broker_transport_options": {"priority_steps": [1, 5]}}, "priority_steps in the app's"),
    ],
)
def test_an_app_is_told_what_would_keep_its_runs_away(
    redis_url: str, connection: RedisConnection, leaders: dict[str, Any], settings: dict[str, Any], why: str | None
) -> None:
    announce(redis_url, **leaders)
    found = asked(connection, redis_url, **settings)
    assert found is None if why is None else why in str(found)


def test_another_database_or_kind_of_broker_is_told(redis_url: str, connection: RedisConnection) -> None:
    announce(redis_url)
    address = redis_url.rpartition("/")[0] if redis_url.count("/") > 2 else redis_url
    assert "another server or database than the leader's" in str(asked(connection, f"{address}/7"))
    assert "the leader sends to redis://" in str(asked(connection, "memory://"))


def test_a_worker_whose_redis_is_another_database_than_the_leader_s_is_told(
    redis_url: str, connection: RedisConnection
) -> None:
    announce(redis_url)
    address = redis_url.rpartition("/")[0] if redis_url.count("/") > 2 else redis_url
    other = RedisConnection(f"{address}/7")
    with closing(other.client) as client:
        client.flushdb()
        why = str(asked(other, f"{address}/7"))
        assert "no leader was ever active in database 7 of its Redis, but one is in database 0" in why
        assert client.connection_pool.connection_kwargs["db"] == 7
        client.set("here", "yes")
        assert client.get("here") == "yes"
        assert connection.client.get("here") is None
        client.set(KEYS.epoch, "one:1")  # this installation's own leader is only away
        with pytest.raises(NotComparable, match="no leader has announced itself"):
            asked(other, f"{address}/7")
        client.flushdb()


def test_a_password_is_not_in_the_sentence(redis_url: str, connection: RedisConnection) -> None:
    announce(redis_url)
    assert "hunter2" not in str(asked(connection, "amqp://me:hunter2@127.0.0.1:1//"))


@pytest.mark.parametrize(
    ("beacon", "sentence"),
    [
        ({"v": 1}, None),  # a leader of the release before names none
        ({"protocol": PROTOCOL}, None),
        ({"protocol": PROTOCOL + 1}, None),
        ({"protocol": PROTOCOL - 1}, "is newer than the service's 0: upgrade leader and API first"),
        ({"protocol": PROTOCOL + 2}, "is too old for the service's 3: upgrade the worker"),
    ],
)
def test_a_worker_says_that_a_leader_speaks_another_protocol_and_runs(
    beacon: Mapping[str, Any],
    sentence: str | None,
    redis_url: str,
    connection: RedisConnection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    announce(redis_url, beacon)
    with caplog.at_level(logging.WARNING, "itinerary.worker"):
        assert asked(connection, redis_url) is None
    assert len(caplog.messages) == (0 if sentence is None else 1)
    assert all(str(sentence) in message for message in caplog.messages)


@pytest.mark.slow
def test_where_nobody_leads_or_something_is_away_nothing_is_refused(
    redis_url: str, connection: RedisConnection
) -> None:
    with pytest.raises(NotComparable, match="no leader has announced itself"):
        asked(connection, redis_url)
    for rubbish in ("rubbish", "[]", '{"broker": 1}', '{"broker": {}, "protocol": "new"}'):
        connection.client.set(KEYS.beacon, rubbish)
        with pytest.raises(NotComparable, match="not understood"):
            asked(connection, redis_url)
    announce(redis_url)
    with pytest.raises(NotComparable, match="the broker is away"):
        asked(connection, f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(NotComparable, match="redis is away"):
        asked(RedisConnection(f"redis://127.0.0.1:{free_port()}/0"), redis_url)


def test_a_worker_started_with_its_leader_warns_only_of_one_that_stays_away(
    redis_url: str, connection: RedisConnection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "itinerary.worker")
    with closing(Celery("theirs", broker=redis_url, set_as_current=False)) as app:
        check = RepeatedCheck(app, connection)
        assert [check(), check(), check()] == [False] * 3
        ours = [record for record in caplog.records if "is not known yet" in record.getMessage()]
        assert [record.levelname for record in ours] == ["INFO", "WARNING", "WARNING"]
        assert "start one, or give this worker its leader's ITINERARY_REDIS_URL" in caplog.text
        announce(redis_url)
        assert check()


def test_a_mark_stays_until_its_broker_loses_it_and_a_worker_waits_for_the_next(
    redis_url: str, connection: RedisConnection
) -> None:
    announce(redis_url)
    mark = connection.client.get(KEYS.broker_mark)
    announce(redis_url)
    assert connection.client.get(KEYS.broker_mark) == mark
    connection.client.delete(KEYS.broker_mark)
    assert "another server or database" in str(asked(connection, redis_url))
    announce(redis_url)
    assert asked(connection, redis_url) is None
    assert 0 < int(connection.client.ttl(KEYS.beacon)) <= 60  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_worker_of_another_prefix_does_not_start_and_one_of_the_same_gets_its_runs(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    with Bench(redis_server.url, tmp_path) as bench, redis.Redis.from_url(redis_server.url) as client:
        announce(redis_server.url, global_keyprefix="shop:")
        argv = ["-m", "celery", "-A", "tests.workers.userapp", "worker", "-Q", "default", "-c", "1"]
        refused = bench.spawn(argv)
        assert refused.wait() != 0
        assert "this worker would never get a run: its keys begin with ''" in refused.output
        bench.own_worker("-c", "1", "-P", "threads", ITINERARY_BROKER_KEY_PREFIX="shop:")
        with closing(CeleryDispatcher(publishing_app(bench.url, {"global_keyprefix": "shop:"}))) as dispatcher:
            dispatcher.publish([dispatched("prefixed", "itinerary.echo", "hi")])
        bench.report_of("prefixed", Succeeded)
        assert client.exists("default") == 0
