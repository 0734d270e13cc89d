"""Connections that are over when their time is over."""

import socket
import threading
import time

import pytest

from itinerary.net.bounded import addresses_of, connected
from tests.support.dead_hosts import dead_hosts, resolved_to, seconds_given
from tests.support.processes import PATIENCE, free_port

DEAD = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


@pytest.mark.slow
def test_dead_addresses_leave_time_for_one_that_answers() -> None:
    port = free_port()
    with dead_hosts(DEAD, port), socket.create_server(("127.0.0.1", port)):
        connection = connected([*DEAD, "127.0.0.1"], port, time.monotonic() + 4)
        with connection:
            assert connection.getpeername() == ("127.0.0.1", port)


@pytest.mark.slow
def test_dead_addresses_together_are_given_no_more_than_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    with dead_hosts(DEAD, port), seconds_given(monkeypatch) as given, pytest.raises(TimeoutError):
        connected(DEAD, port, time.monotonic() + 0.3)
    assert 0 < sum(given) <= 0.3


def test_a_name_without_addresses_cannot_be_connected_to() -> None:
    with pytest.raises(OSError, match="no address"):
        connected([], 1, time.monotonic() + PATIENCE)


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(60) and [])
    with pytest.raises(TimeoutError, match="resolved in time"):
        addresses_of("slow.example", 80, time.monotonic() + 0.1)
    over.set()


def test_each_address_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved_to(["127.0.0.2", "127.0.0.1", "127.0.0.2"], 1))
    assert addresses_of("name", 1, time.monotonic() + PATIENCE) == ["127.0.0.2", "127.0.0.1"]


def test_a_name_that_is_none_says_so() -> None:
    with pytest.raises(UnicodeError):
        addresses_of("a" * 70, 1, time.monotonic() + PATIENCE)
