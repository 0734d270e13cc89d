"""An HTTP server that answers as it is told to: what a broken API or a proxy before it may do."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.http_server import LoopbackServer, QuietHandler


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; status 0 drops the connection without a word."""

    status: int
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


class StubServer(LoopbackServer):
    """Gives `answers` one after another, the last one for ever; `seen` are the requests as (method, path, body)."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.seen: list[tuple[str, str, Any]] = []
        self.keys: list[str | None] = []
        super().__init__(_handler(self))
        self.url = self.address

    def next_answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def _handler(stub: StubServer) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            stub.seen.append((self.command, self.path, json.loads(raw) if raw else None))
            stub.keys.append(self.headers.get("Idempotency-Key"))
            given = stub.next_answer()
            if not given.status:
                self.close_connection = True
                return
            body = json.dumps(given.body).encode()
            self.send_response(given.status)
            for name, value in {**given.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    return Handler
