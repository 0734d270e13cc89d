"""The inbox reader: everything once, and once more from the start when it is told so."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

import pytest

from itinerary.protocol.instants import SECOND, Duration
from itinerary.protocol.wire import AGAIN_FIELD, entry
from scheduler_service.broker.inbox import RedisInbox
from scheduler_service.core.leader.messages import CancelRun
from scheduler_service.core.leader.poll_state import NEVER, Listened
from scheduler_service.core.leader.results import InboxRead
from scheduler_service.loops.inbox_reader import InboxReader, parts
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.metrics.leader import PrometheusMeter
from scheduler_service.ports.broker import Inbox, InboxBatch
from tests.support.fakes_redis import FakeInbox
from tests.support.processes import PATIENCE, wait_until
from tests.support.redis_server import RedisServer

AT = 1_800_000_000 * SECOND
_PATIENCE = int(PATIENCE) * SECOND


class Reading:
    def __init__(self, inbox: Inbox | None = None) -> None:
        self.inbox, self.mailbox = FakeInbox(), Mailbox()
        self.enough, self.paused = threading.Event(), threading.Event()
        self.now = AT
        self.reader = InboxReader(
            inbox or self.inbox, self.mailbox, PrometheusMeter(), "0-0", 100, self._is_enough, lambda: self.now,
            lambda exc: None,
        )  # fmt: skip

    def _is_enough(self) -> bool:
        if self.enough.is_set():
            self.paused.set()
        return self.enough.is_set()

    def send(self, *names: str) -> None:
        for name in names:
            self.inbox.send("cancel_run", AT, {"run_id": name})

    def reported(self, number: int) -> list[tuple[str, bool, bool]]:
        """The next so many messages: their names, whether the reader began anew, whether they may be old."""
        found: list[tuple[str, bool, bool]] = []
        enough = threading.Event()
        while len(found) < number and not enough.is_set():
            for read in self.mailbox.drain(_PATIENCE) or [enough.set()]:
                if isinstance(read, InboxRead):
                    names = [message.run_id for message in read.messages if isinstance(message, CancelRun)]
                    found += [(name, read.restarted, read.again) for name in names]
        return found


@pytest.fixture
def reading() -> Iterator[Reading]:
    reading = Reading()
    reading.reader.start()
    yield reading
    reading.reader.stop(PATIENCE)


def test_what_is_read_again_is_marked_as_such_and_what_is_new_is_not(reading: Reading) -> None:
    reading.send("a", "b")
    assert [name for name, _, _ in reading.reported(2)] == ["a", "b"]
    reading.reader.reread()
    reading.send("c")
    heard = reading.reported(3)
    while len({name for name, _, _ in heard}) < 3 or not any(anew for _, anew, _ in heard):
        heard += reading.reported(1)
    assert [(name, again) for name, _, again in heard if name in "ab"] == [("a", True), ("b", True)]


def test_a_stream_that_began_anew_is_read_though_its_entries_have_lower_numbers(reading: Reading) -> None:
    reading.send("a", "b", "c")
    reading.reported(3)
    reading.inbox.wipe()
    reading.send("d")
    reading.reader.reread()
    assert [(name, anew) for name, anew, _ in reading.reported(1)] == [("d", True)]


def test_beginning_anew_is_told_though_nothing_is_there(reading: Reading) -> None:
    reading.reader.reread()
    while True:
        reads = [read for read in reading.mailbox.drain(_PATIENCE) if isinstance(read, InboxRead)]
        assert reads, "nothing was told"
        if reads[-1].restarted:
            assert (reads[-1].messages, reads[-1].position) == ((), "0-0")
            return


def test_parts_are_cut_where_old_and_new_meet_and_end_where_the_batch_ends() -> None:
    fields = entry("cancel_run", AT, {"run_id": "a"})
    sent_again = {**fields, AGAIN_FIELD: "1"}
    batch = InboxBatch((("1-0", fields), ("2-0", fields), ("3-0", sent_again), ("4-0", fields)), "4-0", True)
    cut = [(len(part.entries), part.position, part.again) for part in parts(batch, "1-5")]
    assert cut == [(1, "1-0", True), (1, "2-0", False), (1, "3-0", True), (1, "4-0", False)]
    at_the_last = [(part.position, part.again) for part in parts(batch, "2-0")]
    assert at_the_last == [("3-0", True), ("4-0", False)]
    (empty,) = parts(InboxBatch((), "9-0", True), "0-0")
    assert (empty.entries, empty.position, empty.again) == ((), "9-0", False)


def listens(reading: Reading, since: int, until: int) -> None:
    """It is known to have read to the end between these seconds."""
    wanted = Listened(AT + since * SECOND, AT + until * SECOND)
    wait_until(lambda: reading.reader.listened == wanted, what=lambda: f"{wanted}, not {reading.reader.listened}")


@pytest.mark.slow
@pytest.mark.redis
def test_while_redis_is_frozen_nothing_is_confirmed_and_the_time_of_it_is_no_silence(redis_server: RedisServer) -> None:
    with closing(RedisInbox(redis_server.url)) as inbox:
        reading = Reading(inbox)
        reading.reader.start()
        listens(reading, 0, 0)
        reading.now += SECOND
        listens(reading, 0, 1)
        redis_server.freeze()
        reading.now += 30 * SECOND
        assert reading.reader.listened == Listened(AT, AT + SECOND)
        redis_server.thaw()
        listens(reading, 31, 31)
        reading.reader.stop(PATIENCE)


@pytest.mark.slow
def test_while_it_pauses_nothing_is_confirmed(reading: Reading) -> None:
    listens(reading, 0, 0)
    reading.enough.set()
    assert reading.paused.wait(PATIENCE)
    reading.now += 30 * SECOND
    reading.send("a")
    assert reading.reader.listened == Listened(AT, AT)
    reading.enough.clear()
    listens(reading, 30, 30)


def test_a_read_that_is_not_at_the_end_confirms_nothing() -> None:
    reading = Reading()
    reading.send(*(str(number) for number in range(201)))
    seen = []
    for _ in range(3):
        reading.reader._read_once()  # 100 entries at a time
        seen.append(reading.reader.listened)
    assert seen == [NEVER, NEVER, Listened(AT, AT)]


class SlowInbox(FakeInbox):
    """One whose read comes back two seconds later."""

    reading: "Reading"

    def read(self, position: str, most: int, wait: Duration) -> InboxBatch:
        batch = super().read(position, most, 0)
        self.reading.now += 2 * SECOND
        return batch


def test_a_read_confirms_only_what_was_there_when_it_was_asked_for() -> None:
    inbox = SlowInbox()
    inbox.reading = reading = Reading(inbox)
    reading.reader._read_once()
    assert reading.reader.listened == Listened(AT, AT)


@pytest.mark.slow
def test_what_is_confirmed_was_told_before(reading: Reading) -> None:
    listens(reading, 0, 0)
    reading.send("a")
    reading.now += SECOND
    listens(reading, 0, 1)
    assert [name for name, _, _ in reading.reported(1)] == ["a"]


class Buried(FakeInbox):
    """Counts how often it is asked to keep malformed entries."""

    times = 0

    def dead_letter(self, entries: Sequence[tuple[str, Mapping[str, str], str]]) -> None:
        self.times += 1
        super().dead_letter(entries)


def test_all_malformed_entries_of_a_read_are_kept_in_one_round_trip() -> None:
    inbox = Buried()
    reading = Reading(inbox)
    reading.inbox = inbox
    for _ in range(3):
        reading.send("a")
        inbox.append({"v": "1", "type": "nonsense"})
    reading.reader.start()
    assert [name for name, _, _ in reading.reported(3)] == ["a"] * 3
    reading.reader.stop(PATIENCE)
    assert [fields["type"] for _, fields, _ in inbox.dead] == ["nonsense"] * 3
    assert inbox.times == 1
