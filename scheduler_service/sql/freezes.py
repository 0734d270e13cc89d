"""FreezeStore in SQL: rows of freezes, and counts of what is in flight in their scopes.

Promises that a count reads a bounded number of runs. Never touches a run; a row is deleted by pruning alone.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, func, insert, select, true, update

from itinerary.protocol.errors import Conflict, NotFound
from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.freeze_json import scope_body
from scheduler_service.core.freezes import (
    FREEZES_A_DAY,
    FREEZES_KEPT,
    Freeze,
    FreezeCounts,
    FreezeStatus,
    NewFreeze,
    status_of,
)
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.freezes import FreezeStore
from scheduler_service.ports.stores import Page
from scheduler_service.sql.audit import record
from scheduler_service.sql.control_tables import freezes
from scheduler_service.sql.controls import editing, raise_version
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.freeze_rows import FREEZE_COLUMNS, freeze_of, known_freezes
from scheduler_service.sql.paging import page_of, read_cursor
from scheduler_service.sql.tables import IS_IN_FLIGHT, IS_TRACKED, jobs, runs

MOST_FREEZES: Final = 100
_MOST_IN_FLIGHT: Final = 20_000
_F: Final = freezes.c


class SqlFreezeStore(FreezeStore):
    """FreezeStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @again_when_busy
    def start(self, asked: NewFreeze, *, by: AuditedChange) -> Freeze:
        with editing(self._database) as connection:
            now = self._database.read_clock(connection)
            kept = known_freezes(connection, now - FREEZES_KEPT)
            there = [one for one in kept if not one.is_over(now)]
            for one in there:
                if _is_asked_for(one, asked, by, now):
                    return one
            if len(there) >= MOST_FREEZES:
                raise Conflict(f"{MOST_FREEZES} freezes hold or are to come; end one first", "too-many-freezes")
            if len(kept) >= FREEZES_A_DAY:
                text = f"{FREEZES_A_DAY:,} freezes held within a day; pause queues or jobs instead"
                raise Conflict(text, "too-many-freezes")
            freeze = Freeze(
                0, asked.scope, max(now, asked.since or now), asked.reason, by.actor, asked.during, asked.until, now
            )
            freeze_id = connection.execute(insert(freezes).values(_values(freeze)).returning(_F.id)).scalar_one()
            return _changed(connection, now, by, None, replace(freeze, freeze_id=freeze_id))

    def get(self, freeze_id: int) -> Freeze:
        with self._database.read() as connection:
            return _read(connection, freeze_id)

    def list(self, state: FreezeStatus | None, limit: int, cursor: str | None) -> Page[Freeze]:
        before = None if cursor is None else read_cursor(cursor, int)[0]
        with self._database.read() as connection:
            now = self._database.read_clock(connection)
            if state in (FreezeStatus.ACTIVE, FreezeStatus.COMING):
                found = [one for one in known_freezes(connection, now)[::-1] if status_of(one, now) is state]
                behind = [one for one in found if before is None or one.freeze_id < before]
                return page_of(behind[: limit + 1], limit, lambda one: one, lambda one: [one.freeze_id])
            # Few are not over: by their ids, the newest of the past are found at once.
            wanted = (
                select(*FREEZE_COLUMNS)
                .where(
                    true() if before is None else _F.id < before,
                    true() if state is None else _F.ends_at <= now,
                )
                .order_by(_F.id.desc())
            )
            return page_of(connection.execute(wanted.limit(limit + 1)).all(), limit, freeze_of, lambda row: [row[0]])

    @again_when_busy
    def end(self, freeze_id: int, *, by: AuditedChange) -> Freeze:
        with editing(self._database) as connection:
            now = self._database.read_clock(connection)
            before = _read(connection, freeze_id)
            if before.is_over(now):
                return before
            after = replace(before, ended_at=now, ended_by=by.actor)
            connection.execute(update(freezes).where(_F.id == freeze_id).values(_values(after)))
            return _changed(connection, now, by, before, after)

    def counts(self, freezes: Sequence[Freeze]) -> Sequence[FreezeCounts]:
        if not freezes:
            return ()
        first = (
            select(runs.c.queue, runs.c.job_id, runs.c.state)
            .where(IS_TRACKED, IS_IN_FLIGHT, runs.c.forced.is_not(true()))
            .limit(_MOST_IN_FLIGHT + 1)
            .subquery("in_flight")
        )
        grouped = (
            select(first.c.queue, first.c.job_id, first.c.state, jobs.c.tags, func.count())
            .outerjoin(jobs, jobs.c.job_id == first.c.job_id)
            .group_by(first.c.queue, first.c.job_id, first.c.state, jobs.c.tags)
        )
        with self._database.read() as connection:
            rows = connection.execute(grouped).all()
        found = [Counter[str]() for _ in freezes]
        for queue, job_id, state, tags, number in rows:
            of_job = [json.loads(line) for line in (tags or "").split("\n") if line]
            for one, counted in zip(freezes, found, strict=True):
                if one.scope.meets(queue, job_id, of_job):
                    counted[state] += number
        more = sum(row[-1] for row in rows) > _MOST_IN_FLIGHT
        return [FreezeCounts(each[RunState.RUNNING], each[RunState.PENDING], more) for each in found]


def _is_asked_for(one: Freeze, asked: NewFreeze, by: AuditedChange, now: Instant) -> bool:
    """Whether this freeze is what is asked for, perhaps again after an answer that was lost."""
    begins = one.since <= now if asked.since is None else one.since == asked.since
    same = (one.scope, one.reason, one.during, one.until, one.by)
    return begins and same == (asked.scope, asked.reason, asked.during, asked.until, by.actor)


def _read(connection: Connection, freeze_id: int) -> Freeze:
    row = connection.execute(select(*FREEZE_COLUMNS).where(_F.id == freeze_id)).first()
    if row is None:
        raise NotFound(f"no freeze {freeze_id}")
    return freeze_of(row)


def _values(freeze: Freeze) -> dict[str, Any]:
    return {
        "scope": scope_body(freeze.scope), "during": freeze.during.value, "starts_at": freeze.since,
        "until": freeze.until, "reason": freeze.reason, "created_at": freeze.created_at, "created_by": freeze.by,
        "ended_at": freeze.ended_at, "ended_by": freeze.ended_by, "ends_at": freeze.end,
    }  # fmt: skip


def _changed(connection: Connection, now: Instant, by: AuditedChange, before: Freeze | None, after: Freeze) -> Freeze:
    raise_version(connection)
    record(connection, now, by, f"freeze {after.freeze_id}", before and _audited(before), _audited(after))
    return after


def _audited(freeze: Freeze) -> Mapping[str, Any]:
    shown = {name: value for name, value in _values(freeze).items() if name != "ends_at"}
    times = ("starts_at", "until", "created_at", "ended_at")
    return {name: format_instant(v) if name in times and v is not None else v for name, v in shown.items()}
