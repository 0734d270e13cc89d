"""Pass on the database's notices of commits, so that the loop polls at once. Only makes things sooner.

The leader's regular polls find everything that it misses, so its failures end and stop nothing.
"""

from collections.abc import Callable

import structlog

from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.instants import SECOND
from scheduler_service.core.leader.results import Woken
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.loops.repeating import Repeating
from scheduler_service.ports.records import Wakeups

log = structlog.get_logger(__name__)

_AGAIN_SECONDS = 1.0
# Short, since a stopping leader waits for it before it resigns.
_WAIT = 2 * SECOND // 5


class WakeupListener(Repeating):
    """A thread over `wakeups`; it calls `on_jobs` when definitions were changed."""

    def __init__(
        self,
        wakeups: Wakeups,
        mailbox: Mailbox,
        on_jobs: Callable[[], None],
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._wakeups = wakeups
        self._mailbox = mailbox
        self._on_jobs = on_jobs
        super().__init__("wakeup-listener", on_crash, at_end=wakeups.close)
        self._blocked = False

    def _once(self) -> None:
        try:
            news = self._wakeups.wait(_WAIT)
        except StoreUnavailable as exc:
            if not self._blocked:
                log.warning("database's notices cannot be heard", error=str(exc))
            self._blocked = True
            self._stopped.wait(_AGAIN_SECONDS)
            return
        if self._blocked:
            log.info("database's notices are heard again")
        self._blocked = False
        if "runs" in news:
            self._mailbox.put(Woken())
        if "jobs" in news:
            self._on_jobs()
