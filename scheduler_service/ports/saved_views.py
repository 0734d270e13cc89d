"""Port to saved views.

An implementation promises that each change is one transaction with its entry in the audit log, and that no owner has
more than `MOST_VIEWS`.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.saved_views import SavedView

MOST_VIEWS: Final = 100


class SavedViewStore(Protocol):
    """Views by owner and name."""

    def save(self, owner: str, name: str, address: str, *, by: AuditedChange) -> SavedView:
        """Store the view, in place of an earlier one of this name; Conflict for one too many."""

    def get(self, owner: str, name: str) -> SavedView:
        """The owner's view of this name; NotFound."""

    def list(self, *owners: str) -> Sequence[SavedView]:
        """The views of these owners, by name."""

    def delete(self, owner: str, name: str, *, by: AuditedChange) -> None:
        """Delete the view; NotFound."""
