"""Connections that are over when their time is over."""

import socket
import threading
import time

import pytest

from itinerary.net.bounded import addresses_of, connected
from tests.support.dead_hosts import dead_hosts, resolved_to
from tests.support.processes import free_port

DEAD = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


@pytest.mark.slow
def test_dead_addresses_leave_time_for_one_that_answers() -> None:
    port = free_port()
    with dead_hosts(DEAD, port), socket.create_server(("127.0.0.1", port)):
        connection = connected([*DEAD, "127.0.0.1"], port, time.monotonic() + 1)
        with connection:
            assert connection.getpeername() == ("127.0.0.1", port)


def test_dead_addresses_together_take_no_longer_than_there_is_time() -> None:
    port = free_port()
    with dead_hosts(DEAD, port):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            connected(DEAD, port, began + 0.3)
        assert time.monotonic() - began < 0.6


def test_a_name_without_addresses_cannot_be_connected_to() -> None:
    with pytest.raises(OSError, match="no address"):
        connected([], 1, time.monotonic() + 1)


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(10) and [])
    with pytest.raises(TimeoutError, match="resolved in time"):
        addresses_of("slow.example", 80, time.monotonic() + 0.1)
    over.set()


def test_each_address_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved_to(["127.0.0.2", "127.0.0.1", "127.0.0.2"], 1))
    assert addresses_of("name", 1, time.monotonic() + 1) == ["127.0.0.2", "127.0.0.1"]


def test_a_name_that_is_none_says_so() -> None:
    with pytest.raises(UnicodeError):
        addresses_of("a" * 70, 1, time.monotonic() + 5)
