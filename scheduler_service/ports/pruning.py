"""What old rows are deleted through: each call is short, whatever there is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from itinerary.protocol.instants import Instant
from scheduler_service.core.contract.pruning import Needs, Past
from scheduler_service.core.model import Lease

Name = int | str | tuple[str, int]
"""Of a row: its id; of a job its job_id; of a version both its job_id and its number."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """A step through a table from its oldest row on: what of it may go, and the key that the next step begins after.

    `last` is None at the end.
    """

    may_go: tuple[Name, ...]
    last: tuple[int | str, ...] | None


@dataclass(frozen=True, slots=True)
class Sweep:
    """Up to where history may be missing, and when the last sweep came to its end."""

    pruned_until: Instant | None
    ended_at: Instant | None


class Pruning(Protocol):
    """Old rows. A write with a lease is fenced by it (LeaseLost); without one, somebody prunes by hand.

    A run may go when it is final, its time and its end lie before the horizon, and it is not the newest of a job that
    still is; its attempts go with it. A gap when its end does. A version of a job when the next one began before the
    horizon and is planned, and no run of its time is kept. A deleted job, and all its versions, when no run or gap of
    it is kept.
    """

    def needs(self) -> Needs:
        """What planning may still look back to, and where history begins."""

    def scan(self, past: Past, before: Instant, after: tuple[int | str, ...] | None, limit: int) -> Scanned:
        """Look at the next `limit` rows whose time lies before the horizon, from the key `after` on."""

    def prune(self, lease: Lease | None, past: Past, ids: Sequence[Name], before: Instant) -> int:
        """Delete these, where they still may go; returns how many were. Doing it again changes nothing."""

    def begin(self, lease: Lease | None, before: Instant) -> None:
        """Note that runs of before may be missing from now on; committed before the first one is deleted."""

    def end(self, lease: Lease | None) -> None:
        """Note that a sweep is over."""

    def last_sweep(self) -> Sweep:
        """What `begin` and `end` noted."""

    def count(self, past: Past, before: Instant, most: int) -> int:
        """How many rows may go; `most` stands for that many or more."""
