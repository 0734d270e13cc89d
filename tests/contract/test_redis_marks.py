"""The marks by which processes know the same Redis, on real servers."""

from contextlib import ExitStack, closing

import pytest
import redis

from itinerary.protocol.errors import BrokerUnavailable
from scheduler_service.broker.dispatcher import CeleryDispatcher, publishing_app
from scheduler_service.broker.marks import RedisMarks
from scheduler_service.core.redis_marks import Marks, differing
from tests.support.processes import free_port
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.redis


def test_marks_are_put_by_the_leader_alone_and_tell_servers_databases_and_prefixes_apart(
    redis_url: str, redis_server: RedisServer
) -> None:
    elsewhere = redis_url.rpartition("/")[0] + "/15"
    with ExitStack() as stack:
        leader, same, other, database, prefixed = (
            stack.enter_context(closing(RedisMarks(*urls)))
            for urls in (
                (redis_url, redis_url),
                (redis_url.replace("127.0.0.1", "localhost"), redis_url),
                (redis_server.url, redis_server.url),
                (redis_url, elsewhere),
                (redis_url, redis_url, "shop:"),
            )
        )
        assert same.read() == Marks()
        marks = leader.put()
        assert None not in (marks.redis, marks.broker)
        assert leader.put() == same.read() == marks
        assert [differing(marks, one.read()) for one in (same, other, database, prefixed)] == [
            None, "another Redis and another broker", "another broker", "another broker",
        ]  # fmt: skip
        other.put()
        assert differing(marks, other.read()) == "another Redis and another broker"
        dispatcher = stack.enter_context(closing(CeleryDispatcher(publishing_app(redis_url))))
        assert dispatcher.mark()["mark"] == marks.broker
        with redis.Redis.from_url(redis_url) as client:
            client.flushdb()
        assert same.read() == Marks()
        assert leader.put() != marks


def test_a_redis_that_is_full_answers_all_the_same(redis_server: RedisServer) -> None:
    with redis.Redis.from_url(redis_server.url) as client, closing(RedisMarks(*[redis_server.url] * 2)) as marks:
        client.config_set("maxmemory", 1)
        assert marks.put() == Marks()


def test_another_kind_of_broker_has_its_kind_for_a_mark_and_is_asked_whether_it_answers(redis_url: str) -> None:
    asked: list[int] = []
    url = "amqp://user:secret@rabbit:5672//"
    with closing(RedisMarks(redis_url, url, None, lambda: asked.append(1))) as marks:
        assert marks.put().broker == "amqp"
        assert asked == [1]
    with closing(RedisMarks(redis_url, redis_url)) as plain:
        assert differing(Marks(broker="amqp"), Marks(broker=plain.put().broker)) == "another broker"


def test_a_redis_or_broker_that_is_away_is_reported(redis_url: str) -> None:
    away = f"redis://127.0.0.1:{free_port()}/0"
    for urls in ((away, redis_url), (redis_url, away)):
        with closing(RedisMarks(*urls)) as marks:
            for ask in (marks.put, marks.read):
                with pytest.raises(BrokerUnavailable):
                    ask()
