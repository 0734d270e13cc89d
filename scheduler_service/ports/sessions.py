"""Port to the sessions of browsers. A session is found by the SHA-256 of its secret, which nobody stores."""

from collections.abc import Sequence
from typing import Protocol

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.sessions import Session, SignedIn, SignedOut


class SessionStore(Protocol):
    """The sessions. Each begin and end is committed with its entry in the audit log."""

    def begin(
        self,
        who: SignedIn,
        secret_hash: str,
        agent: str,
        address: str,
        now: Instant,
        ends_at: Instant,
        *,
        by: AuditedChange,
    ) -> Session:
        """Begin a session."""

    def find(self, secret_hash: str, now: Instant) -> Session | None:
        """The session of this secret that is not over; whether it was unused for too long is the caller's to judge."""

    def seen(self, session_id: int, now: Instant) -> None:
        """Note that it is in use."""

    def end(self, session_id: int, now: Instant, *, by: AuditedChange) -> Session:
        """End a session and forget its identity token; NotFound if none of this id lasts."""

    def end_all(self, subject: str, issuer: str | None, now: Instant, *, by: AuditedChange) -> int:
        """End every session of one person or token; returns their number."""

    def sign_out(self, said: SignedOut, now: Instant, *, by: AuditedChange) -> int | None:
        """End what the provider says is over; returns the number, None if the token was used before."""

    def list(self, now: Instant, idle: Duration, limit: int, of: SignedIn | None = None) -> Sequence[Session]:
        """The sessions that last, of one person or token or of all, in use last first."""
