"""Port to what calendars are refreshed from: each subscribed file as it was last taken, and how its refreshing goes.

An implementation promises that files are stored by the edit of their calendar only
(`ports/calendars.py: CalendarStore.edit`). None outlives its calendar.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from itinerary.protocol.instants import DAY, HOUR, Duration, Instant
from scheduler_service.core.calendars.stored import CalendarContent

OWN: Final = ""
"""The feed that stands for the rules which need no fetch, but are written out ever further."""
REFRESHED_EVERY: Final[Duration] = HOUR
EXTENDED_EVERY: Final[Duration] = DAY


@dataclass(frozen=True, slots=True)
class StoredFeed:
    """One subscribed file: the last copy that was taken, and what came of asking for it.

    `fetched_at`: the last good answer; `good_at`: when the copy was taken; `error` since `failing_since`.
    """

    url: str
    body: bytes = b""
    etag: str | None = None
    last_modified: str | None = None
    fetched_at: Instant | None = None
    good_at: Instant | None = None
    error: str | None = None
    failing_since: Instant | None = None


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The result of refreshing a calendar; `is_new`: it must be stored, or else only noted."""

    content: CalendarContent
    feeds: tuple[StoredFeed, ...]
    is_new: bool


class FeedStore(Protocol):
    """Feeds by calendar and URL."""

    def due(self, limit: int) -> Sequence[str]:
        """Ids of calendars with a feed that is due by the database's clock, longest due first."""

    def feeds_of(self, calendar_id: str, *, with_bodies: bool) -> Mapping[str, StoredFeed]:
        """The feeds of a calendar by their URL; `OWN` is among them if it is written out at all."""

    def note(self, calendar_id: str, feeds: Sequence[StoredFeed]) -> None:
        """Note what came of asking for these feeds, and when they are due again; their copies stay as they are."""

    def failing(self, since: Instant, limit: int) -> Sequence[tuple[str, StoredFeed]]:
        """Feeds that have failed since before `since`, without their copies, with the ids of their calendars."""
