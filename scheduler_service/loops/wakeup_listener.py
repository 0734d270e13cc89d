"""Passes on what the database says was committed, so that the loop looks at once. Only makes things sooner.

What it misses is found by the looks that the leader takes anyway: it ends nothing and stops nothing.
"""

import threading
from collections.abc import Callable

import structlog

from scheduler_service.core.errors import StoreUnavailable
from scheduler_service.core.feedback import Woken
from scheduler_service.core.instants import SECOND
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.record_ports import Wakeups

log = structlog.get_logger(__name__)

_AGAIN_SECONDS = 1.0
# Short, since a leader that is told to stop waits for it before it resigns.
_WAIT = SECOND // 5


class WakeupListener:
    """One thread over `wakeups`; `on_jobs` is called when definitions were changed."""

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
        self._on_crash = on_crash
        self._stopped = threading.Event()
        self._deaf = False
        self._thread = threading.Thread(target=self._run, name="wakeup-listener", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End after the wait in hand."""
        self._stopped.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._listen()
        except BaseException as exc:  # noqa: BLE001 - whatever it is, the leader says what broke
            self._on_crash(exc)
        finally:
            self._wakeups.close()

    def _listen(self) -> None:
        try:
            news = self._wakeups.wait(_WAIT)
        except StoreUnavailable as exc:
            if not self._deaf:
                log.warning("database's notices cannot be heard", error=str(exc))
            self._deaf = True
            self._stopped.wait(_AGAIN_SECONDS)
            return
        if self._deaf:
            log.info("database's notices are heard again")
        self._deaf = False
        if "runs" in news:
            self._mailbox.put(Woken())
        if "jobs" in news:
            self._on_jobs()
