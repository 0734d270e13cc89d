"""Port to the links that share a page. A link is found by the SHA-256 of its secret, which nobody stores."""

from collections.abc import Sequence
from typing import Protocol

from itinerary.protocol.instants import Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.share_links import ShareLink


class ShareLinkStore(Protocol):
    """The links. Each begin and end is committed with its entry in the audit log."""

    def create(
        self, address: str, granted_by: str, secret_hash: str, now: Instant, ends_at: Instant, *, by: AuditedChange
    ) -> ShareLink:
        """Create a link; Conflict if too many are there."""

    def find(self, secret_hash: str, now: Instant) -> ShareLink | None:
        """The link of this secret that has not ended."""

    def revoke(self, link_id: int, now: Instant, *, by: AuditedChange) -> ShareLink:
        """End a link; NotFound if none of this id lasts."""

    def list(self, now: Instant) -> Sequence[ShareLink]:
        """Every link that lasts, the newest first."""
