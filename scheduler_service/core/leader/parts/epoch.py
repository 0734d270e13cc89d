"""The epoch of Redis as far as the leader knows it; `redis_epoch.py` holds the rules."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.leader.results import ServerEpoch

POLL_EVERY: Final = SECOND


@dataclass(slots=True)
class Epoch:
    """Pending runs below `watermark` are redispatched. `gathering`: the epoch not accepted yet, found at `since`.

    `committed`: a position of its inbox is in the database; `_positions` are being written. `reread_at`: the inbox is
    being read from its start since then. `all_reported`: the leader has listened once for so long that every worker has
    reported. `knows_all`: that was so shortly before this epoch. `deferred`: claims to take once it is accepted.
    """

    watermark: int = 0
    broker: ServerEpoch | None = None
    gathering: str | None = None
    since: Instant = 0
    all_reported: bool = False
    knows_all: bool = False
    rereading: bool = False
    reread_at: Instant = 0
    committed: bool = False
    accepting: bool = False
    deferred: list[tuple[str, int]] = field(default_factory=list)
    _querying: bool = False
    _next_query_at: Instant = 0
    _next_try_at: Instant = 0
    _positions: set[str] = field(default_factory=set)

    def begin_query(self, now: Instant) -> bool:
        """Whether the epoch is to be queried now: one query at a time, once a second."""
        if self._querying or now < self._next_query_at:
            return False
        self._querying = True
        self._next_query_at = now + POLL_EVERY
        return True

    def query_answered(self, broker: ServerEpoch | None) -> None:
        """Record the epoch of the broker's server; None is unknown."""
        self._querying = False
        self.broker = broker

    def workers_have_reported(self) -> None:
        """Record that every worker has reported or had the time to."""
        self.all_reported = True

    def gather(self, name: str, now: Instant, *, knows_all: bool) -> None:
        """Begin to gather what the workers report in this epoch."""
        self.gathering, self.since, self.knows_all = name, now, knows_all
        self.committed = False
        self._positions.clear()
        # Until the reread begins, reads may return entries of the previous stream, or none.
        self.rereading, self.reread_at = True, now

    def reread(self, now: Instant) -> None:
        """Record that the inbox is read from its start."""
        self.rereading, self.reread_at = False, now

    def wants_commit(self) -> bool:
        """Whether a position of the new inbox must be committed by itself."""
        return self.gathering is not None and not self.rereading and not self._positions

    def position_sent(self, position: str) -> None:
        """Record that a command of this pass stores the position, which is one of the new inbox if that is read."""
        if self.gathering is not None and not self.rereading:
            self._positions.add(position)

    def position_committed(self, position: str | None) -> None:
        """Record that the database holds the position."""
        if position in self._positions:
            self.committed = True

    def may_try(self, now: Instant) -> bool:
        """Whether an epoch may be accepted now: one attempt at a time, once a second."""
        return not self.accepting and now >= self._next_try_at

    def begin_accept(self, now: Instant) -> None:
        """Record that the epoch's acceptance was commanded."""
        self.accepting = True
        self._next_try_at = now + POLL_EVERY

    def accept_answered(self, *, broker: bool) -> None:
        """Record the answer; `broker`: its server's epoch is accepted."""
        self.accepting = False
        if broker and self.broker is not None:
            self.broker = replace(self.broker, accepted=True)

    def end_gathering(self) -> None:
        """Record that the epoch is accepted."""
        self.gathering = None

    def raise_watermark(self, watermark: int) -> None:
        """Record a watermark of Redis."""
        self.watermark = max(self.watermark, watermark)

    def defer(self, attempts: Iterable[tuple[str, int]]) -> None:
        """Keep these claims until the epoch is accepted, and query it at once."""
        self.deferred += attempts
        self._next_query_at = 0

    def take_deferred(self) -> tuple[tuple[str, int], ...]:
        """Take out the claims that were deferred."""
        deferred = tuple(self.deferred)
        self.deferred.clear()
        return deferred
