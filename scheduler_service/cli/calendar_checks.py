"""A check for files of calendars that cannot be taken: their calendars stay as they were."""

from typing import Final

from scheduler_service.cli.findings import NotWell
from scheduler_service.sql.calendar_feeds import SqlFeedStore
from scheduler_service.sql.database import Database

_SHOWN: Final = 5


def check_calendars(database: Database) -> str:
    """Say that every file was taken at its last try; NotWell names calendars of which one was not, and why."""
    with database.read() as connection:
        now = database.read_clock(connection)
    failing = SqlFeedStore(database).failing(now, _SHOWN + 1)
    if failing:
        named = "; ".join(f"{calendar_id}: {feed.error}" for calendar_id, feed in failing[:_SHOWN])
        raise NotWell(f"{named}; and more" if len(failing) > _SHOWN else named)
    return "every file of a calendar was taken at the last try"
