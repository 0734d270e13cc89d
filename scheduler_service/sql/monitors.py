"""Monitors in SQL: each ping under its row's lock, with its consequences and their notice in one transaction.

If we die before the commit, the ping was not answered and its sender tries again. Locks one monitor at a time, so that
no two writers wait for each other in a circle.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog
from sqlalchemy import Connection, delete, func, insert, select, update

from itinerary.protocol.errors import BadValue, BadValues, NotFound
from itinerary.protocol.instants import MINUTE, Duration, Instant, format_instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.monitor_json import definition_of, read_monitor
from scheduler_service.core.monitors import judging
from scheduler_service.core.monitors.model import Monitor, MonitorContent, MonitorPing, MonitorState, PingOutcome
from scheduler_service.core.notifications.notices import Notice
from scheduler_service.core.notifications.topics import Topic
from scheduler_service.ports.monitors import MOST_MONITORS, PINGS_KEPT, MonitorStore
from scheduler_service.ports.stores import Page
from scheduler_service.sql import monitor_calendars, notices
from scheduler_service.sql.audit import record
from scheduler_service.sql.column_types import LAST_INSTANT
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.monitor_tables import monitor_pings, monitors
from scheduler_service.sql.paging import page_of, read_cursor

log = structlog.get_logger(__name__)

_JUDGED_AGAIN: Final[Duration] = MINUTE
_M: Final = monitors.c
_P: Final = monitor_pings.c


class SqlMonitorStore(MonitorStore):
    """MonitorStore on SQLite and PostgreSQL; notes what somebody is notified of."""

    def __init__(self, database: Database, topics: frozenset[Topic] = frozenset()) -> None:
        self._database = database
        self._topics = topics

    def get(self, monitor_id: str) -> Monitor:
        with self._database.read() as connection:
            return monitor_of(_there(monitor_id, _find(connection, monitor_id)))

    def list(self, limit: int, cursor: str | None) -> Page[Monitor]:
        after = "" if cursor is None else read_cursor(cursor, str)[0]
        asked = select(monitors).where(_M.monitor_id > after).order_by(_M.monitor_id).limit(limit + 1)
        with self._database.read() as connection:
            rows = connection.execute(asked).all()
        return page_of(rows, limit, monitor_of, lambda row: [row.monitor_id])

    def pings(self, monitor_id: str, limit: int) -> Sequence[MonitorPing]:
        newest = select(_P.at, _P.outcome, _P.duration).where(_P.monitor_id == monitor_id).order_by(_P.id.desc())
        with self._database.read() as connection:
            rows = connection.execute(newest.limit(limit)).all()
        return [MonitorPing(at, PingOutcome(outcome), duration) for at, outcome, duration in rows]

    @again_when_busy
    def put(self, monitor_id: str, content: MonitorContent, token: str, *, by: AuditedChange) -> tuple[Monitor, bool]:
        with self._database.write() as connection:
            row, now = _find(connection, monitor_id, locked=True), self._database.read_clock(connection)
            before = None if row is None else monitor_of(row)
            known = None if before is None else before.content
            if before is not None and known is not None and definition_of(known) == definition_of(content):
                return before, False
            monitor_calendars.judge(connection, [("", monitor_id, content)], now, hold=True)
            closed = monitor_calendars.closed_for(connection, content)
            if before is None:
                after = judging.created(monitor_id, closed, now)
                require_room(connection, monitor_id)
                new = {"monitor_id": monitor_id, "token": token, "created_at": now, **_defined(content)}
                connection.execute(insert(monitors).values(**new, **columns_of(after)))
            else:
                after = judging.edited(before, closed, now)
                this = update(monitors).where(_M.monitor_id == monitor_id)
                connection.execute(this.values(**_defined(content), **columns_of(after)))
            record(connection, now, by, monitor_id, None if row is None else row.definition, definition_of(content))
        return after, before is None

    def renew_token(self, monitor_id: str, token: str, *, by: AuditedChange) -> None:
        with self._database.write() as connection:
            _there(monitor_id, _find(connection, monitor_id, locked=True))
            connection.execute(update(monitors).where(_M.monitor_id == monitor_id).values(token=token))
            record(connection, self._database.read_clock(connection), by, monitor_id, None, None)

    def delete(self, monitor_id: str, *, by: AuditedChange) -> None:
        with self._database.write() as connection:
            before = _there(monitor_id, _find(connection, monitor_id, locked=True))
            connection.execute(delete(monitor_pings).where(_P.monitor_id == monitor_id))
            connection.execute(delete(monitors).where(_M.monitor_id == monitor_id))
            now = self._database.read_clock(connection)
            record(connection, now, by, monitor_id, before.definition, None)

    @again_when_busy
    def ping(self, monitor_id: str, token: str, outcome: PingOutcome, duration: Duration | None) -> Monitor | None:
        with self._database.read() as connection:  # anybody may send one: a stranger's must not wait for a lock
            if not _is_of(_find(connection, monitor_id), token):
                return None
        with self._database.write() as connection:
            row = _find(connection, monitor_id, locked=True)
            if not _is_of(row, token):
                return None
            before, now = _closed(connection, monitor_of(row)), self._database.read_clock(connection)
            after = judging.pinged(before, outcome, duration, now)
            self._keep(connection, before, after, now)
            took = None if outcome is PingOutcome.START else after.last_duration
            connection.execute(
                insert(monitor_pings).values(monitor_id=monitor_id, at=now, outcome=outcome.value, duration=took)
            )
            _forget_old(connection, monitor_id)
        return after

    def judge(self, limit: int) -> int:
        with self._database.read() as connection:
            now = self._database.read_clock(connection)
            due = select(_M.monitor_id).where(_M.alert_at <= now).order_by(_M.alert_at).limit(limit)
            found = connection.execute(due).scalars().all()
        return sum(self._judged(monitor_id) for monitor_id in found)

    def counts(self) -> Mapping[MonitorState, int]:
        counted = select(_M.state, func.count()).group_by(_M.state)
        with self._database.read() as connection:
            rows = connection.execute(counted).all()
        return {MonitorState(state): count for state, count in rows}

    def down(self, limit: int) -> Sequence[str]:
        wanted = select(_M.monitor_id).where(_M.state == MonitorState.DOWN.value).order_by(_M.monitor_id).limit(limit)
        with self._database.read() as connection:
            return tuple(connection.execute(wanted).scalars())

    def _judged(self, monitor_id: str) -> bool:
        with self._database.write() as connection:
            row, now = _find(connection, monitor_id, locked=True), self._database.read_clock(connection)
            if row is None or row.alert_at is None or row.alert_at > now:  # pinged, edited or deleted meanwhile
                return False
            before = monitor_of(row)
            if before.content is None:  # judged later, so that many such keep no other from its alarm
                later = update(monitors).where(_M.monitor_id == monitor_id)
                connection.execute(later.values(alert_at=now + _JUDGED_AGAIN))
                return False
            after = judging.missed(_closed(connection, before, before.expected_at))
            self._keep(connection, before, after, now)
        return after.state is MonitorState.DOWN

    def _keep(self, connection: Connection, before: Monitor, after: Monitor, now: Instant) -> None:
        connection.execute(update(monitors).where(_M.monitor_id == before.monitor_id).values(**columns_of(after)))
        is_down, was_down = (one.state is MonitorState.DOWN for one in (after, before))
        topic = Topic.MONITOR_DOWN if is_down else Topic.MONITOR_UP
        if is_down != was_down and topic in self._topics:
            notices.add(connection, [_notice(topic, before, after, now)])


def _notice(topic: Topic, before: Monitor, after: Monitor, now: Instant) -> Notice:
    last, expected = after.last_ping_at, before.expected_at
    if topic is Topic.MONITOR_UP:
        reason = "it was pinged again"
    elif after.last_outcome is PingOutcome.FAIL and last == now:
        reason = "its ping reported a failure"
    else:
        reason = f"no ping came; it was due {'' if expected is None else format_instant(expected)}"
    facts = {"job_id": None, "task": None, "run_id": None, "monitor_id": after.monitor_id, "reason": reason}
    return Notice(topic, after.monitor_id, 1, now, now, facts)


def _find(connection: Connection, monitor_id: str, *, locked: bool = False) -> Any:
    wanted = select(monitors).where(_M.monitor_id == monitor_id)
    return connection.execute(wanted.with_for_update() if locked else wanted).first()


def _closed(connection: Connection, monitor: Monitor, at: Instant | None = None) -> Monitor:
    """Return the monitor with the schedule that its calendars leave it at `at`; the newest ones without it."""
    if monitor.content is None or monitor.content.calendars is None:
        return monitor
    content = monitor_calendars.closed_for(connection, monitor.content, LAST_INSTANT if at is None else at)
    return replace(monitor, content=content)


def _is_of(row: Any, token: str) -> bool:
    return row is not None and hmac.compare_digest(row.token, token)


def _there(monitor_id: str, row: Any) -> Any:
    if row is None:
        raise NotFound(f"no monitor {monitor_id}")
    return row


def require_room(connection: Connection, monitor_id: str, added: int = 1) -> None:
    """Raise BadValue if there is no room for so many more monitors."""
    if connection.execute(select(func.count()).select_from(monitors)).scalar_one() + added > MOST_MONITORS:
        raise BadValue("monitor_id", monitor_id, f"{MOST_MONITORS:,} monitors are the most; delete one")


def _forget_old(connection: Connection, monitor_id: str) -> None:
    kept = select(_P.id).where(_P.monitor_id == monitor_id).order_by(_P.id.desc()).offset(PINGS_KEPT).limit(1)
    last = connection.execute(kept).scalar_one_or_none()
    if last is not None:
        connection.execute(delete(monitor_pings).where(_P.monitor_id == monitor_id, _P.id <= last))


def _defined(content: MonitorContent) -> dict[str, Any]:
    return {"definition": definition_of(content)}


def columns_of(monitor: Monitor) -> dict[str, Any]:
    """Return its columns but the definition, which only an edit writes: a newer release's stays as it is."""
    outcome = monitor.last_outcome
    return {
        "version": monitor.version, "state": monitor.state.value, "updated_at": monitor.updated_at,
        "expected_at": monitor.expected_at, "alert_at": monitor.alert_at, "started_at": monitor.started_at,
        "last_ping_at": monitor.last_ping_at, "last_outcome": None if outcome is None else outcome.value,
        "last_duration": monitor.last_duration,
    }  # fmt: skip


def monitor_of(row: Any) -> Monitor:
    """Return the monitor of a row, without its definition if that cannot be read."""
    content: MonitorContent | None = None
    try:
        content = read_monitor(row.monitor_id, row.definition, row.created_at)
    except BadValues as exc:
        log.warning("a monitor cannot be read", monitor_id=row.monitor_id, reason=str(exc))
    return Monitor(
        row.monitor_id, row.version, content, MonitorState(row.state), row.created_at, row.updated_at,
        row.expected_at, row.alert_at, row.started_at, row.last_ping_at,
        None if row.last_outcome is None else PingOutcome(row.last_outcome), row.last_duration, row.source,
    )  # fmt: skip
