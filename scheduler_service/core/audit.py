"""The audit record: who asks for a change, the change, and its stored entry. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import Instant, format_instant
from itinerary.protocol.redaction import redacted
from scheduler_service.core.token_limits import NO_LIMITS, Limits


@dataclass(frozen=True, slots=True)
class Caller:
    """The name and role of a token or of a signed-in person, and the limits.

    `granted_by` names the token or rule that the rights come from.
    """

    name: str
    role: str
    limits: Limits = NO_LIMITS
    granted_by: str | None = None

    def audited_change(self, action: str) -> "AuditedChange":
        """The audited change for this action of the caller, such as `job.pause`."""
        return AuditedChange(self.name, self.role, action)

    def keyed(self, action: str, key: str, request_hash: str) -> "AuditedChange":
        """The audited change of a request with an idempotency key, by which its entry is found."""
        return AuditedChange(self.name, self.role, action, key, request_hash)


THIS_MACHINE: Final = Caller("loopback", "admin")
"""The caller if no tokens are set: any user of this machine."""


SYSTEM: Final = Caller("system", "system")
"""The author of changes that nobody asked for, such as newer zone rules."""


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """A requested change: its actor and its action."""

    actor: str
    role: str
    action: str
    key: str | None = None
    request_hash: str | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One recorded change; `before` and `after` hold the values, None if there was or is nothing."""

    id: int
    at: Instant
    actor: str
    role: str
    action: str
    subject: str | None
    before: Any
    after: Any


def audit_body(entry: AuditEntry) -> Mapping[str, Any]:
    """The entry as the API shows it, with secrets redacted."""
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
