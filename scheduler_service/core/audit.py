"""Who does what: the deed that a change is recorded with, and the record of it. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import Instant, format_instant
from itinerary.protocol.redaction import redacted
from scheduler_service.core.token_limits import NO_LIMITS, Limits


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the name and role of a token, and what it is limited to."""

    name: str
    role: str
    limits: Limits = NO_LIMITS

    def audited_change(self, action: str) -> "AuditedChange":
        """What the caller is about to do, such as `job.pause`."""
        return AuditedChange(self.name, self.role, action)

    def keyed(self, action: str, key: str, request_hash: str) -> "AuditedChange":
        """The same of a request with an idempotency key, which its record is found by."""
        return AuditedChange(self.name, self.role, action, key, request_hash)


THIS_MACHINE: Final = Caller("loopback", "admin")
"""Whoever asks where no tokens are set: anybody on this machine."""


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """A change that is asked for: by whom, and what."""

    actor: str
    role: str
    action: str
    key: str | None = None
    request_hash: str | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One recorded change; `before` and `after` are what it changed, None where there was or is nothing."""

    id: int
    at: Instant
    actor: str
    role: str
    action: str
    subject: str | None
    before: Any
    after: Any


def audit_body(entry: AuditEntry) -> Mapping[str, Any]:
    """The entry as the outside sees it."""
    return {
        "id": entry.id,
        "at": format_instant(entry.at),
        "actor": entry.actor,
        "role": entry.role,
        "action": entry.action,
        "subject": entry.subject,
        "before": redacted(entry.before),
        "after": redacted(entry.after),
    }
