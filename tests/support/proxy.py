"""A TCP proxy that can refuse, reset, swallow or delay, between a client and a real server."""

import socket
import struct
import threading
import time
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Literal, Self

from tests.support.processes import free_port

Fault = Literal["none", "refuse", "reset", "blackhole", "delay"]


class FaultProxy(AbstractContextManager["FaultProxy"]):
    """Forwards loopback `port` to `target_port`, as `become` says from now on.

    none: as it comes. refuse: what is open is reset, new connections are refused. reset: what is open is
    reset, once. blackhole: connections stay open (new ones too) and their bytes vanish, both ways, even
    after it. delay: each chunk waits `delay` seconds, both ways.
    """

    def __init__(self, target_port: int, target_host: str = "127.0.0.1") -> None:
        self._target = (target_host, target_port)
        self._fault: Fault = "none"
        self._delay = 0.0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._cut: int | None = None
        self.asked = 0
        """How often clients have sent something: what one sends at once counts once, unless it is long."""
        self._listener: socket.socket | None = None
        self.port = free_port()  # its own while it refuses, too
        self._listen()

    def become(self, fault: Fault, delay: float = 0.0) -> None:
        """Behave so from now on."""
        before, self._fault = self._fault, fault
        self._delay = delay
        if fault == "refuse":
            self._stop_listening()
        elif before == "refuse":
            self._listen()
        if fault in ("refuse", "reset"):
            self._reset_all()

    def cut_next_reply(self, client_port: int) -> None:
        """Of the client whose end has this port: what the server says next is lost, and the connection with it."""
        self._cut = client_port

    def close(self) -> None:
        """Stop listening and reset what is open."""
        self._stop_listening()
        self._reset_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _listen(self) -> None:
        listener = self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _stop_listening(self) -> None:
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            _wake_and_close(listener)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # closed
            with self._lock:  # it is among the open ones from now on: a reset while it is being connected meets it too
                if wanted := self._listener is listener:
                    self._open.add(client)
            if not wanted:
                _reset(client)
                return
            try:
                server = socket.create_connection(self._target, timeout=60)
            except OSError:
                self._reset_pair(client)  # the real server is away: the client sees a dead connection
                continue
            server.settimeout(None)
            with self._lock:
                if wanted := client in self._open:
                    self._open.add(server)
            if not wanted:
                _reset(server)
                continue
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink, source is client), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_client: bool) -> None:
        with suppress(OSError):
            while chunk := source.recv(65536):
                self.asked += is_client
                if self._cut is not None and self._cut == _peer_port(sink):
                    self._cut = None
                    self._reset_pair(source, sink)
                    return
                if self._fault == "blackhole":
                    continue
                if self._fault == "delay":
                    time.sleep(self._delay)
                sink.sendall(chunk)
        with self._lock:
            ours = self._open & {source, sink}  # what a reset has taken out must not be closed gently
            self._open -= ours
        for end in ours:
            _wake_and_close(end)

    def _reset_pair(self, *ends: socket.socket) -> None:
        with self._lock:
            self._open -= set(ends)
        for end in ends:
            _reset(end)

    def _reset_all(self) -> None:
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            _reset(end)


def _peer_port(end: socket.socket) -> int:
    port: int = end.getpeername()[1]
    return port


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RD)  # wakes the thread that reads it
    end.close()


def _wake_and_close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
