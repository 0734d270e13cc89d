"""The servers and tools that the other tests stand on."""

import socket
import threading
from socketserver import TCPServer
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support import processes
from tests.support.http_server import LoopbackServer, QuietHandler
from tests.support.processes import free_port, wait_until
from tests.support.proxy import Fault, FaultProxy
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


@pytest.mark.parametrize("fault", ["reset", "refuse"])
def test_a_connection_that_the_proxy_is_just_making_is_reset_with_the_others(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    begun, may_go_on, connect = threading.Event(), threading.Event(), socket.create_connection

    def held_back(*address: Any, **more: Any) -> socket.socket:
        begun.set()
        may_go_on.wait()
        return connect(*address, **more)

    with FaultProxy(redis_server.port) as proxy, connect(("127.0.0.1", proxy.port), timeout=60) as first:
        first.sendall(b"PING\r\n")
        assert first.recv(64) == b"+PONG\r\n"
        monkeypatch.setattr(socket, "create_connection", held_back)
        with connect(("127.0.0.1", proxy.port), timeout=60) as second:
            second.sendall(b"PING\r\n")
            begun.wait()
            proxy.become(fault)
            may_go_on.set()
            with pytest.raises(ConnectionResetError):
                second.recv(64)


def test_a_connection_counts_as_open_until_its_socket_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    may_close, close = threading.Event(), TCPServer.shutdown_request

    def held_back(server: TCPServer, request: socket.socket) -> None:
        may_close.wait()
        close(server, request)

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

    monkeypatch.setattr(TCPServer, "shutdown_request", held_back)
    with LoopbackServer(Handler) as server:
        port = int(server.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert client.recv(64).startswith(b"HTTP/1.0 204")
            assert (server.connections, server.open) == (1, 1)
            may_close.set()
            wait_until(lambda: server.open == 0, what="the end of the connection")
            while client.recv(64):
                pass


def _ping(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(64)


def test_a_black_hole_swallows_bytes_and_keeps_the_connection(redis_server: RedisServer) -> None:
    with FaultProxy(redis_server.port) as proxy:
        patient, client = (
            redis.Redis(port=proxy.port, socket_timeout=seconds, retry=Retry(NoBackoff(), 0)) for seconds in (60, 0.2)
        )
        assert patient.ping()
        proxy.become("blackhole")
        with pytest.raises(redis.TimeoutError):
            client.ping()
        proxy.become("none")
        assert patient.ping()
        client.close()
        patient.close()


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server(("127.0.0.1", free_port())):
        pass
