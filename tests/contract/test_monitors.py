"""Monitors in the stores: pings judged by the database's clock, each consequence noted once, histories bounded."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update

from itinerary.protocol.errors import BadValues, Conflict, NotFound
from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.calendars.model import Compiled, NamedDays
from scheduler_service.core.calendars.stored import CalendarContent
from scheduler_service.core.contract.monitor_json import read_monitor
from scheduler_service.core.monitors.model import MonitorContent, MonitorState, PingOutcome
from scheduler_service.core.notifications.topics import TOPICS
from scheduler_service.sql import monitors as sql_monitors
from scheduler_service.sql.monitor_tables import monitor_pings, monitors
from scheduler_service.sql.monitors import SqlMonitorStore
from scheduler_service.sql.notice_tables import notices
from tests.support.store_bed import StoreBed

BY = AuditedChange("olga", "operator", "monitor.put")
SUCCESS, FAIL = PingOutcome.SUCCESS, PingOutcome.FAIL


@pytest.fixture
def bed(sql_stores: StoreBed) -> StoreBed:
    return sql_stores


@pytest.fixture
def store(bed: StoreBed) -> SqlMonitorStore:
    return SqlMonitorStore(bed.by_role["api"], TOPICS)


def content(**more: Any) -> MonitorContent:
    return read_monitor("backup", {"schedule": {"kind": "interval", "every": "1h"}, **more}, 0)


def overdue(bed: StoreBed) -> None:
    """The time of every ping and its grace are over."""
    assert bed.database is not None
    with bed.database.write() as connection:
        ago = bed.database.read_clock(connection) - SECOND
        connection.execute(update(monitors).where(monitors.c.alert_at.is_not(None)).values(alert_at=ago))


def judge(bed: StoreBed) -> int:
    """As the leader does."""
    return SqlMonitorStore(bed.by_role["leader"], TOPICS).judge(10)


def noted(bed: StoreBed) -> dict[str, int]:
    assert bed.database is not None
    with bed.database.read() as connection:
        return {row.topic: row._mapping["count"] for row in connection.execute(select(notices))}


def test_it_goes_down_once_without_a_ping_and_comes_back_once_with_one(bed: StoreBed, store: SqlMonitorStore) -> None:
    new, is_new = store.put("backup", content(), "secret", by=BY)
    assert (is_new, new.state, judge(bed)) == (True, MonitorState.NEW, 0)
    overdue(bed)
    assert [judge(bed), judge(bed)] == [1, 0]
    assert (store.get("backup").state, store.down(10), noted(bed)) == (
        MonitorState.DOWN,
        ("backup",),
        {"monitor.down": 1},
    )
    for _ in range(2):
        assert store.ping("backup", "secret", SUCCESS, None) is not None
    assert store.get("backup").state is MonitorState.UP
    assert noted(bed) == {"monitor.down": 1, "monitor.up": 1}
    assert store.counts() == {MonitorState.UP: 1}
    assert store.ping("backup", "secret", FAIL, 5 * SECOND) is not None
    assert noted(bed) == {"monitor.down": 2, "monitor.up": 1}


def test_pings_that_came_while_nobody_led_raise_no_alarm(bed: StoreBed, store: SqlMonitorStore) -> None:
    store.put("backup", content(), "secret", by=BY)
    overdue(bed)
    # The leader is away; the API takes the ping. Then a leader looks.
    assert store.ping("backup", "secret", SUCCESS, None) is not None
    assert (judge(bed), noted(bed)) == (0, {})


def test_a_ping_that_comes_while_it_is_judged_wins_or_comes_after_it(
    bed: StoreBed, store: SqlMonitorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("backup", content(), "secret", by=BY)
    overdue(bed)
    find: Callable[..., Any] = sql_monitors._find
    later = store.get("backup").updated_at + HOUR
    came: list[bool] = []

    def late(connection: Any, monitor_id: str, *, locked: bool = False) -> Any:
        if not came:  # between finding it and locking it
            came.append(True)
            connection.execute(update(monitors).values(alert_at=later))
        return find(connection, monitor_id, locked=locked)

    monkeypatch.setattr(sql_monitors, "_find", late)
    assert (judge(bed), noted(bed)) == (0, {})


def test_another_token_and_an_unknown_monitor_are_the_same(bed: StoreBed, store: SqlMonitorStore) -> None:
    store.put("backup", content(), "secret", by=BY)
    assert store.ping("backup", "other", SUCCESS, None) is None
    assert store.ping("nothing", "secret", SUCCESS, None) is None
    store.renew_token("backup", "newer", by=BY)
    assert store.ping("backup", "secret", SUCCESS, None) is None
    assert store.ping("backup", "newer", SUCCESS, None) is not None


def test_a_stranger_s_ping_waits_for_no_lock(bed: StoreBed, store: SqlMonitorStore) -> None:
    store.put("backup", content(), "secret", by=BY)
    assert bed.database is not None
    with bed.database.write() as connection:
        connection.execute(update(monitors).values(updated_at=monitors.c.updated_at))
        assert store.ping("backup", "other", SUCCESS, None) is None


def test_a_monitor_that_cannot_be_read_keeps_no_other_from_its_alarm(bed: StoreBed, store: SqlMonitorStore) -> None:
    for name in ("backup", "other"):
        store.put(name, content(), "secret", by=BY)
    assert bed.database is not None
    newer = {"title": "", "schedule": {"kind": "of a newer release"}}
    with bed.database.write() as connection:
        ago = bed.database.read_clock(connection) - SECOND
        connection.execute(update(monitors).values(alert_at=ago))
        unread = monitors.c.monitor_id == "backup"
        connection.execute(update(monitors).where(unread).values(definition=newer, alert_at=ago - SECOND))
    assert judge(bed) == 1
    assert store.down(10) == ("other",)
    assert [(one.monitor_id, one.content is None) for one in store.list(10, None).items] == [
        ("backup", True),
        ("other", False),
    ]
    store.delete("backup", by=BY)
    assert [monitor.monitor_id for monitor in store.list(10, None).items] == ["other"]


def unread(bed: StoreBed, definition: dict[str, Any]) -> None:
    """As a newer release leaves it, or a host without the zone finds it."""
    assert bed.database is not None
    with bed.database.write() as connection:
        connection.execute(update(monitors).values(definition=definition))


NEWER: dict[str, Any] = {"title": "", "schedule": {"kind": "of a newer release"}}


def test_a_monitor_that_cannot_be_read_takes_its_pings(bed: StoreBed, store: SqlMonitorStore) -> None:
    store.put("backup", content(), "secret", by=BY)
    unread(bed, NEWER)
    taken = store.ping("backup", "secret", FAIL, 5 * SECOND)
    assert taken is not None
    assert (taken.state, taken.last_duration, noted(bed)) == (MonitorState.DOWN, 5 * SECOND, {"monitor.down": 1})
    taken = store.ping("backup", "secret", SUCCESS, None)
    assert taken is not None
    assert (taken.state, taken.expected_at, noted(bed)) == (MonitorState.UP, None, {"monitor.down": 1, "monitor.up": 1})
    assert [ping.outcome for ping in store.pings("backup", 10)] == [SUCCESS, FAIL]
    assert bed.database is not None
    with bed.database.read() as connection:
        assert connection.execute(select(monitors.c.definition)).scalar_one() == NEWER
    # Whoever can read it expects the next ping by its schedule, and raises no alarm for those that came.
    unread(bed, {"title": "", "schedule": {"kind": "interval", "every": "1h"}, "grace": "5m"})
    assert judge(bed) == 0
    again = store.get("backup")
    assert again.last_ping_at is not None
    assert (again.state, again.expected_at) == (MonitorState.UP, again.last_ping_at + HOUR)
    overdue(bed)
    assert (judge(bed), store.down(1)) == (1, ("backup",))


def test_many_that_cannot_be_read_keep_no_other_from_its_alarm(bed: StoreBed, store: SqlMonitorStore) -> None:
    for name in ("a", "b", "z"):
        store.put(name, content(), "secret", by=BY)
    overdue(bed)
    assert bed.database is not None
    with bed.database.write() as connection:
        connection.execute(update(monitors).where(monitors.c.monitor_id != "z").values(definition=NEWER))
    leaders = SqlMonitorStore(bed.by_role["leader"], TOPICS)
    assert [leaders.judge(2), leaders.judge(2)].count(1) == 1
    assert store.down(10) == ("z",)


def test_a_monitor_that_cannot_be_read_is_replaced(bed: StoreBed, store: SqlMonitorStore) -> None:
    store.put("backup", content(), "secret", by=BY)
    unread(bed, NEWER)
    after, is_new = store.put("backup", content(), "other", by=BY)
    assert (after.version, is_new, store.get("backup").content is None) == (2, False, False)
    assert store.ping("backup", "secret", SUCCESS, None) is not None


def test_an_edit_keeps_the_token_raises_the_version_and_an_equal_one_changes_nothing(
    bed: StoreBed, store: SqlMonitorStore
) -> None:
    store.put("backup", content(), "secret", by=BY)
    assert store.put("backup", content(), "other", by=BY)[0].version == 1
    edited, is_new = store.put("backup", content(grace="1m"), "other", by=BY)
    assert (edited.version, is_new) == (2, False)
    assert store.ping("backup", "secret", SUCCESS, None) is not None


def test_only_the_last_pings_are_kept_and_go_with_their_monitor(
    bed: StoreBed, store: SqlMonitorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_monitors, "PINGS_KEPT", 3)
    store.put("backup", content(), "secret", by=BY)
    for number in range(5):
        store.ping("backup", "secret", SUCCESS, number * SECOND)
    assert [ping.duration for ping in store.pings("backup", 10)] == [4 * SECOND, 3 * SECOND, 2 * SECOND]
    store.delete("backup", by=BY)
    with pytest.raises(NotFound):
        store.get("backup")
    assert bed.database is not None
    with bed.database.read() as connection:
        assert connection.execute(select(monitor_pings)).first() is None


def test_they_are_listed_by_id_page_by_page(bed: StoreBed, store: SqlMonitorStore) -> None:
    for name in ("c", "a", "b"):
        store.put(name, content(), name, by=BY)
    first = store.list(2, None)
    last = store.list(2, first.next_cursor)
    assert [one.monitor_id for one in (*first.items, *last.items)] == ["a", "b", "c"]
    assert last.next_cursor is None


def closed_around_today(bed: StoreBed, *, days: int = 1) -> None:
    """A calendar of yesterday to the day after tomorrow, or of no day; it may be nearly midnight."""
    assert bed.database is not None
    with bed.database.read() as connection:
        today = bed.database.read_clock(connection) // DAY
    compiled = Compiled("UTC", days=(NamedDays(today - 1, today + 2),) if days else ())
    content = CalendarContent({"timezone": "UTC", "rules": [], "days": days}, compiled)
    bed.calendars.edit("plant", lambda _: content, by=BY)


def test_calendars_say_when_a_ping_is_expected_and_an_edit_before_the_alarm_counts(
    bed: StoreBed, store: SqlMonitorStore
) -> None:
    named = content(calendars={"exclude": ["plant"]})
    with pytest.raises(BadValues, match="no calendar has this id"):
        store.put("backup", named, "secret", by=BY)
    closed_around_today(bed, days=0)
    new, _ = store.put("backup", named, "secret", by=BY)
    assert new.expected_at == new.created_at + HOUR
    overdue(bed)
    assert judge(bed) == 1
    closed_around_today(bed)
    back = store.ping("backup", "secret", SUCCESS, None)
    assert back is not None
    assert back.expected_at is not None
    assert back.expected_at > back.updated_at + DAY
    overdue(bed)
    assert bed.database is not None
    with bed.database.write() as connection:  # as if it had been expected before the edit
        soon = bed.database.read_clock(connection) + 10 * MINUTE
        connection.execute(update(monitors).values(expected_at=soon))
    assert judge(bed) == 0
    kept = store.get("backup")
    assert (kept.state, kept.expected_at is not None and kept.expected_at > soon + DAY) == (MonitorState.UP, True)


def test_a_calendar_that_a_monitor_names_stays_and_keeps_its_days(bed: StoreBed, store: SqlMonitorStore) -> None:
    closed_around_today(bed)
    nightly = {"schedule": {"kind": "cron", "expr": "0 2 * * *"}}
    store.put("plain", content(), "secret", by=BY)
    moving = {"exclude": ["plant"], "when_excluded": "next_day"}
    store.put("backup", read_monitor("backup", {**nightly, "calendars": moving}, 0), "secret", by=BY)
    with pytest.raises(Conflict, match="named by monitor backup, so it cannot be deleted"):
        bed.calendars.delete("plant", by=BY)
    berlin = CalendarContent({"timezone": "Europe/Berlin", "rules": []}, Compiled("Europe/Berlin"))
    with pytest.raises(Conflict, match="monitor backup, so its timezone cannot change"):
        bed.calendars.edit("plant", lambda _: berlin, by=BY)
    store.put("backup", read_monitor("backup", nightly, 0), "secret", by=BY)
    bed.calendars.delete("plant", by=BY)
