"""Connections with a deadline, whatever the other side does; standard library only.

A socket's timeout applies to one address and one read. A name with many dead addresses, or a server that sends slowly,
would take forever.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TypeVar, cast

T = TypeVar("T")


def left(deadline: float) -> float:
    """The seconds until the deadline, by the monotonic clock; TimeoutError if none are left."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("out of time")
    return seconds


def within(seconds: float, ask: Callable[[], T]) -> T:
    """Resolve a name in a thread, since the resolver has no timeout; OSError, UnicodeError, TimeoutError."""
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
    """A connection to the first address that answers; each gets a share of the time left."""
    refused: OSError | None = None
    for number, address in enumerate(addresses):
        try:
            return socket.create_connection((address, port), timeout=left(deadline) / (len(addresses) - number))
        except OSError as exc:
            refused = exc
    raise refused or OSError("the name has no address")


class Fuse:
    """A timer that cuts a connection off at its deadline, even in a TLS handshake; `stand_down` disarms it."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self.blown = False
        self._timer = threading.Timer(left(deadline), self._blow)
        # A descriptor of its own, since TLS takes the socket's away.
        self._line = socket.fromfd(connection.fileno(), connection.family, connection.type)
        self._timer.daemon = True
        self._timer.start()

    def stand_down(self) -> None:
        """Disarm: the exchange is over."""
        self._timer.cancel()
        self._line.close()

    def _blow(self) -> None:
        self.blown = True
        with suppress(OSError):  # closed at the same moment
            self._line.shutdown(socket.SHUT_RDWR)


@contextmanager
def cut_off(connection: socket.socket, deadline: float | None) -> Iterator[None]:
    """Cut the connection off at the deadline, if there is one; TimeoutError where that came before the end."""
    if deadline is None:
        yield
        return
    fuse = Fuse(connection, deadline)
    try:
        yield
    finally:
        fuse.stand_down()
        if fuse.blown:
            raise TimeoutError("timed out")
