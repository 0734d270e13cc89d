"""A standby's rehearsal, so that its takeover does nothing for the first time: connect, and prepare statements.

Changes nothing. Whatever is away is left to the takeover, which waits for it as ever.
"""

import structlog

from itinerary.protocol.errors import BrokerUnavailable, StoreUnavailable
from scheduler_service.loops.scheduler_loop import Adapters

log = structlog.get_logger(__name__)


def rehearse(adapters: Adapters) -> None:
    """Ask the database, the broker and Redis what a new leader asks first."""
    for ask in (
        adapters.store.rehearse,
        adapters.dispatcher.ping,
        adapters.dispatcher.query_epoch,
        adapters.claims.query_epoch,
        adapters.inbox.depth,
    ):
        try:
            ask()
        except (BrokerUnavailable, StoreUnavailable) as exc:
            log.warning("not asked while standing by", error=str(exc))
            return
