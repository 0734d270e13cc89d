"""Ports to Redis (inbox, claims, epoch) and to the broker (dispatch, queues).

An implementation promises that an error means unknown: a call without an answer may have been carried out. It never
retries and decides nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.leader.results import ServerEpoch
from scheduler_service.core.model import DispatchedRun
from scheduler_service.core.redis_marks import Marks

UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class InboxBatch:
    """Entries read, in order, as (id, fields); `position` is the last id; `at_end`: no more entries wait."""

    entries: tuple[tuple[str, Mapping[str, str]], ...]
    position: str
    at_end: bool


class Inbox(Protocol):
    """The leader's inbox, a Redis stream. The caller keeps the position."""

    def read(self, position: str, count: int, block: Duration) -> InboxBatch:
        """Read entries after `position`, waiting up to `block` for the first; then empty and at_end."""

    def send(self, kind: str, at: Instant, body: Mapping[str, Any]) -> None:
        """Append one entry."""

    def dead_letter(self, entries: Sequence[tuple[str, Mapping[str, str], str]]) -> None:
        """Store malformed entries (id, fields, reason) in the dead-letter stream."""

    def trim(self, position: str) -> None:
        """Delete entries at or before `position`, which is committed."""

    def depth(self) -> int:
        """The number of entries in the stream."""

    def reply(self, reply_to: str, body: Mapping[str, Any]) -> None:
        """Answer one query; the answer expires after a minute."""

    def await_reply(self, reply_to: str, timeout: Duration) -> Mapping[str, Any] | None:
        """Wait for the answer, on the querying side; None after `timeout`."""


class Claims(Protocol):
    """The leader's side of the claim that every attempt needs before it starts."""

    def take(self, task_ids: Sequence[str]) -> list[bool] | None:
        """Try to win each claim for the leader: True if won, so that no worker will ever start the attempt.

        An attempt that the leader holds already is True again. None: the epoch is not accepted and claims may be lost,
        so nothing was taken, or not everything.
        """

    def recall(self, messages: Sequence[tuple[str, int]]) -> list[bool] | None:
        """Mark each attempt (task id, seq): True if no message of it up to seq will start it, later ones may.

        False where a worker or the leader holds the claim. `take` wins a marked attempt. None: as with `take`.
        """

    def flag(self, task_ids: Sequence[str]) -> None:
        """Set the cooperative cancel flag, which lasts a day."""

    def results(self, task_ids: Sequence[str]) -> list[Mapping[str, str] | None]:
        """The terminal report that each attempt stored beside the stream, as entry fields, or None."""

    def forget_results(self, task_ids: Sequence[str]) -> None:
        """Delete the result keys of attempts whose ends are committed."""

    def forget(self, task_ids: Sequence[str]) -> None:
        """Delete everything kept of attempts that are over and below the low watermark of their queue."""

    def raise_watermarks(self, watermarks: Mapping[str, int], lowest: int) -> dict[str, int]:
        """Refuse messages of these queues with a lower seq, and below `lowest` those of any queue.

        Returns the low watermarks in effect, which never go down. A queue whose watermark `lowest` has reached keeps
        none.
        """

    def query_epoch(self) -> ServerEpoch:
        """The current epoch. Nothing can be claimed until the leader accepts it."""

    def accept(self, name: str, watermark: int) -> bool:
        """Accept this epoch: messages of any queue below `watermark` start nothing. False: the epoch has changed."""

    def announce(self, beacon: Mapping[str, Any]) -> None:
        """Publish this beacon to all workers that poll it, for a minute."""

    def eviction_policy(self) -> str:
        """The server's eviction policy when its memory is full; UNKNOWN if it does not tell."""


@dataclass(frozen=True, slots=True)
class QueueHead:
    """A queue in the broker: its number of messages, and the seq of this service's first one (None if none was found).

    `none_of_ours`: every message was inspected. Otherwise a message of this service may wait beyond those inspected.
    """

    length: int
    seq: int | None
    none_of_ours: bool = False


class DataMarks(Protocol):
    """The marks beside inbox and claims, and beside the broker's queues. BrokerUnavailable if either is unreachable."""

    def put(self) -> Marks:
        """Return the marks and create missing ones; the leader's side."""

    def read(self) -> Marks:
        """Read the marks; the side of every other process."""

    def read_redis(self) -> str | None:
        """Read only the mark of inbox and claims."""


class Queues(Protocol):
    """The broker's queues, read-only."""

    def head(self, queue: str) -> QueueHead | None:
        """The head of this queue; None if it cannot be determined."""


class Dispatcher(Protocol):
    """Publishes dispatched runs to Celery's broker."""

    def publish(self, runs: Sequence[DispatchedRun]) -> None:
        """Publish all, in order, as Celery tasks. BrokerUnavailable means unknown, never "not sent"."""

    def ping(self) -> None:
        """Return if the broker answers; raises BrokerUnavailable."""

    def heads(self, queues: Sequence[str]) -> dict[str, QueueHead]:
        """The length and head of each queue, over all its priority lists."""

    def revoke(self, task_ids: Sequence[str]) -> None:
        """Ask the workers to terminate these tasks."""

    def query_epoch(self) -> ServerEpoch | None:
        """The broker's epoch; None if the broker is not a Redis and keeps its messages itself."""

    def mark(self) -> Mapping[str, Any]:
        """The workers' description of this broker: `transport` and `where` (no password).

        On Redis also `prefix`, the `list` of the sample queue, and the `mark` stored beside the queues.
        """

    def accept(self, name: str, watermark: int) -> None:
        """Record that in this epoch everything pending was sent by messages at or above `watermark`."""
