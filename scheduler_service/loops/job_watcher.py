"""Find jobs whose newest version is not planned, whether or not the leader was notified of them."""

import threading
import time
from collections.abc import Callable

import structlog

from itinerary.protocol.errors import StoreUnavailable
from scheduler_service.core.leader.results import UnplannedJobs
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.ports.stores import LeaderStore

log = structlog.get_logger(__name__)

_EVERY_SECONDS = 2.0
_AT_ONCE = 1000
_RESTS = 3


class JobWatcher:
    """A poll of the database every two seconds, or on request; its partial index is empty while no job is edited.

    It rests three times as long as a query took, so that many single edits do not keep it busy.
    """

    def __init__(
        self,
        store: LeaderStore,
        mailbox: Mailbox,
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._mailbox = mailbox
        self._on_crash = on_crash
        self._stopped = False
        self._poll_now, self._rest = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="job-watcher", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def poll_now(self) -> None:
        """Query without waiting for the interval to end."""
        self._poll_now.set()

    def stop(self, timeout: float) -> None:
        """Stop after the current query."""
        self._stopped = True
        self._rest.set()
        self._poll_now.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._poll_now.wait(_EVERY_SECONDS)
                self._poll_now.clear()
                if not self._stopped:
                    began = time.monotonic()
                    self._query_epoch()
                    # Edits made during the rest share the next query.
                    self._rest.wait(_RESTS * (time.monotonic() - began))
        except BaseException as exc:  # noqa: BLE001 - whatever it is, a leader that misses edits must not go on
            self._on_crash(exc)

    def _query_epoch(self) -> None:
        try:
            if job_ids := self._store.unplanned_jobs(_AT_ONCE):
                self._mailbox.put(UnplannedJobs(tuple(job_ids)))
        except StoreUnavailable as exc:
            log.warning("jobs cannot be read", error=str(exc))
