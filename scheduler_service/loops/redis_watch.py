"""Check each second whether this process reaches Redis and the broker, and draw the consequences for the election.

A leader that lost one of them for three ttls notes that beside its lease. It gives the lease up if a standby notes that
it reaches both; otherwise it stays, since another leader would do no better. The leader records by marks which Redis
and broker it uses; a standby with others logs that. A standby that reaches none, or others, leaves a free lease to
better ones for a ttl.
"""

import threading
from collections.abc import Callable
from typing import Final

import structlog

from itinerary.protocol.errors import BrokerUnavailable, LeaseLost, StoreUnavailable
from itinerary.protocol.instants import SECOND, Duration
from scheduler_service.core.model import Lease
from scheduler_service.core.redis_marks import SAME_REDIS, Marks, differing
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.mailbox import monotonic
from scheduler_service.ports.broker import DataMarks
from scheduler_service.ports.leases import LeaseStore, LeaseView
from scheduler_service.ports.stores import Meter

log = structlog.get_logger(__name__)

_EVERY_SECONDS: Final = 1.0
_REACH: Final = "check ITINERARY_REDIS_URL and ITINERARY_BROKER_URL, and the network between"
# A wipe removes the marks, and the leader writes new ones a second later.
_DIFFERS_AFTER: Final = 5 * SECOND
_FIRST_ANSWER_SECONDS: Final = 0.25


class RedisWatch:
    """One thread of a leader process, leading or standing by."""

    def __init__(
        self,
        leases: LeaseStore,
        meter: Meter,
        ttl: Duration,
        marks: DataMarks,
        leading: Callable[[], LeaseRenewer | None],
    ) -> None:
        self._leases = leases
        self._meter = meter
        self._ttl = ttl
        self._marks = marks
        self._leading = leading
        self._away_since: Duration | None = None
        self._free_since: Duration | None = None
        self._offer_at: Duration = 0
        self._reported_term = 0
        self._found: Marks | None = None
        self._recorded: tuple[int, Marks] | None = None
        self._differs_since: Duration | None = None
        self._reported: tuple[int, str] | None = None
        self._other: str | None = None
        self._asked = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="redis-watch", daemon=True)

    def start(self) -> None:
        """Start checking."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, without waiting for a check that hangs."""
        self._stopped.set()
        self._thread.join(_EVERY_SECONDS)

    def leaves_it_to_others(self, view: LeaseView | None, stalled: bool = False) -> bool:
        """Whether this standby does not take the lease, as it was just read, though it may be free or `stalled`.

        Without Redis, or with other servers than the previous leader, it leaves the lease for a ttl to standbys that
        workers reach.
        """
        self._asked.wait(_FIRST_ANSWER_SECONDS)
        now = monotonic()
        self._compare(view, now)
        is_free = view is None or view.resigned or not view.live or stalled
        if not is_free:
            self._free_since = None
        elif self._free_since is None:
            self._free_since = now
        found = self._found
        other = None if view is None else differing(view.marks, found or Marks())
        self._other = None if found is None else other
        if self._away_since is None:
            self._offer(view, now)
            if other is None:
                return False
        return self._free_since is None or now - self._free_since < self._ttl

    def leading(self, term: int) -> None:
        """Log that this process leads with other servers than the previous leader: no better standby did."""
        if self._other is not None:
            log.error(
                f"leading with {self._other} than the leader before, or its data are lost: "
                "workers and API that use the one before are not reached",
                term=term, remedy=SAME_REDIS,
            )  # fmt: skip

    def _offer(self, view: LeaseView | None, now: Duration) -> None:
        """Offer relief, unless this Redis holds another leader's data; without a mark, the data may only be lost."""
        if view is None or not view.live or not view.without_redis or now < self._offer_at:
            return
        found = self._found or Marks()
        if all(own is None or leaders in (None, own) for own, leaders in _pairs(found, view.marks)):
            self._offer_at = now + SECOND
            self._leases.offer_relief(0, view.term)

    def _compare(self, view: LeaseView | None, now: Duration) -> None:
        """Log a difference from the leader's Redis or broker once it has lasted."""
        found = self._found
        if view is None or not view.live or found is None:
            return
        other = differing(view.marks, found)
        if other is None:
            self._differs_since = None
            self._meter.redis_differs(False)
            return
        self._differs_since = now if self._differs_since is None else self._differs_since
        if now - self._differs_since < _DIFFERS_AFTER:
            return
        self._meter.redis_differs(True)
        if self._reported != (view.term, other):
            self._reported = (view.term, other)
            log.error(
                f"this standby uses {other} than the leader: after a takeover workers and API would not be reached",
                term=view.term, remedy=SAME_REDIS,
            )  # fmt: skip

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._found = self._marks.read() if self._leading() is None else self._marks.put()
                self._away_since = None
            except BrokerUnavailable:
                self._away_since = monotonic() if self._away_since is None else self._away_since
            except Exception:  # the leader continues without this check, and nothing would notice that the thread died
                log.exception("Redis was not asked")
            self._asked.set()
            self._judge()
            self._stopped.wait(_EVERY_SECONDS)

    def _judge(self) -> None:
        renewer, since = self._leading(), self._away_since
        blocked = renewer is not None and since is not None and monotonic() - since >= 3 * self._ttl
        self._meter.without_redis(blocked)
        if renewer is None:
            return
        if not blocked:
            self._record(renewer.lease)
            return
        term = renewer.lease.term
        if term != self._reported_term:
            self._reported_term = term
            log.error("no Redis: this leader dispatches nothing", term=term, remedy=_REACH)
        try:
            is_relieved = self._leases.tell_without_redis(renewer.lease)
        except (StoreUnavailable, LeaseLost) as exc:
            log.warning("not said that Redis is away", term=term, error=str(exc))
            return
        if is_relieved:
            renewer.give_up("a standby reaches Redis, and this leader does not")

    def _record(self, lease: Lease) -> None:
        found = self._found
        self._differs_since = None
        self._meter.redis_differs(False)
        if self._away_since is not None or found is None or self._recorded == (lease.term, found):
            return
        try:
            self._leases.record_marks(lease, found)
            self._recorded = (lease.term, found)
        except StoreUnavailable as exc:
            log.warning("which Redis this leader uses was not recorded", term=lease.term, error=str(exc))


def _pairs(own: Marks, leaders: Marks) -> tuple[tuple[str | None, str | None], ...]:
    return (own.redis, leaders.redis), (own.broker, leaders.broker)
