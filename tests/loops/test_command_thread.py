"""A thread of effects: in order, counted, and what may wait is carried out together with what comes soon after."""

import queue
import threading
from collections.abc import Iterator

import pytest

from scheduler_service.loops import command_thread
from scheduler_service.loops.command_thread import CommandThread


class Lane:
    """An CommandThread over words, of which those that end in `?` may wait; `batches` is what was carried out."""

    def __init__(self) -> None:
        self.batches: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        self.crashed = threading.Event()
        self.thread = CommandThread(
            "lane", self._carry_out, self._crash, lambda batch: all(w[-1] == "?" for w in batch)
        )

    def _carry_out(self, batch: list[str]) -> None:
        if "break" in batch:
            raise RuntimeError("broken")
        self.batches.put(batch)

    def _crash(self, _: BaseException) -> None:
        self.crashed.set()


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lane]:
    """Its rests last as long as a test, so that what ends them is seen."""
    monkeypatch.setattr(command_thread, "_RESTS", 1e9)
    monkeypatch.setattr(command_thread, "_LONGEST_REST_SECONDS", 60)
    made = Lane()
    made.thread.start()
    yield made
    made.thread.stop(60)


def test_what_may_wait_is_shared_with_what_comes_during_the_rest(lane: Lane) -> None:
    lane.thread.put("first?")
    assert lane.batches.get(timeout=60) == ["first?"], "nothing to rest from"
    for word in ("second?", "third?", "urgent"):
        lane.thread.put(word)
    assert lane.batches.get(timeout=60) == ["second?", "third?", "urgent"]


def test_what_may_not_wait_never_rests(lane: Lane) -> None:
    for word in ("one", "two", "three"):
        lane.thread.put(word)
        assert lane.batches.get(timeout=60) == [word]


def test_a_rest_ends_by_itself(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_thread, "_LONGEST_REST_SECONDS", 0.02)
    for word in ("one?", "two?"):
        lane.thread.put(word)
        assert lane.batches.get(timeout=60) == [word]


def test_effects_are_counted_and_can_be_waited_for(lane: Lane) -> None:
    lane.thread.put("one")
    assert lane.thread.wait_until_done(1, 60)
    assert (lane.thread.done, lane.thread.backlog()) == (1, 0)
    assert not lane.thread.wait_until_done(2, 0.01)
    lane.thread.put("break")
    assert lane.crashed.wait(60)
    assert lane.thread.backlog() == 1
    assert not lane.thread.wait_until_done(2, 0.01)
