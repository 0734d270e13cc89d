"""The thread that stores the logs of ended attempts, beside the leader's loop, which never waits for it.

It works while its process leads. A log is removed from Redis only once it is stored: if we die in between, the next one
stores it again, which changes nothing. Promises that no error of logs ends a leadership.
"""

from typing import Final

import structlog

from itinerary.protocol.errors import BrokerUnavailable, StoreUnavailable
from itinerary.protocol.instants import SECOND
from scheduler_service.loops.repeating import Repeating
from scheduler_service.ports.leases import LeaseStore
from scheduler_service.ports.logs import LogStore, SentLogs

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 100
_WAITED: Final = 2 * SECOND
_TRIED_AGAIN_SECONDS: Final = 2.0
_SHARD: Final = 0


class LogRecorder(Repeating):
    """One process's recorder."""

    def __init__(self, leases: LeaseStore, sent: SentLogs, store: LogStore, holder: str) -> None:
        super().__init__("log-recorder", on_crash=lambda cause: log.error("logs are not stored", error=repr(cause)))
        self._leases = leases
        self._sent = sent
        self._store = store
        self._holder = holder
        self._stands_by = False

    def _once(self) -> None:
        try:
            if not self.round():
                self._stopped.wait(_TRIED_AGAIN_SECONDS)
        except (BrokerUnavailable, StoreUnavailable) as exc:
            log.info("logs of attempts wait", error=str(exc))
            self._stopped.wait(_TRIED_AGAIN_SECONDS)
        except Exception:  # whatever it is, runs continue
            log.exception("logs of attempts were not stored")
            self._stopped.wait(_TRIED_AGAIN_SECONDS)

    def round(self) -> bool:
        """Store what comes within two seconds; False if it is another leader's, which is asked first from then on."""
        if self._stands_by and not self._leads():
            return False
        logs, others = self._sent.read(_AT_ONCE, _WAITED)
        if not logs and not others:
            return True
        self._stands_by = not self._leads()
        if self._stands_by:
            return False
        if others:
            log.warning("entries that are no logs are removed", count=len(others))
        if logs:
            self._store.keep(logs)
        # If we die here, they are stored once more.
        self._sent.forget([*(one.entry for one in logs), *others])
        return True

    def _leads(self) -> bool:
        lease = self._leases.peek(_SHARD)
        return lease is not None and lease.live and lease.holder == self._holder
