"""Hosts that answer nothing: packets to them are dropped."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager


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


def resolved_to(addresses: Sequence[str], port: int) -> list[tuple[object, ...]]:
    """What `getaddrinfo` says of a name with these addresses."""
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]
