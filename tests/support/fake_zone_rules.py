"""ZoneRulesStore in memory, by the same contract as the SQL one."""

from collections.abc import Sequence

from itinerary.protocol.errors import NotFound
from itinerary.protocol.instants import MINUTE, format_instant
from scheduler_service.core.audit import SYSTEM
from scheduler_service.core.model import Lease
from scheduler_service.core.schedules.zone_rules import is_newer
from scheduler_service.core.schedules.zone_sets import ZoneSet
from scheduler_service.ports.zone_rules import AdoptedRules, ZoneRulesStore
from tests.support.fake_rows import Tables


class FakeZoneRulesStore(ZoneRulesStore):
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def adopted(self) -> Sequence[AdoptedRules]:
        with self._tables.lock:
            return [adopted for adopted, _ in self._tables.zone_rules]

    def read(self, number: int) -> ZoneSet:
        with self._tables.lock:
            for adopted, rules in self._tables.zone_rules:
                if adopted.number == number:
                    return rules
            raise NotFound(f"no zone rules {number}")

    def adopt(self, lease: Lease, rules: ZoneSet, source: str) -> None:
        with self._tables.lock:
            self._tables.check(lease)
            known, now = self._tables.zone_rules, self._tables.clock()
            row = self._tables.leases[lease.shard]
            if known and not is_newer(rules.version, known[-1][0].version):
                row.zone_rules = known[-1][0].version
                return
            planned, _ = self._tables.cursors.get(lease.shard, (None, ""))
            latest = max(now, planned or now, known[-1][0].effective_from if known else now)
            since = latest + -latest % MINUTE
            number = known[-1][0].number + 1 if known else 1
            known.append((AdoptedRules(number, rules.version, rules.digest, source, lease.holder, now, since), rules))
            del known[:-8]
            row.zone_rules = rules.version
            after = {
                "version": rules.version, "digest": rules.digest, "source": source, "holder": lease.holder,
                "effective_from": format_instant(since),
            }  # fmt: skip
            before = known[-2][0] if len(known) > 1 else None
            self._tables.record(
                SYSTEM.audited_change("zone_rules.adopt"), "zone rules",
                before and {"version": before.version, "digest": before.digest}, after,
            )  # fmt: skip
