"""Redis and the broker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.leader.results import ServerEpoch
from scheduler_service.core.model import DispatchedRun
from scheduler_service.core.redis_marks import Marks


@dataclass(frozen=True, slots=True)
class InboxBatch:
    """Entries read, in order, as (id, fields); `position` is the last id; `at_end`: nothing more waits."""

    entries: tuple[tuple[str, Mapping[str, str]], ...]
    position: str
    at_end: bool


class Inbox(Protocol):
    """The leader's inbox, a Redis stream. The position is the caller's."""

    def read(self, position: str, count: int, block: Duration) -> InboxBatch:
        """Entries after `position`, waiting up to `block` for the first; empty and at_end after that."""

    def send(self, kind: str, at: Instant, body: Mapping[str, Any]) -> None:
        """Append one entry."""

    def dead_letter(self, entry_id: str, fields: Mapping[str, str], reason: str) -> None:
        """Keep a malformed entry in the dead-letter stream with its reason."""

    def trim(self, position: str) -> None:
        """Drop what lies at or before `position`, which is committed."""

    def depth(self) -> int:
        """How many entries lie in the stream."""

    def reply(self, reply_to: str, body: Mapping[str, Any]) -> None:
        """Answer one query; the answer lives a minute."""

    def await_reply(self, reply_to: str, timeout: Duration) -> Mapping[str, Any] | None:
        """The asker's side: the answer, or None after `timeout`."""


class Claims(Protocol):
    """The leader's side of the claim that every attempt needs before it starts."""

    def take(self, task_ids: Sequence[str]) -> list[bool] | None:
        """Try to claim each for the leader: True where it was won (no worker will ever start it). Told again for
        an attempt that the leader holds already, the answer is True again. None: this generation is not accepted,
        claims may be lost, so that nothing was taken, or not everything."""

    def flag(self, task_ids: Sequence[str]) -> None:
        """Set the cooperative cancel flag, a day long."""

    def results(self, task_ids: Sequence[str]) -> list[Mapping[str, str] | None]:
        """The terminal report that an attempt left beside the stream, as entry fields, or None."""

    def forget_results(self, task_ids: Sequence[str]) -> None:
        """Remove the result keys of attempts that are committed as over."""

    def forget(self, task_ids: Sequence[str]) -> None:
        """Remove all that is kept of attempts that are over and below the floor of their queue."""

    def raise_watermarks(self, watermarks: Mapping[str, int], lowest: int) -> dict[str, int]:
        """Refuse messages of these queues with a lower seq, and below `lowest` those of any queue. Low watermarks
        never go down; returns them as they are. Nothing is kept of a queue whose watermark `lowest` has reached."""

    def query_epoch(self) -> ServerEpoch:
        """The generation that is there. Nothing can be claimed while it is not accepted."""

    def accept(self, name: str, watermark: int) -> bool:
        """Accept this generation: messages of any queue below `watermark` start nothing. False: it is another one."""

    def announce(self, beacon: Mapping[str, Any]) -> None:
        """Say this to all workers that look, for a minute."""

    def eviction_policy(self) -> str:
        """What the server drops when its memory is full."""


@dataclass(frozen=True, slots=True)
class QueueHead:
    """A queue as the broker has it: how many messages, and the seq of the first of ours (None: none was found).

    `none_of_ours`: every message was looked at. Else one of ours may wait further behind than was looked.
    """

    length: int
    seq: int | None
    none_of_ours: bool = False


class DataMarks(Protocol):
    """The marks beside inbox and claims, and beside the broker's queues. BrokerUnavailable where one is away."""

    def put(self) -> Marks:
        """The leader's side: the marks, put there where there are none."""

    def read(self) -> Marks:
        """Everybody else's side."""

    def read_redis(self) -> str | None:
        """That of inbox and claims alone."""


class Queues(Protocol):
    """The broker's queues, for who only looks."""

    def head(self, queue: str) -> QueueHead | None:
        """What waits in this queue; None where nobody can say."""


class Dispatcher(Protocol):
    """Hands released runs to Celery's broker."""

    def publish(self, runs: Sequence[DispatchedRun]) -> None:
        """Send all, in order, as Celery tasks. BrokerUnavailable means unknown, never "not sent"."""

    def ping(self) -> None:
        """Return if the broker answers; BrokerUnavailable."""

    def heads(self, queues: Sequence[str]) -> dict[str, QueueHead]:
        """Length and head of each queue, all its priority lists taken together."""

    def revoke(self, task_ids: Sequence[str]) -> None:
        """Ask the workers to terminate these tasks."""

    def query_epoch(self) -> ServerEpoch | None:
        """The broker's generation; None where the broker is no Redis, and keeps its messages itself."""

    def mark(self) -> Mapping[str, Any]:
        """How workers know this broker: `transport`, `where` (no password), and on Redis `prefix`, the `list` of the
        sample queue, and the `mark` that stands beside the queues."""

    def accept(self, name: str, watermark: int) -> None:
        """Remember that in this generation everything pending was sent by messages from `watermark` on."""
