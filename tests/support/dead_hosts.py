"""Hosts that answer nothing: packets to them are dropped."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest


@contextmanager
def dead_hosts(addresses: Sequence[str], port: int) -> Iterator[None]:
    """Listeners at these addresses whose queues are full: the kernel drops whoever else would connect."""
    with ExitStack() as stack:
        for address in addresses:
            stack.enter_context(socket.create_server((address, port), backlog=0))
            while True:
                try:
                    stack.enter_context(socket.create_connection((address, port), timeout=0.1))
                except TimeoutError:
                    break
        yield


@contextmanager
def seconds_given(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The timeouts of the connections that are tried meanwhile, in their order."""
    given: list[float] = []
    connect = socket.create_connection

    def noting(address: tuple[str, int], timeout: float, **more: Any) -> socket.socket:
        given.append(timeout)
        return connect(address, timeout, **more)

    with monkeypatch.context() as patched:
        patched.setattr(socket, "create_connection", noting)
        yield given


def resolved_to(addresses: Sequence[str], port: int) -> list[tuple[object, ...]]:
    """What `getaddrinfo` says of a name with these addresses."""
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]
