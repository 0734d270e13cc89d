"""The inbox reader: everything once, and once more from the start when it is told so."""

import threading
from collections.abc import Callable, Iterator

import pytest

from scheduler_service.adapters.metrics import PrometheusMeter
from scheduler_service.core.feedback import Feedback, InboxRead, InboxSilent
from scheduler_service.core.instants import SECOND
from scheduler_service.core.messages import CancelRun
from scheduler_service.core.wire import AGAIN_FIELD, entry
from scheduler_service.loops.inbox_reader import InboxReader, parts
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.ports.broker import InboxBatch
from tests.support.fakes_redis import FakeInbox
from tests.support.processes import wait_until

AT = 1_800_000_000 * SECOND


class Reading:
    def __init__(self) -> None:
        self.inbox, self.mailbox = FakeInbox(), Mailbox()
        self.enough = threading.Event()
        self.reader = InboxReader(
            self.inbox, self.mailbox, PrometheusMeter(), "0-0", 100, self.enough.is_set, lambda exc: None
        )

    def send(self, *names: str) -> None:
        for name in names:
            self.inbox.send("cancel_run", AT, {"run_id": name})

    def heard(self, number: int) -> list[tuple[str, bool, bool]]:
        """The next so many messages: their names, whether the reader began anew, whether they may be old."""
        found: list[tuple[str, bool, bool]] = []
        enough = threading.Event()
        while len(found) < number and not enough.is_set():
            for read in self.mailbox.drain(5 * SECOND) or [enough.set()]:
                if isinstance(read, InboxRead):
                    names = [message.run_id for message in read.messages if isinstance(message, CancelRun)]
                    found += [(name, read.anew, read.again) for name in names]
        return found


@pytest.fixture
def reading() -> Iterator[Reading]:
    reading = Reading()
    reading.reader.start()
    yield reading
    reading.reader.stop(5)


def test_what_is_read_again_is_marked_as_such_and_what_is_new_is_not(reading: Reading) -> None:
    reading.send("a", "b")
    assert [name for name, _, _ in reading.heard(2)] == ["a", "b"]
    reading.reader.begin_anew()
    reading.send("c")
    heard = reading.heard(3)
    while len({name for name, _, _ in heard}) < 3 or not any(anew for _, anew, _ in heard):
        heard += reading.heard(1)
    assert [(name, again) for name, _, again in heard if name in "ab"] == [("a", True), ("b", True)]


def test_a_stream_that_began_anew_is_read_though_its_entries_have_lower_numbers(reading: Reading) -> None:
    reading.send("a", "b", "c")
    reading.heard(3)
    reading.inbox.wipe()
    reading.send("d")
    reading.reader.begin_anew()
    assert [(name, anew) for name, anew, _ in reading.heard(1)] == [("d", True)]


def test_beginning_anew_is_told_though_nothing_is_there(reading: Reading) -> None:
    reading.reader.begin_anew()
    while True:
        reads = [read for read in reading.mailbox.drain(5 * SECOND) if isinstance(read, InboxRead)]
        assert reads, "nothing was told"
        if reads[-1].anew:
            assert (reads[-1].messages, reads[-1].position, reads[-1].at_end) == ((), "0-0", True)
            return


def test_parts_are_cut_where_old_and_new_meet_and_end_where_the_batch_ends() -> None:
    fields = entry("cancel_run", AT, {"run_id": "a"})
    sent_again = {**fields, AGAIN_FIELD: "1"}
    batch = InboxBatch((("1-0", fields), ("2-0", fields), ("3-0", sent_again), ("4-0", fields)), "4-0", True)
    cut = [(len(part.entries), part.position, part.at_end, part.again) for part in parts(batch, "1-5")]
    assert cut == [(1, "1-0", False, True), (1, "2-0", False, False), (1, "3-0", False, True), (1, "4-0", True, False)]
    (empty,) = parts(InboxBatch((), "9-0", True), "0-0")
    assert (empty.entries, empty.position, empty.at_end, empty.again) == ((), "9-0", True, False)


def test_while_it_does_not_read_for_long_nobody_is_called_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_service.loops.inbox_reader._DEAF_AFTER", SECOND // 20)
    reading = Reading()
    reading.reader.start()
    told: list[Feedback] = []

    def hears(wanted: Callable[[Feedback], bool]) -> bool:
        told.extend(reading.mailbox.drain(SECOND // 10))
        return any(map(wanted, told))

    wait_until(lambda: hears(lambda word: isinstance(word, InboxRead) and word.at_end), 5, "it reads to the end")
    reading.enough.set()
    wait_until(lambda: hears(lambda word: isinstance(word, InboxSilent)), 5, "it says that it does not read")
    told.clear()
    reading.enough.clear()
    wait_until(lambda: hears(lambda word: isinstance(word, InboxRead) and word.at_end), 5, "it reads to the end again")
    reading.reader.stop(5)
