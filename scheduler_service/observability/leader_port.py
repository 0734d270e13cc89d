"""The leader's small HTTP port: whether the process makes progress, and its metrics. Off unless a port is set.

Promises that `/healthz` answers 503 once a leader or standby made no progress for STALLED_AFTER, so that its supervisor
can restart it. A database or Redis that is away is no reason for that. Only reads, and keeps no state.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import MINUTE, SECOND, Duration

STALLED_AFTER: Final = MINUTE
"""The time for which a leader's loop may stand still before its lease is given up."""

_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def leader_port(
    host: str, port: int, stalled_for: Callable[[], Duration], exposition: Callable[[], str]
) -> Iterator[int]:
    """Serve on host:port (0: any free one) inside the block and yield the port; ItineraryError if it is taken."""
    try:
        server = _server(host)((host, port), _handler(stalled_for, exposition))
    except OSError as exc:
        message = f"port {port} of {host} cannot be listened on ({exc.strerror}); set another ITINERARY_METRICS_PORT"
        raise ItineraryError(message) from exc
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.3}, name="leader-port")
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _server(host: str) -> type[ThreadingHTTPServer]:
    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    return Server


def _handler(stalled_for: Callable[[], Duration], exposition: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5  # for a client that sends nothing
        server_version = sys_version = ""

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/healthz":
                    self._answer(*_health(stalled_for()))
                case "/metrics":
                    self._answer(200, _METRICS_TYPE, exposition())
                case _:
                    self._answer(404, "text/plain; charset=utf-8", "here are /healthz and /metrics\n")

        def _answer(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """A probe each few seconds is nothing to log."""

    return Handler


def _health(stalled: Duration) -> tuple[int, str, str]:
    alive = stalled <= STALLED_AFTER
    body = {"status": "ok" if alive else "stands still", "silent_seconds": round(stalled / SECOND, 3)}
    return 200 if alive else 503, "application/json", json.dumps(body)
