"""The duty to keep what started by a rate from one leader to the next; `LeaderStore.apply` writes it."""

from collections.abc import Mapping
from typing import Protocol

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.leader.past_starts import StartsPruned, StoredStarts
from scheduler_service.core.model import Lease


class StartStore(Protocol):
    """The stored starts of rates. Every write is one transaction fenced by the lease's term."""

    def starts(self, kept: Mapping[str, Duration]) -> StoredStarts:
        """The starts that `apply` committed and that are no older than their limit keeps them, each with its age.

        The age is by the database's clock. Older ones and those of other limits may be stored: `prune_starts`.

        A transition that was written stores its `starts`, also one that a cancel request turned into a cancel; one that
        was refused does not. A date in the future has the age 0. Of old starts, those that are close together may be
        one, as old as the last of them.
        """

    def shift_starts(self, lease: Lease, by: Duration) -> None:
        """Date all stored starts later, since the database's clock stepped ahead by as much; none later than now."""

    def prune_starts(self, lease: Lease, kept: Mapping[str, Duration], now: Instant) -> StartsPruned:
        """Delete some starts that are older than their limit keeps them, or whose limit keeps none.

        Judged by `now` or by the database's clock, whichever is earlier.
        """
