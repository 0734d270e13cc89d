"""Whether this process reaches Redis, asked each second, and what follows for its part in the election.

A leader without Redis for three ttls says so beside its lease, and gives it up if a standby says that it reaches Redis;
else it keeps it, since another would do no better. A standby without Redis leaves a free lease to others for a ttl.
"""

import threading
from collections.abc import Callable
from typing import Final

import structlog

from scheduler_service.core.errors import BrokerUnavailable, LeaseLost, StoreUnavailable
from scheduler_service.core.instants import SECOND, Duration
from scheduler_service.loops.lease_keeper import LeaseKeeper
from scheduler_service.loops.mailbox import monotonic
from scheduler_service.ports.stores import LeaseStore, LeaseView, Meter

log = structlog.get_logger(__name__)

_EVERY_SECONDS: Final = 1.0


class RedisWatch:
    """One thread of a leader's process, leading or standing by."""

    def __init__(
        self,
        leases: LeaseStore,
        meter: Meter,
        ttl: Duration,
        ping: Callable[[], object],
        leading: Callable[[], LeaseKeeper | None],
    ) -> None:
        self._leases = leases
        self._meter = meter
        self._ttl = ttl
        self._ping = ping
        self._leading = leading
        self._away_since: Duration | None = None
        self._free_since: Duration | None = None
        self._offer_at: Duration = 0
        self._told_term = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="redis-watch", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """End; a question that hangs is not waited for."""
        self._stopped.set()
        self._thread.join(_EVERY_SECONDS)

    def leaves_it_to_others(self, view: LeaseView | None) -> bool:
        """Whether this standby does not take the lease, as it was just read, though it may be free."""
        now = monotonic()
        is_free = view is None or view.resigned or not view.live
        if not is_free:
            self._free_since = None
        elif self._free_since is None:
            self._free_since = now
        if self._away_since is None:
            self._offer(view, now)
            return False
        return self._free_since is None or now - self._free_since < self._ttl

    def _offer(self, view: LeaseView | None, now: Duration) -> None:
        if view is not None and view.live and view.without_redis and now >= self._offer_at:
            self._offer_at = now + SECOND
            self._leases.offer_relief(0, view.term)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._ping()
                self._away_since = None
            except BrokerUnavailable:
                self._away_since = monotonic() if self._away_since is None else self._away_since
            except Exception:  # leading goes on without this thread's word, and nobody would hear that it died
                log.exception("Redis was not asked")
            self._judge()
            self._stopped.wait(_EVERY_SECONDS)

    def _judge(self) -> None:
        keeper, since = self._leading(), self._away_since
        blocked = keeper is not None and since is not None and monotonic() - since >= 3 * self._ttl
        self._meter.without_redis(blocked)
        if keeper is None or not blocked:
            return
        term = keeper.lease.term
        if term != self._told_term:
            self._told_term = term
            log.error("no Redis: this leader dispatches nothing", term=term, remedy="check ITINERARY_REDIS_URL")
        try:
            is_relieved = self._leases.tell_without_redis(keeper.lease)
        except (StoreUnavailable, LeaseLost) as exc:
            log.warning("not said that Redis is away", term=term, error=str(exc))
            return
        if is_relieved:
            keeper.give_up("a standby reaches Redis, and this leader does not")
