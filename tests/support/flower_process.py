"""`itinerary flower` as a child process, and every route that its application has."""

import base64
import http.client
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.processes import PATIENCE, Child, free_port, project_env, wait_until

PASSWORD = "a password of the tests"


@dataclass(frozen=True)
class Answer:
    """What was answered; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True)
class FlowerProcess:
    """Where it listens."""

    port: int
    child: Child

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, *, password: str | None = None, body: str = "", **headers: str) -> Answer:
        """One request; header names are written with underscores."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if password is not None:
            sent["Authorization"] = "Basic " + base64.b64encode(f"itinerary:{password}".encode()).decode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body=body or None, headers=sent)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)
        finally:
            connection.close()


@contextmanager
def flower(redis_url: str, **settings: str) -> Iterator[FlowerProcess]:
    """Flower with a password, once it answers."""
    port = free_port()
    env = project_env(
        ITINERARY_REDIS_URL=redis_url, ITINERARY_FLOWER_PORT=str(port), ITINERARY_FLOWER_PASSWORD=PASSWORD
    )
    with Child([sys.executable, "-m", "scheduler_service.cli", "flower"], env=env | settings) as child:
        running = FlowerProcess(port, child)
        wait_until(lambda: _answers(running) or not child.running, what=lambda: child.output, every=0.1)
        assert child.running, child.output
        yield running


def _answers(running: FlowerProcess) -> bool:
    try:
        return running.ask("GET", "/healthcheck").status == 200
    except OSError:
        return False


def routes() -> list[str]:
    """A path for each route, read from Flower itself, so that a route of its next version is among them."""
    from flower.urls import handlers

    found = []
    for handler in handlers:
        pattern = handler[0] if isinstance(handler, tuple) else handler.regex.pattern
        path = re.sub(r"\(\.[+*]\)", "x", pattern.removesuffix("$")).replace("/?", "")
        path = "/nowhere" if path == ".*" else path
        assert re.fullmatch(r"[/\w.-]+", path), f"no path is known for the route {pattern}"
        found.append(path)
    assert len(found) > 30
    return found
