"""Builds the thread that keeps calendars up to date, from the settings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from scheduler_service.config.settings import Settings
from scheduler_service.core.notifications.notices import Notice
from scheduler_service.core.notifications.topics import Topic
from scheduler_service.feeds.expanding import refresh
from scheduler_service.feeds.fetching import reach_of
from scheduler_service.loops.calendar_refresher import CalendarRefresher
from scheduler_service.sql.calendar_feeds import SqlFeedStore
from scheduler_service.sql.calendars import SqlCalendarStore
from scheduler_service.sql.database import Database
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.outbox import SqlOutbox

_STOP_SECONDS: Final = 2.0


@contextmanager
def calendars_refreshed(
    settings: Settings, database: Database, holder: str, show: Callable[[int], None]
) -> Iterator[None]:
    """Keep calendars up to date while `holder` leads, within the block."""
    refresher = refresher_of(settings, database, holder, show)
    refresher.start()
    try:
        yield
    finally:
        refresher.stop(_STOP_SECONDS)


def refresher_of(settings: Settings, database: Database, holder: str, show: Callable[[int], None]) -> CalendarRefresher:
    """Return the thread, with a connection of its own."""
    beside = database.beside()
    outbox = SqlOutbox(beside)

    def report(found: list[Notice]) -> None:
        if Topic.CALENDAR_STALE in settings.notify_topics:
            outbox.hold(Topic.CALENDAR_STALE, found)

    refreshed = partial(refresh, reach=reach_of(settings.notify_allow_private))
    stores = SqlCalendarStore(beside), SqlFeedStore(beside)
    return CalendarRefresher(SqlLeaseStore(beside), *stores, refreshed, report, show, holder)
