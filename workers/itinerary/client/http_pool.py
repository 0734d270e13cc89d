"""The connections of one client to one server: kept between requests, each used by one request at a time.

Promises that connecting takes no longer than its timeout, whatever addresses the name has. A connection that the server
has closed is not used again; an error says whether anything was sent. A forked process uses no connection of its
parent. Standard library only.
"""

import http.client
import os
import selectors
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult

from itinerary.net.bounded import addresses_of, connected, cut_off, left

_MOST_AT_ONCE: Final = 100
_MOST_IDLE: Final = 20
# A second less than the API keeps an idle connection: a request that is under way when the API closes it is lost.
_IDLE_SECONDS: Final = 4.0


class Unsent(OSError):
    """No part of the request was sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP server's answer; `reason` is the status as text."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


class _Connection(http.client.HTTPConnection):
    """One connection, kept between requests; connecting takes no longer than its timeout, whatever the name has."""

    used_at = 0.0

    def __init__(self, where: SplitResult, timeout: float, tls: ssl.SSLContext | None) -> None:
        super().__init__(where.hostname or "", where.port or (80 if tls is None else 443), timeout=timeout)
        self._tls = tls
        self._seconds = timeout

    def connect(self) -> None:
        """Resolve and connect, or raise Unsent."""
        deadline = time.monotonic() + self._seconds
        try:
            self.sock = connected(addresses_of(self.host, self.port, deadline), self.port, deadline)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)
        except (OSError, UnicodeError) as exc:
            self.close()
            raise Unsent(str(exc) or type(exc).__name__) from exc

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
        deadline: float | None,
    ) -> Answer:
        """Send one request and read its whole answer."""
        self._seconds = _at_most(timeout, deadline)
        if self.sock is None:
            self.connect()
        self.sock.settimeout(_at_most(timeout, deadline))
        with cut_off(self.sock, deadline):
            self.request(method, target, body=body, headers=dict(headers))
            response = self.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, response.reason, found, response.read())

    def is_usable(self) -> bool:
        """Whether a request may be sent on it: the server has neither closed it nor sent anything unasked."""
        if self.sock is None or time.monotonic() - self.used_at > _IDLE_SECONDS:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(self.sock, selectors.EVENT_READ)
            return not selector.select(0)


class Pool:
    """The connections to one server, for any number of threads; the last one used is used first."""

    def __init__(self, where: SplitResult, timeout: float) -> None:
        self._where = where
        self._timeout = timeout
        self._tls = ssl.create_default_context() if where.scheme == "https" else None
        self._idle: list[_Connection] = []
        self._closed = False
        self.begin()
        _POOLS.add(self)

    def begin(self) -> None:
        """Begin with no connection, and with locks that nobody holds: at first, and in a forked process."""
        self._places = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._lock = threading.Lock()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()  # of this process: to the server the parent's stays open

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float | None,
        deadline: float | None,
    ) -> Answer:
        """Send one request; OSError or HTTPException without a whole answer, Unsent if the server got none of it.

        `timeout` in seconds bounds each wait of it, the monotonic `deadline` all of it.
        """
        seconds = _at_most(self._timeout if timeout is None else timeout, deadline)
        if not self._places.acquire(timeout=seconds):
            raise Unsent(f"{_MOST_AT_ONCE} requests were in progress for {seconds:g} s")
        try:
            connection = self._idle_one() or _Connection(self._where, seconds, self._tls)
            try:
                answer = connection.ask(method, target, body, headers, seconds, deadline)
            except BaseException:
                connection.close()
                raise
            self._keep(connection)
            return answer
        finally:
            self._places.release()

    def close(self) -> None:
        """Close the idle connections; those in use are closed once their request is over."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _idle_one(self) -> _Connection | None:
        while True:
            with self._lock:
                if self._closed:
                    raise RuntimeError("the client is closed; create a new one")
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.is_usable():
                return connection
            connection.close()

    def _keep(self, connection: _Connection) -> None:
        connection.used_at = time.monotonic()
        with self._lock:
            if connection.sock is not None and not self._closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def _at_most(timeout: float, deadline: float | None) -> float:
    """The seconds that a wait may take; TimeoutError if none are left."""
    return timeout if deadline is None else min(timeout, left(deadline))


def _begin_all() -> None:
    for pool in list(_POOLS):
        pool.begin()


_POOLS: Final["weakref.WeakSet[Pool]"] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)
