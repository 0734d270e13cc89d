"""Connections that send half a request, or read no answer, on real sockets."""

import gc
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.support.processes import Child, free_port, project_env, wait_until
from tests.support.site import Site, serving

WITHIN = 60
OPEN = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n"


@pytest.fixture
def site(sqlite_url: str, redis_url: str) -> Iterator[Site]:
    with serving(sqlite_url, redis_url, receive_timeout="300ms") as served:
        yield served


def connected(site: Site) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(site.url).port or 0), timeout=WITHIN)


def until_closed(peer: socket.socket) -> bytes:
    """All that comes until the other side closes; TimeoutError where it does not."""
    received = b""
    try:
        while part := peer.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


def answer_to(site: Site, sent: bytes) -> bytes:
    """What is answered to these bytes. Who gets no core in time is closed before it has sent any, and comes again."""

    def asked() -> bytes:
        with connected(site) as peer, suppress(ConnectionError):
            peer.sendall(sent)
            return until_closed(peer)
        return b""

    return wait_until(asked, what="an answer")


def test_half_of_the_headers_is_answered_408_and_closed(site: Site) -> None:
    assert answer_to(site, OPEN).startswith(b"HTTP/1.1 408 ")


def test_a_connection_without_a_byte_is_closed(site: Site) -> None:
    with connected(site) as peer:
        assert until_closed(peer) == b""


def test_bytes_that_drip_in_give_the_headers_no_more_time(site: Site) -> None:
    with connected(site) as peer:
        peer.sendall(OPEN)
        peer.settimeout(0.05)
        received = b""
        for _ in range(int(WITHIN / 0.05)):
            try:
                peer.sendall(b"x")
                received = peer.recv(4096)
                break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("still open")
        assert received == b"" or received.startswith(b"HTTP/1.1 408 ")


def test_a_body_that_does_not_come_is_answered_408_and_closed(site: Site) -> None:
    answer = answer_to(site, POST + b"{")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not come within 300ms" in answer


@pytest.mark.slow
def test_the_body_of_a_request_that_was_answered_early_is_not_waited_for(site: Site) -> None:
    assert answer_to(site, POST.replace(b"/api/v1/runs", b"/nowhere")).startswith(b"HTTP/1.1 404 ")


def test_half_of_a_second_request_is_cut_off_too(site: Site) -> None:
    answer = answer_to(site, OPEN + b"\r\n" + OPEN)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in answer


def test_whole_requests_keep_their_connection_for_longer_than_that(site: Site) -> None:
    with httpx2.Client(base_url=site.url, trust_env=False, timeout=WITHIN) as client, connected(site) as waiting:

        def answered() -> bool:
            try:
                return client.get("/healthz").status_code == 200
            except httpx2.TransportError:  # a new connection, and no core in time for its first byte
                return False

        wait_until(answered, what="an answer")
        until_closed(waiting)
        wait_until(answered, what="another answer")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/bin/sh").exists(), reason="needs a shell to lower the number of open files")
def test_half_open_connections_do_not_use_up_the_descriptors(sqlite_url: str, redis_url: str, tmp_path: Path) -> None:
    port = free_port()
    env = project_env(
        ITINERARY_DATABASE_URL=sqlite_url, ITINERARY_REDIS_URL=redis_url, ITINERARY_DATA_DIR=str(tmp_path),
        ITINERARY_API_PORT=str(port),
    )  # fmt: skip
    command = f"ulimit -n 200; exec {sys.executable} -m scheduler_service.cli api"
    peers: list[socket.socket] = []
    with Child(["/bin/sh", "-c", command], env=env) as api:
        api.wait_for_line("api starting")
        try:
            for _ in range(260):
                peers.append(socket.create_connection(("127.0.0.1", port), timeout=WITHIN))
                peers[-1].sendall(OPEN)
            answer = httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=WITHIN, trust_env=False)
            assert answer.status_code == 200
            assert until_closed(peers[0]) == b"", "the oldest made room"
        finally:
            for peer in peers:
                peer.close()
        api.wait_for_line("connections are at their bound", WITHIN)


def test_the_collector_searches_nothing_that_was_loaded_before_the_first_request(
    sqlite_url: str, redis_url: str
) -> None:
    gc.unfreeze()
    with serving(sqlite_url, redis_url):
        assert gc.get_freeze_count() > 10_000
