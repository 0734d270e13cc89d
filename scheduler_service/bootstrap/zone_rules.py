"""Makes a process that does not lead go by the zone rules that the installation adopted."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from scheduler_service.loops.zone_watch import ZoneFollower
from scheduler_service.ports.zone_rules import ZoneRulesStore

log = structlog.get_logger(__name__)

_STOP_SECONDS: Final = 2.0


@contextmanager
def following_zone_rules(store: ZoneRulesStore) -> Iterator[None]:
    """Go by the adopted rules from the start, and within the block by those adopted meanwhile."""
    follower = ZoneFollower(store, _log_end)
    follower.follow()
    follower.start()
    try:
        yield
    finally:
        follower.stop(_STOP_SECONDS)


def _log_end(cause: BaseException) -> None:
    log.error("this process no longer follows adopted zone rules; restart it", error=repr(cause))
