"""FeedStore in SQL: the files that calendars are written out from, compressed, each due again at its own time.

Promises that rows are inserted and deleted only by an edit of their calendar. A note only updates what is there, so
that none outlives its calendar, and never writes a file anew.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, delete, func, insert, select, update

from itinerary.protocol.instants import Instant
from scheduler_service.ports.calendar_feeds import EXTENDED_EVERY, OWN, REFRESHED_EVERY, FeedStore, StoredFeed
from scheduler_service.sql.control_tables import calendar_feeds
from scheduler_service.sql.database import Database, again_when_busy

_F: Final = calendar_feeds.c
_STATE: Final = (_F.url, _F.etag, _F.last_modified, _F.fetched_at, _F.good_at, _F.error, _F.failing_since)


class SqlFeedStore(FeedStore):
    """FeedStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self, limit: int) -> Sequence[str]:
        with self._database.read() as connection:
            now = self._database.read_clock(connection)
            first = func.min(_F.next_at)
            asked = (
                select(_F.calendar_id).where(_F.next_at <= now).group_by(_F.calendar_id).order_by(first).limit(limit)
            )
            return connection.execute(asked).scalars().all()

    def feeds_of(self, calendar_id: str, *, with_bodies: bool) -> Mapping[str, StoredFeed]:
        columns = (*_STATE, _F.body) if with_bodies else _STATE
        with self._database.read() as connection:
            rows = connection.execute(select(*columns).where(_F.calendar_id == calendar_id).order_by(_F.url)).all()
        return {row.url: _feed(row, zlib.decompress(row.body) if with_bodies else b"") for row in rows}

    @again_when_busy
    def note(self, calendar_id: str, feeds: Sequence[StoredFeed]) -> None:
        with self._database.write() as connection:
            now = self._database.read_clock(connection)
            for feed in sorted(feeds, key=lambda each: each.url):
                this = update(calendar_feeds).where(_F.calendar_id == calendar_id, _F.url == feed.url)
                connection.execute(this.values(**_state(feed, now)))

    def failing(self, since: Instant, limit: int) -> Sequence[tuple[str, StoredFeed]]:
        asked = select(_F.calendar_id, *_STATE).where(_F.failing_since <= since).order_by(_F.calendar_id, _F.url)
        with self._database.read() as connection:
            return [(row.calendar_id, _feed(row, b"")) for row in connection.execute(asked.limit(limit)).all()]


def replace_feeds(connection: Connection, calendar_id: str, feeds: Sequence[StoredFeed], now: Instant) -> None:
    """Let the calendar have exactly these feeds, within the transaction of its edit."""
    connection.execute(delete(calendar_feeds).where(_F.calendar_id == calendar_id))
    for feed in feeds:
        row = {"calendar_id": calendar_id, "url": feed.url, "body": zlib.compress(feed.body), **_state(feed, now)}
        connection.execute(insert(calendar_feeds).values(**row))


def _state(feed: StoredFeed, now: Instant) -> dict[str, Any]:
    return {
        "next_at": now + (EXTENDED_EVERY if feed.url == OWN else REFRESHED_EVERY), "etag": feed.etag,
        "last_modified": feed.last_modified, "fetched_at": feed.fetched_at, "good_at": feed.good_at,
        "error": feed.error, "failing_since": feed.failing_since,
    }  # fmt: skip


def _feed(row: Any, body: bytes) -> StoredFeed:
    return StoredFeed(
        row.url, body, row.etag, row.last_modified, row.fetched_at, row.good_at, row.error, row.failing_since
    )
