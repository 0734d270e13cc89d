"""Keep the lease confirmed, and tell the time by the database's clock.

Owns one thread and, through its store, one connection. Promises that the leader trusts the lease only for `ttl -
margin` of its own monotonic clock, counted from before the request. Without confirmation it does nothing. A thread that
is about to act waits for a late renewal, which is refused if another leader took over meanwhile.
"""

import threading
from collections.abc import Callable
from typing import Final

import structlog

from itinerary.protocol.errors import LeaseLost, StoreUnavailable
from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.model import Lease
from scheduler_service.loops.clock_steps import ClockSteps
from scheduler_service.loops.mailbox import monotonic
from scheduler_service.ports.leases import LeaseStore

log = structlog.get_logger(__name__)

# A larger difference between two renewals is not drift: somebody set the database's clock.
_JUMP: Final = 2 * SECOND
# A clock that runs ahead of the database's is slowed by a five-hundredth until it agrees.
_SLEW: Final = 500
# A loop without a pass for so long is stuck: a standby should replace a leader that only keeps the lease.
_STUCK_AFTER: Final = 60 * SECOND
_TRUSTED_AGAIN_SECONDS: Final = 0.01


def renewed_every(ttl: Duration) -> Duration:
    """The interval between renewals: three tenths of the ttl, 1.5 s of 5 s."""
    return ttl * 3 // 10


