"""What the HTTP servers of the tests share: one on a free port of loopback for the length of a block."""

import socket
import threading
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class QuietHandler(BaseHTTPRequestHandler):
    """Says nothing on stderr."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class _Server(ThreadingHTTPServer):
    """Knows which connections are open: from before their first byte is read until their socket is closed."""

    daemon_threads = True
    request_queue_size = 128  # the kernel drops whoever finds it full, and they ask again after a second

    def __init__(self, handler: type[QuietHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.connections = 0
        self.open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        super().shutdown_request(request)
        self.open.discard(request)  # not before: whoever waits for it would find the connection as good as ever


class LoopbackServer(AbstractContextManager["LoopbackServer"]):
    """`address` is http://127.0.0.1:PORT, from the beginning; it answers inside the block."""

    def __init__(self, handler: type[QuietHandler]) -> None:
        self._server = _Server(handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def connections(self) -> int:
        """How many were made."""
        return self._server.connections

    @property
    def open(self) -> int:
        """How many are not closed on the side of the server."""
        return len(self._server.open)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)
