"""Files fetched from real servers on loopback: what comes back, and what a hostile server cannot do."""

import gzip
import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest

from scheduler_service.feeds import fetching
from scheduler_service.feeds.fetching import Feed, FeedFailed, fetch, reach_of
from tests.support.http_server import LoopbackServer, QuietHandler

FILE = b"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n"
PRIVATE = reach_of(allow_private=True)


class Handler(QuietHandler):
    """Answers by path."""

    seen: ClassVar[list[dict[str, str]]] = []
    over = threading.Event()

    def do_GET(self) -> None:
        self.seen.append(dict(self.headers))
        match self.path.partition("?")[0].strip("/").split("/"):
            case ["tagged"] if self.headers.get("If-None-Match") == '"one"':
                self.respond(304, b"")
            case ["dated"] if self.headers.get("If-Modified-Since"):
                self.respond(304, b"")
            case ["tagged"]:
                self.respond(200, FILE, ETag='"one"')
            case ["dated"]:
                self.respond(200, FILE, **{"Last-Modified": "Sun, 29 Nov 2026 10:00:00 GMT"})
            case ["moved", *rest]:
                self.respond(302, b"", Location="/" + "/".join(rest))
            case ["elsewhere"]:
                self.respond(302, b"", Location=f"http://127.0.0.2:{self.server.server_port}/file")
            case ["zipped"]:
                self.respond(200, gzip.compress(b"x" * 1_000_000), **{"Content-Encoding": "gzip"})
            case ["huge"]:
                self.send_large(announced=True)
            case ["endless"]:
                self.send_large(announced=False)
            case ["short"]:
                self.respond(200, FILE, **{"Content-Length": "100"})
            case ["drip"]:
                self.drip()
            case ["refused", status]:
                self.respond(int(status), b"no secret-token here")
            case ["longtag"]:
                self.respond(200, FILE, ETag="x" * 1_000)
            case _:
                self.respond(200, FILE)

    def respond(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_large(self, announced: bool) -> None:
        self.send_response(200)
        if announced:
            self.send_header("Content-Length", "50000000")
        self.end_headers()
        try:
            for _ in range(50):
                self.wfile.write(b"x" * 1_000_000)
        except OSError:  # the client has hung up
            return

    def drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.over.wait(0.02):
            try:
                self.wfile.write(b"x")
            except OSError:
                return


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with LoopbackServer(Handler) as server:
        yield server.address
        Handler.over.set()


@pytest.mark.parametrize("path", ["tagged", "dated"])
def test_a_file_is_fetched_once_and_then_asked_for_by_its_mark(address: str, path: str) -> None:
    first = fetch(f"{address}/{path}", None, PRIVATE)
    assert first.body == FILE
    assert fetch(f"{address}/{path}", first, PRIVATE) is first


def test_a_redirect_is_followed(address: str) -> None:
    assert fetch(f"{address}/moved/moved/file", None, PRIVATE).body == FILE


def test_a_mark_too_long_to_keep_is_not_kept(address: str) -> None:
    assert fetch(f"{address}/longtag", None, PRIVATE) == Feed(FILE)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("huge", "answered with over 5,242,880 bytes"),
        ("endless", "answered with over 5,242,880 bytes"),
        ("zipped", "answered compressed, though it was asked not to"),
        ("short", "ended its answer early"),
        ("refused/404", "the server answered 404"),
        ("refused/500", "the server answered 500"),
        ("refused/204", "the server answered 204"),
        ("refused/304", "the server answered 304"),
        ("moved/" * 6 + "secret-token", "redirected more than 5 times"),
    ],
)
def test_what_is_no_whole_file_fails_and_shows_nothing_of_the_path(address: str, path: str, says: str) -> None:
    with pytest.raises(FeedFailed) as error:
        fetch(f"{address}/{path}?secret-token", None, PRIVATE)
    assert says in str(error.value)
    assert "secret-token" not in str(error.value)


def test_a_private_address_is_refused_at_first_and_after_a_redirect(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_before = len(Handler.seen)
    with pytest.raises(FeedFailed, match="ITINERARY_NOTIFY_ALLOW_PRIVATE"):
        fetch(f"{address}/file", None, reach_of(allow_private=False))
    assert len(Handler.seen) == asked_before
    # The first address plays a public one.
    monkeypatch.setattr("itinerary.net.safe_http.is_public", lambda each: each == "127.0.0.1")
    with pytest.raises(FeedFailed, match="not public"):
        fetch(f"{address}/elsewhere", None, reach_of(allow_private=False))
    assert len(Handler.seen) == asked_before + 1


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://user:secret@host/", "ftp://host/", "http://ho st/", ""])
def test_an_address_that_cannot_be_called_is_refused(url: str) -> None:
    with pytest.raises(FeedFailed, match=r"^url "):
        fetch(url, None, PRIVATE)


def test_a_slow_server_is_cut_off_in_time(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "WITHIN_SECONDS", 0.2)
    with pytest.raises(FeedFailed, match="did not answer in time"):
        fetch(f"{address}/drip", None, PRIVATE)
