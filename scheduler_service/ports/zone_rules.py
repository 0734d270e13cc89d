"""Port to the zone rules of the installation: the sets that leaders adopted, oldest first.

An implementation promises that every process reads the same sets, and that none changes once adopted. One comes into
force after every row that was planned before it. The transaction that adopts also records it in the audit log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import Lease
from scheduler_service.core.schedules.zone_sets import ZoneSet


@dataclass(frozen=True, slots=True)
class AdoptedRules:
    """A set that decides from `effective_from` on, the oldest at all times before it too.

    `source`: where its host had it from; `holder`: the leader that adopted it.
    """

    number: int
    version: str
    digest: str
    source: str
    holder: str
    adopted_at: Instant
    effective_from: Instant


class ZoneRulesStore(Protocol):
    """The adopted sets. Only a leader adopts."""

    def adopted(self) -> Sequence[AdoptedRules]:
        """Every set that is kept, oldest first."""

    def read(self, number: int) -> ZoneSet:
        """The files of a set; NotFound."""

    def adopt(self, lease: Lease, rules: ZoneSet, source: str) -> None:
        """Adopt these rules if they are the first, or newer than all adopted ones; LeaseLost.

        They come into force at the next full minute, but not before a row that is planned already. The lease names the
        version in force afterwards.
        """
