"""Port to the freezes as users begin and end them.

An implementation promises that when a freeze that holds has returned, no dispatch that was chosen before it commits.
No freeze reaches back before its creation. If `by` names the actor, the same transaction records the change in the
audit log. Changes nothing of a run: the leader recalls.
"""

from collections.abc import Sequence
from typing import Protocol

from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.freezes import Freeze, FreezeCounts, FreezeStatus, NewFreeze
from scheduler_service.ports.stores import Page


class FreezeStore(Protocol):
    """Freezes, for every process but the leader. Changes raise Conflict while a leader leads that knows no controls."""

    def start(self, asked: NewFreeze, *, by: AuditedChange) -> Freeze:
        """Create the freeze; one that asks for the same, and is not over, is returned unchanged.

        Conflict if too many hold or are to come.
        """

    def get(self, freeze_id: int) -> Freeze:
        """The freeze; NotFound."""

    def list(self, status: FreezeStatus | None, limit: int, cursor: str | None) -> Page[Freeze]:
        """Freezes, the newest first; only those of this status if one is given."""

    def end(self, freeze_id: int, *, by: AuditedChange) -> Freeze:
        """End the freeze, also one that is to come; one that is over stays as it is. NotFound."""

    def counts(self, freezes: Sequence[Freeze]) -> Sequence[FreezeCounts]:
        """For each freeze, the runs in its scope that are in flight, forced ones aside."""
