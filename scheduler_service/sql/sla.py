"""SLAs in SQL: runs with `end_by` are judged once, with their notices in the same transaction.

Nothing is read of runs without an SLA: a partial index holds those that wait for their judgement. If we die before the
commit they are judged again; after it they are in that index no more. Rows that another writer has locked wait for the
next call, so that no leader's write waits for more than one short transaction.
"""

from typing import Any, Final

from sqlalchemy import Connection, and_, case, func, not_, select, true, update

from itinerary.protocol.instants import Duration, Instant, format_instant
from scheduler_service.core.notifications.notices import Named, Notice, coalesced, run_notice
from scheduler_service.core.notifications.topics import Topic
from scheduler_service.ports.sla import Judged, SlaMiss, SlaStore
from scheduler_service.sql import notices
from scheduler_service.sql.database import Database
from scheduler_service.sql.notice_tables import HAS_SLA, MISSED_SLA
from scheduler_service.sql.tables import IS_FINAL, runs

_R: Final = runs.c
_IS_MISSED: Final = case((not_(IS_FINAL), true()), else_=func.coalesce(_R.finished_at > _R.end_by, true()))
_JUDGED: Final = (_R.run_id, _R.job_id, _R.task, _R.queue, _R.end_by, _R.state, _R.sla_missed)


class SqlSlaStore(SlaStore):
    """SlaStore on SQLite and PostgreSQL; notes what was missed where somebody is notified of it."""

    def __init__(self, database: Database, topics: frozenset[Topic] = frozenset()) -> None:
        self._database = database
        self._topics = topics

    def judge(self, reported: Duration, limit: int) -> Judged:
        with self._database.read() as connection:
            # As a value: PostgreSQL seeks no index by a clock that moves.
            due = and_(HAS_SLA, _R.end_by <= self._database.read_clock(connection) - reported)
            keys = select(_R.id).where(due).order_by(_R.end_by, _R.id).limit(limit)
            if connection.execute(keys.limit(1)).first() is None:
                return Judged()
        with self._database.write() as connection:
            ids = list(connection.execute(keys.with_for_update(skip_locked=True)).scalars())
            judged = update(runs).where(_R.id.in_(ids)).values(sla_missed=_IS_MISSED).returning(*_JUDGED)
            rows = connection.execute(judged).all()
            missed = [_notice(row) for row in rows if row.sla_missed]
            if Topic.SLA_MISSED in self._topics:
                notices.add(connection, coalesced(sorted(missed, key=lambda notice: notice.last_at)))
        return Judged(len(rows) - len(missed), len(missed))


def sla_misses(connection: Connection, since: Instant, limit: int) -> list[SlaMiss]:
    """Return the runs that had to end at or after `since` and did not, the latest first."""
    found = (
        select(_R.run_id, _R.job_id, _R.end_by).where(MISSED_SLA, _R.end_by >= since)
        .order_by(_R.end_by.desc(), _R.id.desc()).limit(limit)
    )  # fmt: skip
    return [SlaMiss(*row) for row in connection.execute(found)]


def _notice(row: Any) -> Notice:
    run = Named(row.run_id, row.job_id, row.task, row.queue)
    return run_notice(Topic.SLA_MISSED, run, row.end_by, end_by=format_instant(row.end_by), state=row.state)
