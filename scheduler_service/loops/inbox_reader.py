"""Read the inbox ahead of the loop, and pause while the loop has enough.

Promises that each entry reaches the loop in its order, or the dead-letter stream with the reason. Silence counts only
up to the last read that reached the end. It never moves the stored position: the loop's writes do.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import structlog

from itinerary.protocol.errors import BrokerUnavailable, MalformedEntry
from itinerary.protocol.instants import SECOND, Instant
from itinerary.protocol.wire import AGAIN_FIELD
from scheduler_service.core.leader.messages import InboxMessage, decode
from scheduler_service.core.leader.poll_state import NEVER
from scheduler_service.core.leader.results import InboxRead
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.loops.repeating import Repeating
from scheduler_service.ports.broker import Inbox, InboxBatch
from scheduler_service.ports.stores import Meter

log = structlog.get_logger(__name__)


BEGINNING = "0-0"
# Short, since a stopping leader waits for this read before it resigns.
_WAIT = 2 * SECOND // 5


@dataclass(frozen=True, slots=True)
class Part:
    """Entries up to `position`: either all may have been read before (`again`), or none was."""

    entries: tuple[tuple[str, Mapping[str, str]], ...]
    position: str
    again: bool


class InboxReader(Repeating):
    """A thread that reads on from `position`, `most` entries at a time, and pauses while `enough()` is true.

    `listened` is how far reads are confirmed, by the leader's clock `now`; it is set after the entries were passed on.
    """

    def __init__(
        self,
        inbox: Inbox,
        mailbox: Mailbox,
        meter: Meter,
        position: str,
        most: int,
        enough: Callable[[], bool],
        now: Callable[[], Instant],
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._inbox = inbox
        self._mailbox = mailbox
        self._meter = meter
        self._position = position
        self._most = most
        self._enough = enough
        self._now = now
        self.listened = NEVER
        super().__init__("inbox-reader", on_crash)
        self._reread_asked = threading.Event()
        self._rereading = False
        self._read_to = BEGINNING

    def reread(self) -> None:
        """Read from the start of the stream after the current read: it may be another stream."""
        self._reread_asked.set()

    def _once(self) -> None:
        if self._enough():
            self._stopped.wait(0.01)
        else:
            self._read_once()

    def _read_once(self) -> None:
        if self._reread_asked.is_set():
            self._reread_asked.clear()
            self._position, self._read_to, self._rereading = BEGINNING, self._position, True
        asked_at = self._now()
        try:
            batch = self._inbox.read(self._position, self._most, 0 if self._rereading else _WAIT)
            received = [(part, self._understood(part)) for part in parts(batch, self._read_to)]
        except BrokerUnavailable as exc:
            log.warning("inbox cannot be read", error=str(exc))
            self._stopped.wait(0.5)
            return
        self._position = batch.position
        if batch.entries or self._rereading:
            for part, messages in received:
                self._mailbox.put(InboxRead(tuple(messages), part.position, self._rereading, part.again))
                self._rereading = False
        if batch.at_end:
            self.listened = self.listened.confirmed(asked_at)

    def _understood(self, part: Part) -> list[InboxMessage]:
        messages = []
        malformed = []
        for entry_id, fields in part.entries:
            try:
                messages.append(decode(fields))
            except MalformedEntry as exc:
                malformed.append((entry_id, fields, str(exc)))
        if malformed:
            self._inbox.dead_letter(malformed)
        # If we die here, the entries are read and dead-lettered again: two copies, never none.
        for entry_id, _, reason in malformed:
            log.warning("inbox entry set aside", entry_id=entry_id, reason=reason)
            self._meter.dead_lettered()
        return messages


def parts(batch: InboxBatch, read_to: str) -> Iterator[Part]:
    """Split the batch between entries that may be repeats and entries that are new; yield at least one part."""
    limit = _numbers(read_to)
    all_new = not batch.entries or _numbers(batch.entries[0][0]) > limit

    def is_again(one: tuple[str, Mapping[str, str]]) -> bool:
        return one[1].get(AGAIN_FIELD) == "1" or (not all_new and _numbers(one[0]) <= limit)

    runs = [(again, tuple(entries)) for again, entries in groupby(batch.entries, is_again)]
    for again, entries in runs[:-1]:
        yield Part(entries, entries[-1][0], again)
    again, entries = runs[-1] if runs else (False, ())
    yield Part(entries, batch.position, again)


def _numbers(position: str) -> tuple[int, int]:
    milliseconds, _, sequence = position.partition("-")
    return int(milliseconds), int(sequence or 0)
