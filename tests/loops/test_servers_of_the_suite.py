"""The servers and tools that the other tests stand on."""

import socket
from types import SimpleNamespace

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support import processes
from tests.support.processes import free_port, wait_until
from tests.support.proxy import FaultProxy
from tests.support.redis_server import RedisServer


def test_each_redis_url_is_an_empty_working_server(each_redis_url: str) -> None:
    with redis.Redis.from_url(each_redis_url, decode_responses=True) as client:
        assert client.dbsize() == 0
        client.set("a", "1")
        assert client.get("a") == "1"


@pytest.mark.postgres
def test_an_empty_postgres_database_takes_sql(empty_postgres_url: str) -> None:
    plain = empty_postgres_url.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(plain) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_a_killed_redis_keeps_what_it_acknowledged(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.set("kept", "yes")
    redis_server.kill()
    redis_server.start()
    with redis_server.client() as client:
        assert client.get("kept") == "yes"


def test_waiting_past_the_deadline_says_what_for() -> None:
    with pytest.raises(AssertionError, match=r"waited 0.05 s for the moon; last answer: 0"):
        wait_until(lambda: 0, 0.05, "the moon")


def test_a_port_is_given_to_one_though_its_server_has_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = free_port(), free_port()
    choices = iter([first, second, *range(20_000, 20_100)])
    monkeypatch.setattr(processes, "_random", SimpleNamespace(choice=lambda _: next(choices)))
    assert free_port() not in (first, second)


def test_the_proxy_forwards_resets_refuses_and_recovers(redis_server: RedisServer) -> None:
    with FaultProxy(redis_server.port) as proxy:
        assert _ping(proxy.port) == b"+PONG\r\n"
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as open_one:
            open_one.sendall(b"PING\r\n")
            assert open_one.recv(64) == b"+PONG\r\n"
            proxy.become("reset")
            with pytest.raises(ConnectionResetError):
                open_one.recv(64)
        assert _ping(proxy.port) == b"+PONG\r\n"
        proxy.become("refuse")
        with pytest.raises(ConnectionRefusedError):
            _ping(proxy.port)
        proxy.become("none")
        assert _ping(proxy.port) == b"+PONG\r\n"


def _ping(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(64)


def test_a_black_hole_swallows_bytes_and_keeps_the_connection(redis_server: RedisServer) -> None:
    with FaultProxy(redis_server.port) as proxy:
        client = redis.Redis(port=proxy.port, socket_timeout=0.2, retry=Retry(NoBackoff(), 0))
        assert client.ping()
        proxy.become("blackhole")
        with pytest.raises(redis.TimeoutError):
            client.ping()
        proxy.become("none")
        assert client.ping()
        client.close()


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server(("127.0.0.1", free_port())):
        pass
