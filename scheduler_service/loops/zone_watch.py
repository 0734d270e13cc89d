"""A standby's comparison of its zone rules with those that the leader plans by.

With other rules, a takeover would plan the same job at other instants: operators must learn of it beforehand.
"""

from typing import Final

import structlog

from itinerary.protocol.instants import MINUTE, SECOND, Duration
from scheduler_service.core.schedules.zone_rules import rules_in_use
from scheduler_service.ports.leases import LeaseStore, LeaseView
from scheduler_service.ports.stores import Meter

log = structlog.get_logger(__name__)

_EVERY: Final = 10 * SECOND
_MARKED_EVERY: Final = MINUTE


class ZoneWatch:
    """A comparison every ten seconds; a difference is logged once a term, shown as a metric and noted in the lease."""

    def __init__(self, leases: LeaseStore, meter: Meter, holder: str) -> None:
        self._leases = leases
        self._meter = meter
        self._holder = holder
        self._next_at: Duration = 0
        self._mark_at: Duration = 0
        self._logged_term = 0

    def compare(self, view: LeaseView | None, now: Duration) -> None:
        """Compare with the lease as read at `now`, by the monotonic clock; rarely costs a write."""
        if view is None or not view.live or now < self._next_at:
            return
        self._next_at = now + _EVERY
        own = rules_in_use()
        differs = view.zone_rules not in (None, own.version)
        self._meter.zone_rules_differ(differs)
        if not differs:
            return
        if view.term != self._logged_term:
            self._logged_term = view.term
            log.warning(
                "zone rules of this standby are not the leader's: after a takeover jobs would run at other times",
                standby=own.text, leader=view.zone_rules, term=view.term,
                remedy="install the same tzdata package on both hosts, and restart",
            )  # fmt: skip
        if now >= self._mark_at:
            self._mark_at = now + _MARKED_EVERY
            self._leases.mark_standby(0, view.term, f"{own.version} on {self._holder}")

    def leading(self, term: int, before: LeaseView | None) -> None:
        """Note that this process leads now; `before` is the lease as it last saw it."""
        own = rules_in_use()
        self._meter.zone_rules_differ(False)
        self._next_at = 0
        if before is not None and before.zone_rules not in (None, own.version):
            log.warning("zone rules changed with this term", term=term, before=before.zone_rules, now=own.text)
