"""Ports to logs of attempts: where they are stored, what workers have sent, and what watchers see of running ones.

An implementation promises that a log lives no longer than its run, and that of two logs of one attempt the first stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from itinerary.protocol.attempt_logs import Tail
from itinerary.protocol.instants import Duration


@dataclass(frozen=True, slots=True)
class SentLog:
    """The compressed end of one attempt's log, and the position after its last character; `entry` names it in Redis."""

    entry: str
    run_id: str
    attempt: int
    end: int
    compressed: bytes


class LogStore(Protocol):
    """Logs of attempts that are over."""

    def keep(self, logs: Sequence[SentLog]) -> None:
        """Store them, except those of runs that are gone."""

    def read(self, run_id: str, attempt: int) -> Tail | None:
        """The log of an attempt, or None."""

    def attempts(self, run_id: str) -> Sequence[int]:
        """The attempts of a run that have a log, oldest first."""


class SentLogs(Protocol):
    """Logs that workers have sent and nobody has stored yet. Errors are BrokerUnavailable."""

    def read(self, most: int, block: Duration) -> tuple[Sequence[SentLog], Sequence[str]]:
        """The oldest logs, waiting for the first one, and the names of entries that are none."""

    def forget(self, entries: Sequence[str]) -> None:
        """Remove these entries; nothing is left where no other one is."""


class LiveLogs(Protocol):
    """Lines of running attempts, while somebody watches. Errors are BrokerUnavailable."""

    def watch(self, task_id: str) -> None:
        """Ask the worker to send this attempt's lines for the next seconds."""

    def read(self, task_id: str, after: int, block: Duration) -> Tail:
        """The text that was sent beyond a position, waiting for it; it may begin later, since old lines are dropped."""
