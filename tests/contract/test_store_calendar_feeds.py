"""FeedStore: the files that calendars are written out from, stored by the edit of their calendar."""

from dataclasses import replace

import pytest
from sqlalchemy import select, update

from itinerary.protocol.instants import HOUR, MINUTE, Duration
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.calendars.model import Compiled, NamedDays
from scheduler_service.core.calendars.stored import CalendarContent, StoredCalendar
from scheduler_service.ports.calendar_feeds import OWN, StoredFeed
from scheduler_service.sql.calendar_feeds import SqlFeedStore
from scheduler_service.sql.control_tables import calendar_feeds
from tests.support.store_bed import StoreBed

BY = AuditedChange("olga", "operator", "calendar.put")
CONTENT = CalendarContent({"rules": []}, Compiled("UTC", (NamedDays(1, 1),)))
A = StoredFeed("https://a/", b"x" * 1_000_000, '"one"', None, 10 * HOUR, 9 * HOUR)
B = StoredFeed(OWN)


@pytest.fixture
def feeds(sql_stores: StoreBed) -> SqlFeedStore:
    assert sql_stores.database is not None
    return SqlFeedStore(sql_stores.database)


def pass_time(bed: StoreBed, duration: Duration) -> None:
    """Let what is due be due so much sooner."""
    assert bed.database is not None
    feeds = calendar_feeds.c
    with bed.database.write() as connection:
        for row in connection.execute(select(feeds.calendar_id, feeds.url, feeds.next_at)).all():
            this = (feeds.calendar_id == row.calendar_id, feeds.url == row.url)
            connection.execute(update(calendar_feeds).where(*this).values(next_at=row.next_at - duration))


def test_an_edit_keeps_exactly_the_feeds_that_it_names(sql_stores: StoreBed, feeds: SqlFeedStore) -> None:
    sql_stores.calendars.edit("de", lambda _: CONTENT, by=BY, feeds=[A, B])
    assert feeds.feeds_of("de", with_bodies=True) == {A.url: A, OWN: B}
    assert feeds.feeds_of("de", with_bodies=False) == {A.url: replace(A, body=b""), OWN: B}
    sql_stores.calendars.edit("de", lambda _: CONTENT, by=BY, feeds=[replace(A, etag='"two"')])
    assert feeds.feeds_of("de", with_bodies=True) == {A.url: replace(A, etag='"two"')}, "though the set is the same"
    sql_stores.calendars.edit("de", lambda _: CONTENT, by=BY)
    assert feeds.feeds_of("de", with_bodies=True) == {}


def test_an_edit_that_is_refused_keeps_the_feeds_as_they_were(sql_stores: StoreBed, feeds: SqlFeedStore) -> None:
    sql_stores.calendars.edit("de", lambda _: CONTENT, by=BY, feeds=[A])

    def refuse(before: StoredCalendar | None) -> CalendarContent:
        raise KeyError("outdated")

    with pytest.raises(KeyError):
        sql_stores.calendars.edit("de", refuse, by=BY, feeds=[B])
    assert [*feeds.feeds_of("de", with_bodies=False)] == [A.url]


def test_none_outlives_its_calendar(sql_stores: StoreBed, feeds: SqlFeedStore) -> None:
    sql_stores.calendars.edit("de", lambda _: CONTENT, by=BY, feeds=[A])
    sql_stores.calendars.delete("de", by=BY)
    feeds.note("de", [A])
    assert feeds.feeds_of("de", with_bodies=False) == {}


def test_each_is_due_again_after_its_time_and_notes_leave_its_copy(sql_stores: StoreBed, feeds: SqlFeedStore) -> None:
    sql_stores.calendars.edit("de", lambda _: CONTENT, by=BY, feeds=[A, B])
    sql_stores.calendars.edit("at", lambda _: CONTENT, by=BY, feeds=[B])
    assert feeds.due(10) == []
    pass_time(sql_stores, HOUR + MINUTE)
    assert feeds.due(10) == ["de"]
    failed = replace(A, body=b"", error="the server answered 500", failing_since=11 * HOUR)
    feeds.note("de", [failed])
    assert feeds.due(10) == []
    assert feeds.feeds_of("de", with_bodies=True)[A.url] == replace(failed, body=A.body)
    assert feeds.failing(11 * HOUR - 1, 10) == []
    assert feeds.failing(11 * HOUR, 10) == [("de", failed)]
    feeds.note("de", [replace(A, body=b"")])
    assert feeds.failing(99 * HOUR, 10) == []
    pass_time(sql_stores, 24 * HOUR)
    assert feeds.due(10) == ["de", "at"]
    assert feeds.due(1) == ["de"]
