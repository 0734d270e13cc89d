"""The client's connections: kept between requests, never used once the server has closed them, closed at the end."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from fastapi import FastAPI

from itinerary.client import http_pool
from itinerary.client.run_inserts import _uuid7
from itinerary.client.sync import Client, NoAnswer
from itinerary.protocol.errors import BadValue
from scheduler_service.api.http.serve import server_config
from scheduler_service.config.settings import Settings
from tests.support.http_server import LoopbackServer, QuietHandler
from tests.support.processes import PATIENCE, REPOSITORY, project_env, wait_until


class Counting(LoopbackServer):
    """`quiet` closes each connection after its answer without having said so, `gate` holds answers back."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str | None]] = []
        self.quiet = False
        self.gate = threading.Event()
        self.gate.set()
        counting = self

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                counting.seen.append((self.command, self.path, self.headers.get("authorization")))
                counting.gate.wait(PATIENCE)
                self.close_connection = counting.quiet
                body = json.dumps({"leader": None}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        super().__init__(Handler)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    monkeypatch.setattr(http_pool, "_IDLE_SECONDS", 3600.0)  # a test that gets no core for seconds is not idle
    with Counting() as counting:
        yield counting


@pytest.mark.slow
def test_one_connection_serves_one_caller_and_is_closed_with_the_client(server: Counting) -> None:
    with Client(server.address) as client:
        for _ in range(20):
            client.status()
        assert (server.connections, server.open) == (1, 1)
    wait_until(lambda: server.open == 0, what="the connection to be closed")
    with pytest.raises(RuntimeError, match="closed"):
        client.status()


def test_threads_share_a_client_and_each_has_a_connection_while_it_asks(server: Counting) -> None:
    server.gate.clear()
    with Client(server.address) as client, ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(client.status) for _ in range(8)]
        wait_until(lambda: len(server.seen) == 8, what="eight requests at once")
        server.gate.set()
        assert all(one.result() == {"leader": None} for one in asked)
        client.status()
        assert server.connections == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_uses_no_connection_of_its_parent(server: Counting) -> None:
    """Else two processes write to one connection, and read each other's answers."""
    with Client(server.address, retries=0) as client:
        client.status()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = 0 if [client.status() for _ in range(2)] == [{"leader": None}] * 2 else 1
            finally:
                os._exit(status)  # an error must not go on as a second run of the tests
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        client.status()
        assert server.connections == 2, "the child's own, and the parent's first one"


def test_a_connection_that_the_server_closed_meanwhile_is_not_used(server: Counting) -> None:
    """Else a request that may not be repeated fails, although the API is there."""
    server.quiet = True
    with Client(server.address, retries=0) as client:
        for number in range(5):
            client.create_job({"job_id": "a"})
            wait_until(lambda: server.open == 0, what="the server to close it")
            assert server.connections == number + 1


def test_an_idle_connection_is_left_a_second_before_the_api_closes_it() -> None:
    """Else a request is on its way while the API closes the connection, and nobody knows whether it was carried out."""
    assert server_config(FastAPI(), Settings()).timeout_keep_alive >= http_pool._IDLE_SECONDS + 1


def test_a_connection_that_was_idle_for_long_is_not_used(server: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "_IDLE_SECONDS", 0.0)
    with Client(server.address) as client:
        client.status()
        client.status()
    assert server.connections == 2


def test_a_server_that_says_nothing_is_left_in_time_and_its_connection_is_not_kept(server: Counting) -> None:
    with Client(server.address, timeout=0.2, retries=0) as client:
        ask_patiently = partial(client._api.object, "GET", "/scheduler/status", timeout=PATIENCE)
        ask_patiently()  # it is connected: what comes too late is the answer
        server.gate.clear()
        with pytest.raises(NoAnswer, match="timed out"):
            client.status()
        server.gate.set()
        assert ask_patiently() == {"leader": None}
    assert server.connections == 2


def test_what_cannot_connect_was_not_sent_and_is_tried_again_even_if_it_may_not_be_repeated() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with Client(f"http://127.0.0.1:{taken.getsockname()[1]}", retries=2) as client:
            started = time.monotonic()
            with pytest.raises(NoAnswer, match="refused"):
                client.create_job({"job_id": "a"})
            assert time.monotonic() - started > 0.1, "two pauses"


def test_addresses_with_a_path_a_user_and_questions_are_written_as_the_server_reads_them(server: Counting) -> None:
    address = server.address.replace("http://", "http://u%40x:p@") + "/under/here/"
    with Client(address) as client:
        client.jobs(tag="a b&c", paused=False, limit=5)
    assert server.seen == [("GET", "/under/here/api/v1/jobs?tag=a+b%26c&paused=false&limit=5", "Basic dUB4OnA=")]


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8080", "ftp://host", "http://", "http://host:0", "http://h/?a=1", "http://h b"]
)
def test_what_is_no_address_is_refused_by_name(url: str) -> None:
    with pytest.raises(BadValue, match="base_url"):
        Client(url)


def test_a_header_of_two_lines_is_refused_by_name(server: Counting) -> None:
    with Client(server.address) as client, pytest.raises(BadValue, match="Idempotency-Key"):
        client.trigger("a", idempotency_key="a\r\nX-Other: b")
    assert server.seen == []


def test_the_client_needs_the_standard_library_alone() -> None:
    script = (
        "import sys; before = set(sys.modules); import itinerary.client.sync\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=project_env(), cwd=REPOSITORY, capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.stderr) == ("['itinerary']", "")


def test_ids_sort_by_their_time() -> None:
    before = time.time_ns() // 1_000_000
    ids = []
    for _ in range(200):
        ids.append(_uuid7())
        spent = time.perf_counter_ns() + 1_000
        while time.perf_counter_ns() < spent:
            pass
    assert sorted(ids) == ids
    assert {(one.version, one.variant) for one in ids} == {(7, "specified in RFC 4122")}
    assert before <= ids[0].int >> 80 <= time.time_ns() // 1_000_000
