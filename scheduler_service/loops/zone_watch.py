"""The zone rules of a process: those that the installation adopted, beside those installed on its host.

A leader adopts newer rules before its first pass and plans by the adopted ones, whatever its host has; an API follows
them. Each says so if its host has others: operators learn of an update, and of a host that they forgot.
"""

from collections.abc import Callable
from typing import Final

import structlog

from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import MINUTE, SECOND, Duration
from scheduler_service.core.model import Lease
from scheduler_service.core.schedules.zone_eras import ALWAYS, Era, eras_in_force, put_in_force
from scheduler_service.core.schedules.zone_rules import difference, installed_rules
from scheduler_service.core.schedules.zone_sets import ZoneSet, installed_set
from scheduler_service.loops.repeating import Repeating
from scheduler_service.ports.leases import LeaseStore, LeaseView
from scheduler_service.ports.stores import Meter
from scheduler_service.ports.zone_rules import ZoneRulesStore

log = structlog.get_logger(__name__)

_EVERY: Final = 10 * SECOND
_MARKED_EVERY: Final = MINUTE
_REMEDY: Final = "install one version of tzdata on every host, and restart; `itinerary zones diff` lists what changes"


def put_adopted_in_force(store: ZoneRulesStore) -> str | None:
    """Go by the adopted rules from now on; return their version, None if none were adopted."""
    adopted, known = store.adopted(), {era.rules.digest: era.rules for era in eras_in_force()}
    if not adopted:
        put_in_force(())
        return None
    own = installed_set()
    known[own.digest] = own
    sets: list[ZoneSet] = [known.get(one.digest) or store.read(one.number) for one in adopted]
    since = [ALWAYS, *(one.effective_from // SECOND for one in adopted[1:])]
    eras = tuple(Era(*pair) for pair in zip(since, sets, strict=True))
    if eras == (Era(ALWAYS, own),):
        eras = ()
    if eras != eras_in_force():
        put_in_force(eras)
    return adopted[-1].version


class ZoneWatch:
    """A standby's comparison every ten seconds, logged once a term, shown as a metric, noted in the lease."""

    def __init__(self, leases: LeaseStore, store: ZoneRulesStore, meter: Meter, holder: str) -> None:
        self._leases = leases
        self._store = store
        self._meter = meter
        self._holder = holder
        self._next_at: Duration = 0
        self._mark_at: Duration = 0
        self._logged_term = 0
        installed_set()  # reads 600 files: a takeover would wait for it

    def compare(self, view: LeaseView | None, now: Duration) -> None:
        """Compare with the lease as read at `now`, by the monotonic clock; rarely costs a write."""
        if view is None or not view.live or now < self._next_at:
            return
        self._next_at = now + _EVERY
        differs = None if view.zone_rules is None else difference(view.zone_rules)
        self._meter.zone_rules_differ(differs is not None)
        if differs is None:
            return
        if view.term != self._logged_term:
            self._logged_term = view.term
            log.warning("zone rules of this standby are " + differs, term=view.term, remedy=_REMEDY)
        if now >= self._mark_at:
            self._mark_at = now + _MARKED_EVERY
            self._leases.mark_standby(0, view.term, f"{installed_rules().version} on {self._holder}")

    def leading(self, lease: Lease) -> None:
        """Adopt the rules installed here if they are newer, and go by the adopted ones, before the first pass."""
        self._meter.zone_rules_differ(False)
        self._next_at = 0
        before = self._store.adopted()
        self._store.adopt(lease, installed_set(), installed_rules().text)
        in_force = put_adopted_in_force(self._store) or installed_rules().version
        if before and before[-1].version != in_force:
            log.warning("zone rules changed with this term", term=lease.term, before=before[-1].version, now=in_force)
        if (differs := difference(in_force)) is not None:
            log.warning("zone rules of this leader are " + differs, term=lease.term, remedy=_REMEDY)


class ZoneFollower(Repeating):
    """An API's thread: goes by newly adopted rules ten seconds later, and logs once if its host has others."""

    def __init__(self, store: ZoneRulesStore, on_crash: Callable[[BaseException], None]) -> None:
        super().__init__("zone-follower", on_crash)
        self._store = store
        self._logged: str | None = None

    def follow(self) -> None:
        """Go by the adopted rules; without an answer, by those known."""
        try:
            in_force = put_adopted_in_force(self._store)
        except ItineraryError as exc:
            log.warning("adopted zone rules cannot be read", error=str(exc))
            return
        differs = None if in_force is None else difference(in_force)
        if differs is not None and differs != self._logged:
            log.warning("zone rules of this API's host are " + differs, remedy=_REMEDY)
        self._logged = differs

    def _once(self) -> None:
        if not self._stopped.wait(_EVERY / SECOND):
            self.follow()
