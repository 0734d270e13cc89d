"""Ports of pings: the store of those to be sent, and the sender.

The store promises that a ping is kept until it arrived or is given up, in the transaction of its run's event.
"""

from dataclasses import dataclass
from typing import Protocol

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.pings import Ping


@dataclass(frozen=True, slots=True)
class WaitingPing:
    """A ping that is claimed; `attempts` counts this try, `created_at` tells it from a later one of its job."""

    ping: Ping
    created_at: Instant
    attempts: int


class PingFailed(Exception):
    """It did not arrive; the text says why, without the address."""


class PingStore(Protocol):
    """Pings to be sent; each call is one transaction."""

    def claim(self, limit: int, hold: Duration) -> list[WaitingPing]:
        """Reserve the oldest that are due for the caller during `hold`, in the order of their events."""

    def sent(self, waiting: WaitingPing) -> None:
        """Forget it, unless a later one has taken its place."""

    def failed(self, waiting: WaitingPing) -> bool:
        """Put it off, or give it up; whether it will be tried again."""


class PingMeter(Protocol):
    """Counts tries by their outcome: `sent`, `failed` or `dead`."""

    def pinged(self, outcome: str) -> None:
        """Count one."""
