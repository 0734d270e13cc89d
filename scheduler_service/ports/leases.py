"""The lease as leaders, standbys and everybody who asks who leads need it."""

from dataclasses import dataclass
from typing import Protocol

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.model import Lease
from scheduler_service.core.redis_marks import Marks


class LeaseStore(Protocol):
    """The lease row, judged by the database's clock alone. Has a connection of its own."""

    def acquire(self, shard: int, holder: str, ttl: Duration, stalled: "LeaseView | None" = None) -> Lease | None:
        """Take the lease if nobody holds it, its holder resigned or let it lapse; the term grows by one.

        Taken too where it is still as `stalled` saw it, whatever the database's clock says: whoever asks so has seen
        for a whole ttl by its own clock that nobody renewed it.
        """

    def renew(self, lease: Lease, ttl: Duration) -> Lease:
        """The same lease, confirmed anew; raises LeaseLost if the row bears another term or holder."""

    def resign(self, lease: Lease) -> None:
        """Free the lease at once, if it is still this one; a standby needs not wait for the ttl."""

    def peek(self, shard: int) -> "LeaseView | None":
        """Who leads, by what term, since when; None before the first leader."""

    def mark_standby(self, shard: int, term: int, zone_rules: str) -> None:
        """Record beside the lease of `term` that a standby has other zone rules: which, and whose."""

    def tell_without_redis(self, lease: Lease) -> bool:
        """Record that this leader cannot reach Redis or the broker; whether a standby said in the last five seconds
        that it can."""

    def offer_relief(self, shard: int, term: int) -> None:
        """Record beside the lease of `term` that a standby can reach both."""

    def record_marks(self, lease: Lease, marks: Marks) -> None:
        """Record beside the lease which Redis and which broker its leader uses; nothing where the term is over."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The lease as anybody may read it; `renewals` lets a standby see that a holder stands still."""

    term: int
    holder: str
    acquired_at: Instant
    expires_at: Instant
    renewals: int
    ttl: Duration
    now: Instant
    resigned: bool = False
    zone_rules: str | None = None
    """The version of the zone rules that this term plans by; None of a term of an older program."""
    standby_zone_rules: str | None = None
    """Those of a standby that has others, and whose, where one said so in the last three minutes."""
    without_redis: bool = False
    """Whether its holder said in the last five seconds that it cannot reach Redis or the broker."""
    redis_mark: str | None = None
    broker_mark: str | None = None

    @property
    def marks(self) -> Marks:
        """Which Redis and broker its leader uses, as far as it has recorded that."""
        return Marks(self.redis_mark, self.broker_mark)

    @property
    def live(self) -> bool:
        """Whether the database's clock still grants it."""
        return self.now < self.expires_at

    @property
    def last_seen_at(self) -> Instant:
        """The last renewal or resignation by the holder."""
        return self.expires_at if self.resigned else self.expires_at - self.ttl

    def is_as(self, earlier: "LeaseView") -> bool:
        """Whether nobody took or renewed it since."""
        return (self.term, self.renewals) == (earlier.term, earlier.renewals)
