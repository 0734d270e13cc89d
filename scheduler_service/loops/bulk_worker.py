"""An API's thread that carries on bulk operations of all callers: page by page, with a rest after each.

Promises that an operation whose process died continues while one API runs. It takes at most half of one writer's time.
Decides nothing of what a page does.
"""

import time
from collections.abc import Callable
from typing import Final

import structlog

from itinerary.protocol.errors import ItineraryError
from scheduler_service.loops.repeating import Repeating
from scheduler_service.ports.bulk import BulkStore, Stepped

_IDLE: Final = 2.0
_LONGEST_REST: Final = 1.0

log = structlog.get_logger(__name__)


class BulkWorker(Repeating):
    """Steps in turns the operations that nobody else steps just now; `tell` passes on what a page changed."""

    def __init__(
        self, store: BulkStore, tell: Callable[[Stepped], None], on_crash: Callable[[BaseException], None]
    ) -> None:
        super().__init__("bulk-worker", on_crash)
        self._store = store
        self._tell = tell

    def _once(self) -> None:
        began = time.monotonic()
        try:
            stepped = self._store.step()
        except ItineraryError as exc:
            log.warning("bulk operations wait", error=str(exc))
            stepped = None
        if stepped is None:
            self._stopped.wait(_IDLE)
            return
        self._tell(stepped)
        self._stopped.wait(min(_LONGEST_REST, time.monotonic() - began))
