"""Connections that are over when their time is over, whatever the other side does; standard library alone.

A timeout of a socket is that of one address and of one read: a name with many dead addresses, or a server that drips,
would take for ever.
"""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar, cast

T = TypeVar("T")


def left(deadline: float) -> float:
    """Seconds until then, by the monotonic clock; TimeoutError where there are none."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("out of time")
    return seconds


def within(seconds: float, ask: Callable[[], T]) -> T:
    """What the resolver says, which knows no timeout; OSError, UnicodeError, TimeoutError: it is left behind."""
    answer: SimpleQueue[tuple[T | None, Exception | None]] = SimpleQueue()

    def wait() -> None:
        try:
            answer.put((ask(), None))
        except (OSError, UnicodeError) as exc:
            answer.put((None, exc))

    threading.Thread(target=wait, name="resolver", daemon=True).start()
    try:
        value, error = answer.get(timeout=seconds)
    except Empty as exc:
        raise TimeoutError("no name was resolved in time") from exc
    if error is not None:
        raise error
    return cast(T, value)


def addresses_of(host: str, port: int, deadline: float) -> list[str]:
    """All addresses of a name; OSError, UnicodeError, TimeoutError."""
    found = within(left(deadline), lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


def connected(addresses: Sequence[str], port: int, deadline: float) -> socket.socket:
    """Connected to the first that answers; each has its share of the time that is left."""
    refused: OSError | None = None
    for number, address in enumerate(addresses):
        try:
            return socket.create_connection((address, port), timeout=left(deadline) / (len(addresses) - number))
        except OSError as exc:
            refused = exc
    raise refused or OSError("the name has no address")


class Fuse:
    """Cuts a connection off at its deadline, in the middle of a TLS handshake too; `stand_down` once it is over."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self.blown = False
        self._timer = threading.Timer(left(deadline), self._blow)
        self._line = connection.dup()  # what TLS wraps is another object
        self._timer.daemon = True
        self._timer.start()

    def stand_down(self) -> None:
        """Everything was said, or nothing will be."""
        self._timer.cancel()
        self._line.close()

    def _blow(self) -> None:
        self.blown = True
        with suppress(OSError):  # closed in the same moment
            self._line.shutdown(socket.SHUT_RDWR)
