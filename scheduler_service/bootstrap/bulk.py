"""Makes an API's process carry on bulk operations."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from scheduler_service.loops.bulk_worker import BulkWorker
from scheduler_service.ports.bulk import BulkStore, Stepped

log = structlog.get_logger(__name__)

_STOP_SECONDS: Final = 5.0


@contextmanager
def carrying_on_bulk(store: BulkStore, tell: Callable[[Stepped], None]) -> Iterator[None]:
    """Carry on the operations that go on, within the block."""
    worker = BulkWorker(store, tell, _log_end)
    worker.start()
    try:
        yield
    finally:
        worker.stop(_STOP_SECONDS)


def _log_end(cause: BaseException) -> None:
    log.error("this process no longer carries on bulk operations; restart it", error=repr(cause))
