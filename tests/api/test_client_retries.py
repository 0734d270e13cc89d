"""The client against an API that is away, busy or cut off: what it sends again, and what it never does."""

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from itinerary.client.sync import ApiError, Client, NoAnswer, WaitTimeout
from itinerary.protocol.errors import BadValue, ItineraryError
from tests.support.http_server import LoopbackServer, QuietHandler
from tests.support.stub_server import Answer, StubServer

pytestmark = pytest.mark.slow  # real processes, or many round trips

RUN = {"run_id": "adhoc_1", "state": "completed"}
GONE = Answer(0)
AWAY = Answer(503, {"detail": "the database does not answer"}, {"Retry-After": "0"})
BUSY = Answer(429, {"detail": "too many"}, {"Retry-After": "0"})

Call = Callable[[Client], Any]
REPEATABLE: dict[str, Call] = {
    "enqueue": lambda c: c.enqueue("t"),
    "batch": lambda c: c.enqueue_batch([{"task": "t"}]),
    "read": lambda c: c.run("adhoc_1"),
    "put": lambda c: c.put_job("a", {"task": "t"}),
    "pause": lambda c: c.pause_job("a"),
    "pause of a queue": lambda c: c.pause_queue("q", "an incident"),
    "resume of a queue": lambda c: c.resume_queue("q"),
    "queue": lambda c: c.put_queue("q", {"concurrency": 1}),
    "limit": lambda c: c.put_limit("l", {"concurrency": 1}),
    "calendar": lambda c: c.put_calendar("c", {"timezone": "UTC"}),
    "cancel": lambda c: c.cancel("adhoc_1"),
    "trigger": lambda c: c.trigger("a"),
    "retry": lambda c: c.retry("adhoc_1"),
    "backfill": lambda c: c.backfill("a", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
}
ONCE: dict[str, Call] = {
    "create": lambda c: c.create_job({"job_id": "a"}),
    "trigger of a version": lambda c: c.trigger("a", if_version=3),
    "put of a version": lambda c: c.put_job("a", {"task": "t"}, if_version=3),
    "delete": lambda c: c.delete_job("a"),
}


@pytest.mark.parametrize("trouble", [GONE, AWAY, BUSY], ids=["cut off", "503", "429"])
@pytest.mark.parametrize("call", REPEATABLE.values(), ids=REPEATABLE.keys())
def test_what_may_be_repeated_is_sent_again(call: Call, trouble: Answer) -> None:
    with StubServer([trouble, Answer(200, {**RUN, "runs": [RUN]})]) as stub, Client(stub.url) as client:
        call(client)
    assert len(stub.seen) == 2
    assert stub.seen[0] == stub.seen[1], "with the same idempotency key"
    assert stub.keys[0] == stub.keys[1]


@pytest.mark.parametrize("trouble", [GONE, AWAY], ids=["cut off", "503"])
@pytest.mark.parametrize("call", ONCE.values(), ids=ONCE.keys())
def test_what_may_have_been_done_is_not_done_twice(call: Call, trouble: Answer) -> None:
    with StubServer([trouble]) as stub, Client(stub.url) as client, pytest.raises((NoAnswer, ApiError)):
        call(client)
    assert len(stub.seen) == 1


def test_what_was_refused_for_being_too_much_was_not_done_and_is_sent_again() -> None:
    with StubServer([BUSY, Answer(202, RUN)]) as stub, Client(stub.url) as client:
        assert client.trigger("a") == RUN
    assert len(stub.seen) == 2


def test_every_enqueue_has_a_key_of_its_own_unless_its_caller_gives_one() -> None:
    with StubServer([Answer(201, RUN)]) as stub, Client(stub.url) as client:
        client.enqueue("t")
        client.enqueue("t")
        client.enqueue("t", idempotency_key="mine")
    keys = [body["idempotency_key"] for _, _, body in stub.seen]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


def test_an_answer_that_says_no_is_taken_at_its_word() -> None:
    with StubServer([Answer(422, {"detail": "no"})]) as stub, Client(stub.url) as client, pytest.raises(ApiError):
        client.enqueue("t")
    assert len(stub.seen) == 1


def test_the_tries_end() -> None:
    with StubServer([AWAY]) as stub, Client(stub.url, retries=1) as client, pytest.raises(ApiError, match="503"):
        client.run("adhoc_1")
    assert len(stub.seen) == 2


def test_a_pause_longer_than_a_caller_would_wait_is_left_to_the_caller() -> None:
    later = Answer(503, {}, {"Retry-After": "3600"})
    with StubServer([later]) as stub, Client(stub.url) as client, pytest.raises(ApiError):
        client.run("adhoc_1")
    assert len(stub.seen) == 1


class Slow(LoopbackServer):
    """Begins to answer each request and then sends a byte now and then, or nothing."""

    def __init__(self, pause: float) -> None:
        self.ended, slow = threading.Event(), self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                with suppress(OSError):
                    while not slow.ended.wait(pause):
                        self.wfile.write(b"H")

        super().__init__(Handler)


@pytest.mark.parametrize("pause", [0.05, 3600], ids=["trickles", "hangs"])
def test_a_request_with_its_repeats_takes_no_longer_than_its_total_timeout(pause: float) -> None:
    """Nothing else would end it: its own timeout is an hour."""
    with Slow(pause) as slow, Client(slow.address, timeout=3600, total_timeout=0.5) as client:
        with pytest.raises(NoAnswer, match=r"timed out|in time|out of time"):
            client.enqueue("t")
        slow.ended.set()


@pytest.mark.parametrize("name", ["timeout", "total_timeout"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "5", True], ids=str)
def test_a_timeout_that_is_none_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(BadValue, match=f"^{name}: .* is not accepted; give seconds above 0"):
        Client(**{name: value})


def test_a_pause_is_not_begun_that_the_total_timeout_would_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    soon = Answer(503, {"detail": "soon"}, {"Retry-After": "20"})
    with StubServer([soon]) as stub, Client(stub.url, total_timeout=19) as client, monkeypatch.context() as patched:
        patched.setattr(time, "sleep", paused.append)
        with pytest.raises(ApiError, match="soon"):
            client.enqueue("t")
    assert paused == []
    with StubServer([GONE]) as stub, Client(stub.url, retries=50, total_timeout=0.5) as client:
        with pytest.raises(NoAnswer):
            client.enqueue("t")
        assert len(stub.seen) < 6
    with StubServer([GONE, GONE, Answer(200, RUN)]) as stub, Client(stub.url, total_timeout=60) as client:
        assert client.enqueue("t") == RUN


def test_waiting_outlives_an_api_that_is_away_for_a_while() -> None:
    running = Answer(200, {"run_id": "adhoc_1", "state": "running"})
    with StubServer([running, GONE, AWAY, Answer(200, RUN)]) as stub, Client(stub.url, retries=0) as client:
        assert client.wait("adhoc_1", timeout=60) == RUN


def test_waiting_ends_in_time() -> None:
    running = Answer(200, {"state": "running"})
    said = r"still running after 0\.1 s"
    with StubServer([running]) as stub, Client(stub.url) as client, pytest.raises(WaitTimeout, match=said):
        client.wait("adhoc_1", timeout=0.1)
    with Client("http://127.0.0.1:1", retries=0) as nobody, pytest.raises(NoAnswer):
        nobody.wait("adhoc_1", timeout=0.1)


@pytest.mark.parametrize("answer", [Answer(200, ["a list"]), Answer(404, "no such page")])
def test_another_program_at_the_address_is_told_from_the_api(answer: Answer) -> None:
    with StubServer([answer]) as stub, Client(stub.url) as client, pytest.raises(ItineraryError) as told:
        client.status()
    assert "Itinerary's API" in str(told.value)
    assert stub.url in str(told.value)
