"""Port to the monitors.

An implementation promises that a ping and its consequences are one transaction, judged by the database's clock. A
monitor that goes down or comes back is noted once, in that transaction. Each call is bounded.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from itinerary.protocol.instants import Duration
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.monitors.model import Monitor, MonitorContent, MonitorPing, MonitorState, PingOutcome
from scheduler_service.ports.stores import Page

MOST_MONITORS: Final = 10_000
PINGS_KEPT: Final = 100


class MonitorStore(Protocol):
    """Monitors by id. `token` is the SHA-256 of the secret that a ping must present."""

    def get(self, monitor_id: str) -> Monitor:
        """The monitor; NotFound."""

    def list(self, limit: int, cursor: str | None) -> Page[Monitor]:
        """Monitors by id."""

    def pings(self, monitor_id: str, limit: int) -> Sequence[MonitorPing]:
        """The newest pings of a monitor."""

    def put(self, monitor_id: str, content: MonitorContent, token: str, *, by: AuditedChange) -> tuple[Monitor, bool]:
        """Define or replace a monitor, and whether it is new: then the token is its own."""

    def renew_token(self, monitor_id: str, token: str, *, by: AuditedChange) -> None:
        """Replace the token; NotFound."""

    def delete(self, monitor_id: str, *, by: AuditedChange) -> None:
        """Delete the monitor and its pings; NotFound."""

    def ping(self, monitor_id: str, token: str, outcome: PingOutcome, duration: Duration | None) -> Monitor | None:
        """Store a ping; None where there is no such monitor or the token is another one."""

    def judge(self, limit: int) -> int:
        """Let monitors go down whose ping did not come, at most `limit`; return their number."""

    def counts(self) -> Mapping[MonitorState, int]:
        """The number of monitors in each stored state."""

    def down(self, limit: int) -> Sequence[str]:
        """The ids of monitors that are down."""
