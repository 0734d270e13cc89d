"""Which attempts a worker's heartbeats list: as running, or as received and waiting for their claim or their turn.

Promises that an attempt is listed from its arrival until Redis has its report. A child told to stop may still run it,
or the main process may hold its report. Owned by one thread.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from celery.worker import state

from itinerary.worker.delivery import is_ours
from itinerary.worker.held import HeldRequests
from itinerary.worker.pool_registry import PoolRegistry

_LISTED_AT_ONCE: Final = 20_000


class Listing:
    """The lists of one worker, heartbeat after heartbeat."""

    def __init__(self, registry: PoolRegistry, requests: HeldRequests) -> None:
        self._registry = registry
        self._requests = requests
        self._missing: set[str] = set()
        self._over: set[str] = set()
        self._listed_until = 0

    def next(self, claimed: set[str], unreported: Collection[str]) -> tuple[list[str], list[str]]:
        """The attempts (running, received); those `claimed` run, and those whose end is `unreported` still do."""
        ours = [request.id for request in _snapshot(state.requests) if is_ours(request.request_dict)]
        held = set(self._requests.unacknowledged())
        missing = claimed.difference(ours)
        # Not at once: the report for a killed child may be about to need it.
        over = missing & self._missing
        self._registry.over(over)
        # A second message of an attempt that ran here and ended may still wait here: that does not keep it alive.
        self._over = (self._over | over) & held
        self._missing = missing
        waiting = [t for t in ours if t not in claimed]
        waiting += held.difference(ours, claimed, self._over)
        running = dict.fromkeys([*(t for t in ours if t in claimed), *unreported])
        return list(running), self._in_turn(waiting)

    def _in_turn(self, waiting: list[str]) -> list[str]:
        """The ids that fit into one heartbeat; the others follow in the next ones."""
        if len(waiting) <= _LISTED_AT_ONCE:
            return waiting
        waiting.sort()
        at = self._listed_until % len(waiting)
        self._listed_until = at + _LISTED_AT_ONCE
        return (waiting[at:] + waiting[:at])[:_LISTED_AT_ONCE]


def _snapshot(requests: Mapping[str, Any]) -> Iterable[Any]:
    """The worker's requests, while its main thread may change them."""
    while True:
        try:
            return list(requests.values())
        except RuntimeError:
            continue  # changed while copied