class LeaseRenewer:
    """The renewal of one lease, in its own thread, until it is stopped or lost."""

    def __init__(
        self,
        store: LeaseStore,
        lease: Lease,
        asked_at: Duration,
        ttl: Duration,
        on_loss: Callable[[], None],
        clock: Callable[[], Duration] = monotonic,
    ) -> None:
        self._store = store
        self._lease = lease
        self._ttl = ttl
        self._margin = ttl // 5
        self._on_loss = on_loss
        self._clock = clock
        self._lost = threading.Event()
        self._stopped = threading.Event()
        self._passed_at: Duration | None = None
        self._writer_stuck_for: Callable[[], Duration] = lambda: 0
        # (Monotonic time before the last successful request, and of its answer; the database's time, and how far ahead
        # of it this leader was.)
        self._confirmed = (asked_at, clock(), lease.now, 0)
        self._jumped: Duration = 0
        self._steps = ClockSteps(asked_at, self._confirmed[1], lease.now)
        self._stepped = self._step_taken = 0
        self._behind = False
        self._thread = threading.Thread(target=self._renew, name="lease-keeper", daemon=True)

    @property
    def lease(self) -> Lease:
        """The lease that is being renewed."""
        return self._lease

    def start(self) -> None:
        """Start renewing."""
        self._thread.start()

    def trusted(self) -> bool:
        """Whether this process may still act as the leader."""
        return not self._lost.is_set() and self._clock() < self._confirmed[0] + self._ttl - self._margin

    def check(self) -> None:
        """Raise LeaseLost unless this process may act as the leader; waits for up to a ttl for a late confirmation."""
        if not self.trusted() and not self._confirmed_late():
            raise LeaseLost(f"term {self.lease.term} is not confirmed any more")

    def _confirmed_late(self) -> bool:
        """Wait for the renewing thread, which a starved machine may let run after the thread that asks."""
        began = self._clock()
        while self._thread.is_alive() and self._clock() < began + self._ttl:
            if self._lost.wait(_TRUSTED_AGAIN_SECONDS):
                return False
            if self.trusted():
                return True
        return False

    def now(self) -> Instant:
        """The database's time at the last renewal plus the monotonic time since; it never runs backwards."""
        return self._now_at(self._clock())

    def _now_at(self, clock: Duration) -> Instant:
        _, answered_at, database_now, ahead = self._confirmed
        since = clock - answered_at
        return database_now + since + (ahead if ahead > _JUMP else max(0, ahead - since // _SLEW))

    def take_step(self) -> Duration:
        """By how much the database's clock has stepped ahead since the last call; for the loop only."""
        step = self._stepped - self._step_taken
        self._step_taken += step
        return step

    @property
    def passed_at(self) -> Duration | None:
        """The monotonic time of the loop's last pass; None before the first."""
        return self._passed_at

    def loop_passed(self) -> None:
        """Note a pass of the loop; after the first one, another must follow within a minute."""
        self._passed_at = self._clock()

    def give_up(self, why: str) -> None:
        """Stop trusting the lease, and let it lapse."""
        log.error("lease given up", term=self._lease.term, why=why)
        self._give_up()

    def watch_writer(self, stuck_for: Callable[[], Duration]) -> None:
        """Give up the lease also when the leader has tried one write or read for a minute."""
        self._writer_stuck_for = stuck_for

    def stop(self, *, resign: bool) -> None:
        """Stop renewing; with `resign`, end all trust in the lease, so that a standby may take over at once."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._ttl / SECOND)
        may_resign = self.trusted()
        if resign:
            # A thread that outlives the loop must not act while another process leads.
            self._lost.set()
        if resign and may_resign:
            try:
                self._store.resign(self._lease)
            except (StoreUnavailable, LeaseLost) as exc:
                log.warning("lease not resigned", term=self._lease.term, error=str(exc))

    def confirm(self) -> None:
        """Renew once; raises LeaseLost or StoreUnavailable."""
        asked_at = self._clock()
        lease = self._store.renew(self._lease, self._ttl)
        answered_at = self._clock()
        ahead = self._now_at(answered_at) - lease.now
        self._follow(-ahead)
        self._stepped += self._steps.see(asked_at, answered_at, lease.now)
        self._confirmed = (asked_at, answered_at, lease.now, max(0, ahead))

    def next_in(self) -> Duration:
        """How long to wait before the next renewal, counted from the last question as the trust is."""
        return max(0, self._confirmed[0] + renewed_every(self._ttl) - self._clock())

    def _follow(self, ahead: Duration) -> None:
        """Ignore a clock that is set back, unless that undoes a jump ahead: then a new term begins.

        Occurrences of hours that the clock repeats do not run twice; those of hours that it jumped over do run.
        """
        if ahead > _JUMP:
            log.warning("the database's clock jumped ahead", seconds=ahead // SECOND)
            self._jumped += ahead
        elif ahead < -_JUMP and -ahead <= self._jumped + _JUMP:
            raise LeaseLost(f"the database's clock had jumped ahead and came back by {-ahead // SECOND} s")
        elif ahead < -_JUMP and not self._behind:
            log.warning("the database's clock was set back and is not followed", seconds=-ahead // SECOND)
        self._behind = ahead < -_JUMP

    def _renew(self) -> None:
        wait = renewed_every(self._ttl)
        while not self._stopped.wait(wait / SECOND):
            if self._passed_at is not None and self._clock() - self._passed_at > _STUCK_AFTER:
                log.error("loop stands still", term=self._lease.term, stuck_s=_STUCK_AFTER // SECOND)
                return self._give_up()
            if self._writer_stuck_for() > _STUCK_AFTER:
                log.error("writer stands still", term=self._lease.term, stuck_s=_STUCK_AFTER // SECOND)
                return self._give_up()
            is_late = not self.trusted()
            try:
                self.confirm()
                wait = self.next_in()
                if is_late:
                    log.warning("lease confirmed late, nobody took over meanwhile", term=self._lease.term)
            except LeaseLost as exc:
                log.error("lease lost", term=self._lease.term, error=str(exc))
                return self._give_up()
            except StoreUnavailable as exc:
                log.warning("lease not confirmed", term=self._lease.term, error=str(exc))
                wait = self._ttl // 10
                if not self.trusted():
                    return self._give_up()
        return None

    def _give_up(self) -> None:
        self._lost.set()
        self._on_loss()
