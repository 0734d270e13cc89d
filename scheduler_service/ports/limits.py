"""Port to the limits as users define them.

An implementation promises that when a change has returned, no dispatch that was chosen before it commits. If `by` names
the actor, the same transaction records the change in the audit log. Changes nothing of a run: the leader heeds limits.
"""

from collections.abc import Callable
from typing import Final, Protocol

from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.limits import Limit
from scheduler_service.ports.stores import Page

MOST_LIMITS: Final = 10_000
JOBS_NAMED: Final = 5


class LimitStore(Protocol):
    """Limits by name. Changes raise Conflict while a leader leads that knows no limits."""

    def get(self, name: str) -> Limit:
        """The limit; NotFound."""

    def list(self, limit: int, cursor: str | None) -> Page[Limit]:
        """Limits by name."""

    def edit(self, name: str, change: Callable[[Limit | None], Limit], *, by: AuditedChange) -> Limit:
        """Store what `change` makes of the present limit, None if there is none; an equal one changes nothing.

        BadValue for one limit too many, Conflict for another `per_key` while a current job names the limit.
        """

    def delete(self, name: str, *, by: AuditedChange) -> None:
        """Delete the limit; NotFound, or Conflict while a current job names it. Runs that name it pass it by."""
