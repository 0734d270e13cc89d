"""The monitors of one source in SQL: read and locked beside its jobs, written in the transaction of its apply.

A new monitor gets a token that nobody knows, so that none lands where plans are printed. An operator renews it to
set up the pings. Rows are locked by their ids.
"""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, Text, delete, or_, select, update

from itinerary.protocol.errors import Conflict
from itinerary.protocol.instants import Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.job_plan import JobSet
from scheduler_service.core.contract.monitor_json import definition_of
from scheduler_service.core.contract.monitor_plan import MonitorsPlan
from scheduler_service.core.monitors import judging
from scheduler_service.core.monitors.model import Monitor
from scheduler_service.sql.audit import record_all
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.monitor_calendars import closed_for, judge
from scheduler_service.sql.monitor_tables import monitor_pings, monitors
from scheduler_service.sql.monitors import columns_of, monitor_of, require_room

_IDS: Final = Batch(monitor_id=Text)
_M: Final = monitors.c


def read_monitors(
    connection: Connection, wanted: JobSet, dialect: Dialect, *, locked: bool = False
) -> tuple[Monitor, ...]:
    """Return the monitors that the set names or its source owns; none if it leaves monitors as they are."""
    if wanted.monitors is None:
        return ()
    (ids,) = _IDS.chunks([(one.monitor_id,) for one in wanted.monitors] or [("",)])
    named = _M.monitor_id.in_(select(_IDS.rows(dialect).c.monitor_id))
    found_by = named if wanted.source is None else or_(named, _M.source == wanted.source)
    asked = select(monitors).where(found_by).order_by(_M.monitor_id)
    return tuple(map(monitor_of, connection.execute(asked.with_for_update() if locked else asked, ids)))


def carry_out(
    connection: Connection, plan: MonitorsPlan, source: str | None, locked: Sequence[Monitor], by: AuditedChange | None,
    now: Instant,
) -> None:  # fmt: skip
    """Write what the plan says; `locked` are the rows as they are now, which pings may have changed since."""
    judge_calendars(connection, plan, now, hold=True)
    there = {monitor.monitor_id: monitor for monitor in locked}
    audited: list[tuple[str, Any, Any]] = []
    if plan.added:
        require_room(connection, plan.added[0].monitor_id, len(plan.added))
    for one in plan.added:
        new = judging.created(one.monitor_id, closed_for(connection, one.content), now)
        wanted = {"monitor_id": one.monitor_id, "token": secrets.token_hex(32), "created_at": now, "source": source}
        row = {**wanted, "definition": definition_of(one.content), **columns_of(new)}
        _insert(connection, row)
        audited.append((one.monitor_id, None, row["definition"]))
    for change in plan.changed:
        before = there[change.there.monitor_id]
        after = replace(before, source=before.source if source is None else source)
        values: dict[str, Any] = {"source": after.source}
        if change.of_definition:
            after = judging.edited(after, closed_for(connection, change.content), now)
            values |= {"definition": definition_of(change.content), **columns_of(after)}
        connection.execute(update(monitors).where(_M.monitor_id == before.monitor_id).values(values))
        audited.append((before.monitor_id, _definition(before), definition_of(change.content)))
    for gone in plan.removed:
        connection.execute(delete(monitor_pings).where(monitor_pings.c.monitor_id == gone.monitor_id))
        connection.execute(delete(monitors).where(_M.monitor_id == gone.monitor_id))
        audited.append((gone.monitor_id, _definition(gone), None))
    record_all(connection, now, None if by is None else replace(by, action="monitor.apply"), audited)


def judge_calendars(connection: Connection, plan: MonitorsPlan, now: Instant, *, hold: bool = False) -> None:
    """Raise BadValues for calendars that the monitors of the plan may not name."""
    saved = [(one.monitor_id, one.content) for one in plan.added]
    saved += [(change.there.monitor_id, change.content) for change in plan.changed if change.of_definition]
    judge(connection, [(f"monitors.{name}", name, content) for name, content in saved], now, hold=hold)


def _insert(connection: Connection, row: dict[str, Any]) -> None:
    wanted = dialect_of(connection).insert(monitors).on_conflict_do_nothing().returning(_M.monitor_id)
    if connection.execute(wanted, [row]).first() is None:
        raise Conflict("another request created one of these monitors; plan again", "plan-outdated")


def _definition(monitor: Monitor) -> dict[str, Any] | None:
    return None if monitor.content is None else definition_of(monitor.content)
