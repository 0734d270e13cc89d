"""The thread that sends the pings of jobs while its process leads, beside the loop, which never waits for it.

Promises at-least-once within an hour of the event, the pings of a job in the order of its events. A host that fails is
left alone for the rest of a round, so that it keeps no other waiting for long. A round that was full is followed by the
next at once. A failure here never stops a leader.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final
from urllib.parse import urlsplit

import structlog

from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.instants import MINUTE, Duration
from scheduler_service.core.pings import Ping
from scheduler_service.loops.repeating import Repeating
from scheduler_service.ports.leases import LeaseStore
from scheduler_service.ports.pings import PingFailed, PingMeter, PingStore, WaitingPing

log = structlog.get_logger(__name__)

_EVERY_SECONDS: Final = 1.0
# Longer than a round takes: five after each other, ten seconds each at most.
_HOLD: Final[Duration] = MINUTE
_A_ROUND: Final = 160
_AT_ONCE: Final = 32
_SHARD: Final = 0


class Pinger(Repeating):
    """One process's pinger."""

    def __init__(
        self, leases: LeaseStore, store: PingStore, send: Callable[[Ping], None], meter: PingMeter, holder: str
    ) -> None:
        super().__init__("pinger", on_crash=_log_end)
        self._leases = leases
        self._store = store
        self._send = send
        self._meter = meter
        self._holder = holder

    def _once(self) -> None:
        try:
            if self.round():
                return
        except StoreUnavailable as exc:
            log.warning("pings wait, the database is away", error=str(exc))
        except Exception:  # whatever it is, runs continue
            log.exception("pings failed")
        self._stopped.wait(_EVERY_SECONDS)

    def round(self) -> bool:
        """Send what is due, a bounded number; whether more may be."""
        lease = self._leases.peek(_SHARD)
        if lease is None or not lease.live or lease.holder != self._holder:
            return False
        claimed = self._store.claim(_A_ROUND, _HOLD)
        of_job: defaultdict[str, list[WaitingPing]] = defaultdict(list)
        for waiting in claimed:
            of_job[waiting.ping.job_id].append(waiting)
        if not of_job:
            return False
        failing: set[str | None] = set()
        with ThreadPoolExecutor(min(_AT_ONCE, len(of_job)), thread_name_prefix="ping") as pool:
            for tried in as_completed([pool.submit(self._try_all, waiting, failing) for waiting in of_job.values()]):
                for one, why in tried.result():
                    self._tried(one, why)
        return len(claimed) == _A_ROUND

    def _try_all(self, waiting: Sequence[WaitingPing], failing: set[str | None]) -> list[tuple[WaitingPing, str]]:
        """Send the pings of one job; return each with the reason if it failed."""
        tried = []
        for one in waiting:
            host, why = urlsplit(one.ping.url).hostname, ""
            if host in failing:
                why = "its host just failed"
            else:
                try:
                    self._send(one.ping)
                except PingFailed as exc:
                    failing.add(host)
                    why = str(exc)
            tried.append((one, why))
        return tried

    def _tried(self, one: WaitingPing, why: str) -> None:
        if why:
            self._failed(one, why)
            return
        # If we die before this, it is sent again.
        self._store.sent(one)
        self._meter.pinged("sent")

    def _failed(self, waiting: WaitingPing, why: str) -> None:
        again = self._store.failed(waiting)
        self._meter.pinged("failed" if again else "dead")
        about = {"job_id": waiting.ping.job_id, "state": waiting.ping.state.value, "attempts": waiting.attempts}
        if again:
            log.warning("ping failed, to be tried again", **about, reason=why)
        else:
            log.error("ping given up", **about, reason=why)


def _log_end(cause: BaseException) -> None:
    log.error("pings ended", error=repr(cause))
