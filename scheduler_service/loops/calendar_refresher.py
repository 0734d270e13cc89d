"""The thread that keeps calendars up to date: it fetches their files again, and writes out the years to come.

It works while its process leads, beside the loop, which never waits for it. Each calendar is one transaction: if we die
before it, the calendar is due again; after it, nothing is left to do. Two of them, for the moment of a takeover, do the
same and change nothing twice. Promises that a failure stops no leader, and that no calendar keeps another one waiting.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from itinerary.protocol.errors import ItineraryError, NotFound, StoreUnavailable
from itinerary.protocol.instants import HOUR, Duration, Instant
from scheduler_service.core.audit import SYSTEM
from scheduler_service.core.calendars.stored import CalendarContent, StoredCalendar
from scheduler_service.core.notifications.notices import Notice
from scheduler_service.core.notifications.topics import Topic
from scheduler_service.loops.repeating import Repeating
from scheduler_service.ports.calendar_feeds import OWN, FeedStore, Refreshed, StoredFeed
from scheduler_service.ports.calendars import CalendarStore
from scheduler_service.ports.leases import LeaseStore, LeaseView

log = structlog.get_logger(__name__)

EVERY_SECONDS: Final = 30.0
REPORTED_AFTER: Final[Duration] = 3 * HOUR
"""A server may be away for a while: only what lasts is an operator's matter."""
_A_ROUND: Final = 20
_MOST_REPORTED: Final = 1_000
_SHARD: Final = 0

Refresh = Callable[[StoredCalendar, Mapping[str, StoredFeed], Instant], Refreshed]


class _Outdated(Exception):
    """The calendar was changed while it was refreshed."""


class CalendarRefresher(Repeating):
    """One process's refresher; `report` is told of feeds that fail for long, `show` of how many fail now."""

    def __init__(
        self,
        leases: LeaseStore,
        calendars: CalendarStore,
        feeds: FeedStore,
        refresh: Refresh,
        report: Callable[[list[Notice]], None],
        show: Callable[[int], None],
        holder: str,
    ) -> None:
        super().__init__("calendar-refresher", on_crash=_log_end)
        self._leases = leases
        self._calendars = calendars
        self._feeds = feeds
        self._refresh = refresh
        self._report = report
        self._show = show
        self._holder = holder

    def _once(self) -> None:
        try:
            self.round()
        except StoreUnavailable as exc:
            log.warning("calendars wait, the database is away", error=str(exc))
        except Exception:  # whatever it is, runs continue
            log.exception("calendars were not refreshed")
        self._stopped.wait(EVERY_SECONDS)

    def round(self) -> None:
        """Refresh the calendars that are due, while this process leads."""
        lease = self._lead()
        if lease is None:
            self._show(0)  # the leader's to show
            return
        for calendar_id in self._feeds.due(_A_ROUND):
            lease = self._lead()
            if lease is None or self._stopped.is_set():
                return
            self._keep(calendar_id, lease.now)
        failing = self._feeds.failing(lease.now, _MOST_REPORTED)
        self._show(len(failing))
        lasting = {named: _notice(named, feed, lease.now) for named, feed in failing if _lasts(feed, lease.now)}
        self._report(list(lasting.values()))

    def _lead(self) -> LeaseView | None:
        lease = self._leases.peek(_SHARD)
        return lease if lease is not None and lease.live and lease.holder == self._holder else None

    def _keep(self, calendar_id: str, now: Instant) -> None:
        try:
            calendar = self._calendars.get(calendar_id)
        except NotFound:
            return  # deleted at this moment, and its feeds with it
        feeds = self._feeds.feeds_of(calendar_id, with_bodies=True)
        try:
            self._store(calendar, feeds, self._refresh(calendar, feeds, now))
        except StoreUnavailable:
            raise
        except _Outdated:
            log.info("calendar changed while it was refreshed", calendar_id=calendar_id)
        except Exception as exc:
            if not isinstance(exc, ItineraryError):
                log.exception("calendar refresh failed unforeseen", calendar_id=calendar_id)
            own = feeds.get(OWN, StoredFeed(OWN))
            since = now if own.failing_since is None else own.failing_since
            text = str(exc) if isinstance(exc, ItineraryError) else type(exc).__name__
            # All of them: what is not noted would be due again at once, for ever.
            self._feeds.note(calendar_id, [*feeds.values(), replace(own, error=text, failing_since=since)])

    def _store(self, calendar: StoredCalendar, before: Mapping[str, StoredFeed], after: Refreshed) -> None:
        for feed in after.feeds:
            if feed.error is not None and before.get(feed.url, feed).failing_since is None:
                log.warning("calendar not refreshed", calendar_id=calendar.calendar_id, reason=feed.error)
        if not after.is_new:
            self._feeds.note(calendar.calendar_id, after.feeds)
            return

        def change(present: StoredCalendar | None) -> CalendarContent:
            if present is None or present.content != calendar.content:
                raise _Outdated
            return after.content

        by = SYSTEM.audited_change("calendar.refresh")
        stored = self._calendars.edit(calendar.calendar_id, change, by=by, feeds=after.feeds)
        if stored.version != calendar.version:
            log.info("calendar refreshed", calendar_id=calendar.calendar_id, version=stored.version)


def _lasts(feed: StoredFeed, now: Instant) -> bool:
    return feed.failing_since is not None and now - feed.failing_since >= REPORTED_AFTER


def _notice(calendar_id: str, feed: StoredFeed, now: Instant) -> Notice:
    return Notice(Topic.CALENDAR_STALE, calendar_id, 1, feed.failing_since or now, now, {"reason": feed.error})


def _log_end(cause: BaseException) -> None:
    log.error("calendars are not refreshed any more", error=repr(cause))
