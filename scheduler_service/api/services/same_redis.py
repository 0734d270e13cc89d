"""Check that this API uses the leader's Redis and broker: with others, its messages never reach the leader."""

from typing import Final

import structlog

from itinerary.protocol.errors import BrokerUnavailable
from scheduler_service.api.context import ApiContext
from scheduler_service.core.redis_marks import SAME_REDIS, Marks, differing
from scheduler_service.observability.repeated_events import Seldom
from scheduler_service.ports.leases import LeaseView

log = structlog.get_logger(__name__)
_seldom: Final = Seldom()


def other_redis(context: ApiContext, lease: LeaseView | None) -> str | None:
    """Return `another Redis` if this API's is not the leader's, else None; BrokerUnavailable."""
    if lease is None or not lease.live or lease.redis_mark is None:
        return None
    own = Marks(context.stores.marks.read_redis())
    return _logged(differing(Marks(lease.redis_mark), own))


def other_servers(context: ApiContext, lease: LeaseView | None) -> str | None:
    """Name which of Redis and broker is not the leader's; None also if one of them does not answer."""
    if lease is None or not lease.live or lease.marks == Marks():
        return None
    try:
        return _logged(differing(lease.marks, context.stores.marks.read()))
    except BrokerUnavailable:
        return None


def _logged(other: str | None) -> str | None:
    if other is not None and (count := _seldom.count(other)):
        log.error(f"this API uses {other} than the leader", remedy=SAME_REDIS, count=count)
    return other
