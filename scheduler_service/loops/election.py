"""One process's part in the election: from standby to leader and back.

Promises that at most one process acts in a term, and that a process which cannot confirm its lease stops at once.
"""

import threading

import structlog

from itinerary.protocol.errors import ItineraryError, LeaseLost, StoreUnavailable
from itinerary.protocol.instants import SECOND, Duration
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.model import Lease
from scheduler_service.core.schedules.zone_rules import installed_rules
from scheduler_service.loops.clock_steps import ClockWatch
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.mailbox import Mailbox, monotonic
from scheduler_service.loops.redis_watch import RedisWatch
from scheduler_service.loops.rehearsal import rehearse
from scheduler_service.loops.scheduler_loop import Adapters, SchedulerLoop
from scheduler_service.loops.zone_watch import ZoneWatch
from scheduler_service.ports.broker import DataMarks
from scheduler_service.ports.leases import LeaseStore, LeaseView

log = structlog.get_logger(__name__)

_POLL_SECONDS = 0.25
_SHARD = 0


class Leader:
    """A standby until the lease is free, a leader while the lease is confirmed, then a standby again."""

    def __init__(
        self,
        settings: CoreSettings,
        leases: LeaseStore,
        adapters: Adapters,
        marks: DataMarks,
        *,
        holder: str,
        ttl: Duration,
        inbox_buffer: int,
    ) -> None:
        self._settings = settings
        self._leases = leases
        self._adapters = adapters
        self._holder = holder
        self._ttl = ttl
        self._inbox_buffer = inbox_buffer
        self._stopped = threading.Event()
        self._paused = threading.Event()
        self._loop: SchedulerLoop | None = None
        self._seen: tuple[LeaseView, Duration] | None = None
        self._renewer: LeaseRenewer | None = None
        self._asked_at = monotonic()
        self._rehearsed = False
        self._redis = RedisWatch(leases, adapters.meter, ttl, marks, lambda: self._renewer)
        self._clock = ClockWatch()
        self._zones = ZoneWatch(leases, adapters.zone_rules, adapters.meter, holder)

    def stop(self) -> None:
        """Finish the work in progress, resign and return from `run`. Not for a signal handler: it takes locks."""
        self._stopped.set()
        if self._loop is not None:
            self._loop.stop()

    def pause(self) -> None:
        """Dispatch nothing more and take no lease; workers' reports are still applied. Not for a signal handler."""
        self._paused.set()
        if self._loop is not None:
            log.info("told that the stop is near, dispatching nothing more")
            self._loop.pause()

    def stalled_for(self) -> Duration:
        """The time since this process last progressed: asked for the lease, answered or not, or passed the loop.

        A takeover reads all jobs, perhaps a million, before its first pass, so that time counts for a tenth.
        """
        renewer = self._renewer
        if renewer is None:
            return monotonic() - self._asked_at
        if renewer.passed_at is None:
            return (monotonic() - self._asked_at) // 10
        return monotonic() - renewer.passed_at

    def run(self) -> None:
        """Take part in the election until stopped."""
        self._adapters.meter.standing_by()
        log.info("standing by", holder=self._holder)
        self._redis.start()
        try:
            self._take_part()
        finally:
            self._redis.stop()

    def _take_part(self) -> None:
        while not self._stopped.is_set():
            asked_at = self._asked_at = monotonic()
            self._renewer = None
            lease = None if self._paused.is_set() else self._acquire()
            if lease is not None:
                self._lead(lease, asked_at)
                continue
            if not self._rehearsed:
                self._rehearsed = True
                rehearse(self._adapters)
            self._stopped.wait(_POLL_SECONDS)

    def _acquire(self) -> Lease | None:
        try:
            stalled = self._stalled()
            if self._redis.leaves_it_to_others(None if self._seen is None else self._seen[0], stalled is not None):
                return None
            return self._leases.acquire(_SHARD, self._holder, self._ttl, stalled)
        except StoreUnavailable as exc:
            log.warning("lease cannot be asked for", error=str(exc))
            return None

    def _stalled(self) -> LeaseView | None:
        """The lease, if by this process's own clock nobody has renewed it for a ttl.

        The database's clock may have been ahead when a leader died; without this, its lease would be held forever.
        """
        view, now = self._leases.peek(_SHARD), monotonic()
        self._zones.compare(view, now)
        self._clock.see(view, now)
        if view is None or self._seen is None or not view.is_as(self._seen[0]):
            self._seen = None if view is None else (view, now)
            return None
        self._seen = (view, self._seen[1])  # only the facts beside the lease changed, it was not renewed
        return view if now - self._seen[1] > max(self._ttl, view.ttl) else None

    def _lead(self, lease: Lease, asked_at: Duration) -> None:
        mailbox = Mailbox()
        renewer = self._renewer = LeaseRenewer(self._leases, lease, asked_at, self._ttl, mailbox.wake)
        stepped, self._clock = self._clock.stepped(asked_at, lease.now), ClockWatch()
        self._loop = SchedulerLoop(self._settings, self._adapters, renewer, mailbox, self._inbox_buffer, stepped)
        if self._paused.is_set():
            self._loop.pause()
        if self._stopped.is_set():
            self._loop.stop()
        renewer.start()
        # Counted from the previous leader's last renewal, as this process saw it.
        since_renewal = None if self._seen is None else (monotonic() - self._seen[1]) / SECOND
        self._adapters.meter.leading(lease.term, since_renewal)
        log.info("leading", term=lease.term, holder=lease.holder, zone_rules=installed_rules().text)
        self._redis.leading(lease.term)
        try:
            self._zones.leading(lease)
            self._loop.run()
        except LeaseLost as exc:
            log.error("stepped down", term=lease.term, reason=str(exc))
        except StoreUnavailable as exc:
            log.error("stepped down", term=lease.term, reason=f"database away: {exc}")
            self._stopped.wait(_POLL_SECONDS)
        except ItineraryError:
            log.exception("stepped down", term=lease.term)
            self._stopped.wait(self._ttl / SECOND)
        finally:
            self._adapters.meter.standing_by()
            self._loop = None
            # The loop's threads have ended, whatever the cause: a standby need not wait for the ttl.
            renewer.stop(resign=True)
            log.info("left the lead", term=lease.term)
