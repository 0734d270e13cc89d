"""The adopted zone rules in SQL: a row for each set, with its files as one text of about 70 kB.

Promises that a row never changes. The eight newest are kept: by the older ones what is longer ago is explained.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, delete, insert, select, update

from itinerary.protocol.errors import NotFound
from itinerary.protocol.instants import MINUTE, Instant, format_instant
from scheduler_service.core.audit import SYSTEM
from scheduler_service.core.model import Lease
from scheduler_service.core.schedules.zone_rules import is_newer
from scheduler_service.core.schedules.zone_sets import ZoneSet, unpacked
from scheduler_service.ports.zone_rules import AdoptedRules, ZoneRulesStore
from scheduler_service.sql.audit import record
from scheduler_service.sql.database import Database
from scheduler_service.sql.fence import fenced, is_still
from scheduler_service.sql.record_tables import zone_rules
from scheduler_service.sql.tables import cursors, leases

MOST_KEPT: Final = 8
_Z: Final = zone_rules.c
_FACTS: Final = (_Z.id, _Z.version, _Z.digest, _Z.source, _Z.holder, _Z.adopted_at, _Z.effective_from)


class SqlZoneRulesStore(ZoneRulesStore):
    """ZoneRulesStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def adopted(self) -> Sequence[AdoptedRules]:
        with self._database.read() as connection:
            return _adopted(connection)

    def read(self, number: int) -> ZoneSet:
        with self._database.read() as connection:
            row = connection.execute(select(_Z.version, _Z.files).where(_Z.id == number)).first()
        if row is None:
            raise NotFound(f"no zone rules {number}")
        return unpacked(row.version, row.files)

    def adopt(self, lease: Lease, rules: ZoneSet, source: str) -> None:
        with fenced(self._database, lease) as connection:
            known = _adopted(connection)
            last = known[-1] if known else None
            is_newest = last is None or is_newer(rules.version, last.version)
            in_force = rules.version if last is None or is_newest else last.version
            connection.execute(update(leases).where(is_still(lease)).values(zone_rules=in_force))
            if not is_newest:
                return
            now = self._database.read_clock(connection)
            since = _in_force_from(connection, lease.shard, now, last)
            row = {"version": rules.version, "digest": rules.digest, "source": source, "holder": lease.holder}
            times = {"adopted_at": now, "effective_from": since}
            connection.execute(insert(zone_rules).values(**row, **times, files=rules.packed()))
            too_old = [one.number for one in known[: max(0, len(known) + 1 - MOST_KEPT)]]
            connection.execute(delete(zone_rules).where(_Z.id.in_(too_old)))
            before = None if last is None else {"version": last.version, "digest": last.digest}
            after = {**row, "effective_from": format_instant(since)}
            record(connection, now, SYSTEM.audited_change("zone_rules.adopt"), "zone rules", before, after)


def _adopted(connection: Connection) -> list[AdoptedRules]:
    return [AdoptedRules(*row) for row in connection.execute(select(*_FACTS).order_by(_Z.id))]


def _in_force_from(connection: Connection, shard: int, now: Instant, last: AdoptedRules | None) -> Instant:
    """The next full minute that no row was planned for; not before the last set, should the clock have stepped back."""
    planned = connection.execute(select(cursors.c.materialised_until).where(cursors.c.shard == shard)).scalar()
    latest = max(now, planned or now, now if last is None else last.effective_from)
    return latest + -latest % MINUTE
