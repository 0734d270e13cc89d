"""The thread that judges what has come to its time while its process leads: SLAs of runs, pings of monitors.

The database remembers what is judged, so a takeover repeats and forgets nothing. A new leader waits until it has read
the reports that came meanwhile. Promises that a failure here never stops a leader, and that the loop never waits for
it.
"""

from typing import Final

import structlog

from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.instants import SECOND, Duration
from scheduler_service.loops.mailbox import monotonic
from scheduler_service.loops.repeating import Repeating
from scheduler_service.ports.leases import LeaseStore
from scheduler_service.ports.monitors import MonitorStore
from scheduler_service.ports.sla import JudgeMeter, SlaStore

log = structlog.get_logger(__name__)

REPORTED: Final[Duration] = 3 * SECOND
"""How long after its end a run's report may still be on its way."""
_EVERY_SECONDS: Final = 5.0
_AFTER_A_TAKEOVER: Final[Duration] = 10 * SECOND
_A_PAGE: Final = 1_000
_PAGES: Final = 20
_SHARD: Final = 0


class SlaJudge(Repeating):
    """One process's judge."""

    def __init__(
        self,
        leases: LeaseStore,
        store: SlaStore,
        monitors: MonitorStore,
        meter: JudgeMeter,
        holder: str,
        *,
        after_a_takeover: Duration = _AFTER_A_TAKEOVER,
    ) -> None:
        super().__init__("sla-judge", on_crash=_log_end)
        self._leases = leases
        self._store = store
        self._monitors = monitors
        self._meter = meter
        self._holder = holder
        self._after_a_takeover = after_a_takeover
        self._leads_since: Duration | None = None

    def _once(self) -> None:
        try:
            self.round()
        except StoreUnavailable as exc:
            log.warning("SLAs are not judged, the database is away", error=str(exc))
        except Exception:  # whatever it is, runs continue
            log.exception("SLAs were not judged")
        self._stopped.wait(_EVERY_SECONDS)

    def round(self) -> None:
        """Judge a bounded number of each."""
        lease = self._leases.peek(_SHARD)
        if lease is None or not lease.live or lease.holder != self._holder:
            self._leads_since = None
            return
        if self._leads_since is None:
            self._leads_since = monotonic()
        if monotonic() - self._leads_since < self._after_a_takeover:
            return
        for _ in range(_PAGES):
            judged = self._store.judge(REPORTED, _A_PAGE)
            self._meter.judged(judged)
            if judged.missed:
                log.warning("runs missed their SLA", count=judged.missed)
            if judged.kept + judged.missed < _A_PAGE or self._stopped.is_set():
                break
        down = self._monitors.judge(_A_PAGE)
        if down:
            log.warning("monitors went down", count=down)
        self._meter.monitored(self._monitors.counts())


def _log_end(cause: BaseException) -> None:
    log.error("SLAs are judged no more", error=repr(cause))
