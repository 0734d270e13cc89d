"""Port to the named calendars as users define them, and to their versions.

An implementation promises that another set of a used calendar holds from 30 s after its commit on, by the database's
clock. So no run that is planned already is touched. If `by` names the actor, the same transaction records the change in
the audit log.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.calendars.model import CalendarVersion
from scheduler_service.core.calendars.stored import CalendarContent, PastVersion, StoredCalendar
from scheduler_service.ports.calendar_feeds import StoredFeed
from scheduler_service.ports.stores import Page

MOST_CALENDARS: Final = 1_000
HOLDS_AFTER: Final[Duration] = 30 * SECOND
"""More than the leader plans ahead, with time to learn of the edit and to build its index."""


class CalendarStore(Protocol):
    """Calendars by id. Changes raise Conflict while a leader leads that knows no calendars."""

    def get(self, calendar_id: str) -> StoredCalendar:
        """The calendar; NotFound."""

    def list(self, limit: int, cursor: str | None) -> Page[StoredCalendar]:
        """Calendars by id."""

    def edit(
        self,
        calendar_id: str,
        change: Callable[[StoredCalendar | None], CalendarContent],
        *,
        by: AuditedChange,
        feeds: Sequence[StoredFeed] = (),
    ) -> StoredCalendar:
        """Store what `change` makes of the present calendar, None if there is none; an equal one changes nothing.

        `feeds` is all that the calendar is refreshed from, even where nothing else changes. A new version only where
        the set differs. BadValue for one calendar too many, Conflict where a job that uses the calendar could not be
        saved with the new set.
        """

    def delete(self, calendar_id: str, *, by: AuditedChange) -> None:
        """Delete the calendar; NotFound, or Conflict while a job or monitor names it. Its versions stay as history."""

    def versions(self, calendar_id: str, limit: int, cursor: str | None) -> Page[PastVersion]:
        """The versions, the newest first, of a deleted calendar too; NotFound if there never was any."""

    def versions_of(
        self, calendar_ids: Sequence[str], since: Instant | None
    ) -> Mapping[str, tuple[CalendarVersion, ...]]:
        """The versions that hold at or after `since`, or all, ascending; ids without any are left out."""

    def jobs_using(self, calendar_id: str, limit: int, after: str = "") -> Sequence[str]:
        """Ids of current jobs that name the calendar, in order, behind `after`."""

    def monitors_using(self, calendar_id: str, limit: int, after: str = "") -> Sequence[str]:
        """Ids of monitors that name the calendar, in order, behind `after`."""
