"""The port to the lease, for leaders, standbys and readers.

An implementation promises one holder at a time, judged by the database's clock, and a higher term with each new one.
It never waits for a lease that is held, and never asks the host's clock.
"""

from dataclasses import dataclass
from typing import Protocol

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.model import Lease
from scheduler_service.core.redis_marks import Marks


class LeaseStore(Protocol):
    """The lease row, judged by the database's clock alone. Uses its own connection."""

    def acquire(self, shard: int, holder: str, ttl: Duration, stalled: "LeaseView | None" = None) -> Lease | None:
        """Take the lease if it is free, resigned or expired; the term grows by one.

        Also takes it if it is unchanged since `stalled`, whatever the database's clock says. Such a caller has seen no
        renewal for a whole ttl by its own clock.
        """

    def renew(self, lease: Lease, ttl: Duration) -> Lease:
        """Renew the lease; raises LeaseLost if the row holds another term or holder."""

    def resign(self, lease: Lease) -> None:
        """Release the lease at once if it is still this one; a standby need not wait for the ttl."""

    def peek(self, shard: int) -> "LeaseView | None":
        """The leader, its term and its start; None before the first leader."""

    def mark_standby(self, shard: int, term: int, zone_rules: str) -> None:
        """Record beside the lease of `term` the differing zone rules of a standby: their version and its name."""

    def tell_without_redis(self, lease: Lease) -> bool:
        """Record that this leader cannot reach Redis or the broker.

        Return whether a standby reported in the last five seconds that it can.
        """

    def offer_relief(self, shard: int, term: int) -> None:
        """Record beside the lease of `term` that a standby can reach both Redis and the broker."""

    def record_marks(self, lease: Lease, marks: Marks) -> None:
        """Record beside the lease the marks of its leader's Redis and broker; nothing if the term is over."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The lease as any process may read it; an unchanged `renewals` shows a standby that the holder has stalled."""

    term: int
    holder: str
    acquired_at: Instant
    expires_at: Instant
    renewals: int
    ttl: Duration
    now: Instant
    resigned: bool = False
    zone_rules: str | None = None
    """The version of the zone rules that this term plans by; None if written by an older release."""
    standby_zone_rules: str | None = None
    """The differing zone rules of a standby, and its name, if one reported them in the last three minutes."""
    without_redis: bool = False
    """Whether its holder reported in the last five seconds that it cannot reach Redis or the broker."""
    redis_mark: str | None = None
    broker_mark: str | None = None

    @property
    def marks(self) -> Marks:
        """The marks of the leader's Redis and broker, as far as it has recorded them."""
        return Marks(self.redis_mark, self.broker_mark)

    @property
    def live(self) -> bool:
        """Whether the lease has not expired by the database's clock."""
        return self.now < self.expires_at

    @property
    def last_seen_at(self) -> Instant:
        """The last renewal or resignation by the holder."""
        return self.expires_at if self.resigned else self.expires_at - self.ttl

    def is_as(self, earlier: "LeaseView") -> bool:
        """Whether the lease was neither taken nor renewed since."""
        return (self.term, self.renewals) == (earlier.term, earlier.renewals)
