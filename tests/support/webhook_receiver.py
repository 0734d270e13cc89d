"""A real receiver of webhooks on loopback: answers as it is told to and keeps what it was sent, byte for byte."""

import base64
import hashlib
import hmac
import json
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tests.support.http_server import LoopbackServer, QuietHandler

SECRET = "whsec_" + base64.b64encode(b"a key of thirty-two bytes at all").decode()


@dataclass(frozen=True, slots=True)
class Post:
    """One request."""

    path: str
    headers: dict[str, str]
    raw: bytes
    status: int

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def message_id(self) -> str:
        return self.headers["webhook-id"]


class WebhookReceiver(LoopbackServer):
    """Gives `answers` one after another, the last one for ever: a status, a Location to redirect to, "hang".

    With `event` these are for that type alone, and others get the last one.
    """

    def __init__(self, *answers: int | str, event: str | None = None) -> None:
        self.answers: list[int | str] = list(answers) or [200]
        self._event = event
        self.posts: list[Post] = []
        self.over = threading.Event()
        super().__init__(_handler(self))
        self.url = f"{self.address}/hook"

    @property
    def taken(self) -> list[Post]:
        """What was answered with 200."""
        return [post for post in list(self.posts) if post.status == 200]

    def of_type(self, name: str) -> list[Post]:
        """What was taken of an event."""
        return [post for post in self.taken if post.body["type"] == name]

    def next_answer(self, raw: bytes) -> int | str:
        if self._event is not None and json.loads(raw)["type"] != self._event:
            return self.answers[-1]
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        super().__exit__(kind, error, trace)


def _handler(receiver: WebhookReceiver) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            answer = receiver.next_answer(raw)
            status = answer if isinstance(answer, int) else 0 if answer == "hang" else 307
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.posts.append(Post(self.path, headers, raw, status))
            if status == 0:
                receiver.over.wait(60)
                return
            self.send_response(status)
            if status == 307:
                self.send_header("Location", str(answer))
            said = f"Cannot POST {self.path}".encode() if status >= 400 else b""  # as many a server says it
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

    return Handler


def is_signed(post: Post, secret: str = SECRET) -> bool:
    """Whether the request bears the signature of this secret, worked out here anew."""
    signed = b".".join((post.headers["webhook-id"].encode(), post.headers["webhook-timestamp"].encode(), post.raw))
    mac = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256)
    return post.headers["webhook-signature"] == "v1," + base64.b64encode(mac.digest()).decode()
