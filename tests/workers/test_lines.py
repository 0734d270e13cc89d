"""The connections on which scripts are asked: each answer is that of its own command, whatever breaks amid them."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from itinerary.worker.lines import Lines
from tests.support.redis_server import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.slow]


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as opened:
        yield opened


def number_of(lines: Lines) -> int:
    (answer,) = lines.ask([["CLIENT", "ID"]])
    return int(answer)


def test_many_are_asked_in_one_round_trip_and_an_error_is_the_answer_of_its_own(client: redis.Redis) -> None:
    lines = Lines(client)
    first, refused, last = lines.ask([["ECHO", "a"], ["EVALSHA", "f" * 40, 0], ["ECHO", "c"]])
    assert (first, last) == ("a", "c")
    assert isinstance(refused, redis.exceptions.NoScriptError)
    assert number_of(lines) == number_of(lines), "the connection is kept"


def test_a_connection_that_redis_closed_is_opened_again_unseen(client: redis.Redis) -> None:
    lines = Lines(client)
    before = number_of(lines)
    client.client_kill_filter(_id=str(before))
    assert lines.ask([["ECHO", "a"]]) == ["a"]
    assert number_of(lines) != before


class Interrupted(Exception):
    """What a signal raises in the middle of an answer."""


def test_an_answer_that_nobody_awaits_any_more_is_not_the_next_ones(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = Lines(client)
    kind = client.connection_pool.connection_class
    number_of(lines)

    def interrupted(*_: Any, **__: Any) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(kind, "read_response", interrupted)
        with pytest.raises(Interrupted):
            lines.ask([["BLPOP", "a list that nobody fills", 1]])  # answered while the next waits
    assert lines.ask([["ECHO", "of the next"]]) == ["of the next"]


def test_each_thread_has_its_own_answers(client: redis.Redis) -> None:
    lines = Lines(client)
    wrong: list[Any] = []

    def ask(name: int) -> None:
        wrong.extend(one for n in range(50) if (one := lines.ask([["ECHO", f"{name}-{n}"]])) != [f"{name}-{n}"])

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_redis_that_is_away_is_found_when_it_is_back(tmp_path: Any) -> None:
    with RedisServer(tmp_path) as server, redis.Redis.from_url(server.url, decode_responses=True) as client:
        lines = Lines(client)
        assert lines.ask([["ECHO", "a"]]) == ["a"]
        server.stop()
        for _ in range(3):
            with pytest.raises(redis.ConnectionError):
                lines.ask([["ECHO", "b"]])
        server.start()
        assert lines.ask([["ECHO", "c"]]) == ["c"]
