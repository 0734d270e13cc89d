"""The port that deletes old rows.

An implementation promises that each call is short, whatever the amount of rows, and deletes only what is still over at
that moment. It never chooses what is old.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from itinerary.protocol.instants import Instant
from scheduler_service.core.contract.pruning import Needs, Past
from scheduler_service.core.model import Lease

Name = int | str | tuple[str, int]
"""The key of a row: its id; for a job its job_id, for a version both its job_id and its number."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """One step of a scan from the oldest row on: the rows that may be deleted, and the key to resume after.

    `last` is None at the end.
    """

    may_go: tuple[Name, ...]
    last: tuple[int | str, ...] | None


@dataclass(frozen=True, slots=True)
class Sweep:
    """The horizon up to which history may be missing, and the end of the last sweep."""

    pruned_until: Instant | None
    ended_at: Instant | None


class Pruning(Protocol):
    """Deletes old rows. A write with a lease is fenced by it (LeaseLost); without one it is a manual prune.

    A run may go when it is final, its time and end precede the horizon, and it is not an existing job's newest. Its
    attempts go with it. A missed range may go when its end precedes the horizon. A version may go when the next one
    began before the horizon and is planned, and no run of its time is kept. A deleted job may go with all its versions
    when no run or missed range of it is kept.
    """

    def needs(self) -> Needs:
        """The past times that planning may still need, and the beginning of history."""

    def scan(self, past: Past, before: Instant, after: tuple[int | str, ...] | None, limit: int) -> Scanned:
        """Scan the next `limit` rows whose time precedes the horizon, after the key `after`."""

    def prune(self, lease: Lease | None, past: Past, ids: Sequence[Name], before: Instant) -> int:
        """Delete these rows if they may still go; return the number deleted. Idempotent."""

    def begin(self, lease: Lease | None, before: Instant) -> None:
        """Record that runs before `before` may be missing from now on; committed before the first deletion."""

    def end(self, lease: Lease | None) -> None:
        """Record that a sweep has ended."""

    def last_sweep(self) -> Sweep:
        """The values that `begin` and `end` recorded."""

    def count(self, past: Past, before: Instant, most: int) -> int:
        """The number of rows that may go; `most` means that many or more."""
