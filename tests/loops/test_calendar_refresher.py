"""The refresher of calendars over real databases: who works, what is stored, what a kill leaves, what is reported."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
from sqlalchemy import event, update

from itinerary.protocol.errors import BadValue, StoreUnavailable
from itinerary.protocol.instants import DAY, HOUR, Instant
from scheduler_service.bootstrap.calendars import refresher_of
from scheduler_service.cli.calendar_checks import check_calendars
from scheduler_service.cli.findings import NotWell
from scheduler_service.config.settings import Settings
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.calendars.model import Compiled, NamedDays
from scheduler_service.core.calendars.stored import CalendarContent, StoredCalendar
from scheduler_service.core.notifications.notices import Notice
from scheduler_service.feeds.expanding import expand
from scheduler_service.feeds.fetching import reach_of
from scheduler_service.loops.calendar_refresher import CalendarRefresher
from scheduler_service.ports.calendar_feeds import OWN, Refreshed, StoredFeed
from scheduler_service.ports.records import AuditFilter
from scheduler_service.sql.audit import SqlAuditLog
from scheduler_service.sql.calendar_feeds import SqlFeedStore
from scheduler_service.sql.calendars import SqlCalendarStore
from scheduler_service.sql.control_tables import calendar_feeds
from scheduler_service.sql.database import Database
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.outbox import SqlOutbox
from tests.support.http_server import LoopbackServer, QuietHandler

BY = AuditedChange("olga", "operator", "calendar.put")
FIRST = CalendarContent({"rules": []}, Compiled("UTC", (NamedDays(21_000, 21_000),)))
SECOND_ONE = replace(FIRST, compiled=Compiled("UTC", (NamedDays(21_001, 21_001),)))
FILE = StoredFeed("https://example.org/a", b"one")


@dataclass
class Refreshing:
    """A refresher that answers by `answers`: what a refresh of this calendar comes to."""

    database: Database
    answers: dict[str, Any] = field(default_factory=dict)
    refreshed: list[str] = field(default_factory=list)
    reported: list[list[Notice]] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.calendars = SqlCalendarStore(self.database)
        self.feeds = SqlFeedStore(self.database)
        self.leases = SqlLeaseStore(self.database)
        self.refresher = self.refresher_of("me")

    def refresher_of(self, holder: str) -> CalendarRefresher:
        return CalendarRefresher(
            self.leases, self.calendars, self.feeds, self.refresh, self.reported.append, self.shown.append, holder
        )

    def refresh(self, calendar: StoredCalendar, feeds: Mapping[str, StoredFeed], now: Instant) -> Refreshed:
        self.refreshed.append(calendar.calendar_id)
        answer = self.answers[calendar.calendar_id]
        if isinstance(answer, Exception):
            raise answer
        result: Refreshed = answer() if callable(answer) else answer
        return result

    def lead(self, holder: str = "me") -> None:
        assert self.leases.acquire(0, holder, HOUR) is not None

    def save(self, calendar_id: str, *feeds: StoredFeed) -> None:
        self.calendars.edit(calendar_id, lambda _: FIRST, by=BY, feeds=feeds or (StoredFeed(OWN), FILE))
        self.make_due()

    def make_due(self) -> None:
        with self.database.write() as connection:
            connection.execute(update(calendar_feeds).values(next_at=0))


@pytest.fixture
def keeping(database_url: str) -> Iterator[Refreshing]:
    with closing(Database(database_url, pool_size=2)) as database:
        yield Refreshing(database)


def test_only_the_leader_keeps_them(keeping: Refreshing) -> None:
    keeping.save("de")
    keeping.answers["de"] = Refreshed(FIRST, (StoredFeed(OWN), FILE), False)
    keeping.refresher.round()
    assert keeping.refreshed == []
    keeping.lead("another")
    keeping.refresher.round()
    assert keeping.refreshed == []
    assert keeping.shown == [0, 0]
    keeping.refresher_of("another").round()
    assert keeping.refreshed == ["de"]


def test_another_set_is_a_version_by_system_and_the_same_is_none(keeping: Refreshing) -> None:
    keeping.lead()
    keeping.save("de")
    keeping.answers["de"] = Refreshed(FIRST, (StoredFeed(OWN), replace(FILE, etag="two")), False)
    keeping.refresher.round()
    assert keeping.calendars.get("de").version == 1
    assert keeping.feeds.feeds_of("de", with_bodies=True)[FILE.url] == replace(FILE, etag="two")
    keeping.refresher.round()
    assert keeping.refreshed == ["de"], "it is not due before an hour has passed"
    keeping.make_due()
    taken = replace(FILE, body=b"two")
    keeping.answers["de"] = Refreshed(SECOND_ONE, (StoredFeed(OWN), taken), True)
    keeping.refresher.round()
    assert (keeping.calendars.get("de").version, keeping.calendars.get("de").content) == (2, SECOND_ONE)
    assert keeping.feeds.feeds_of("de", with_bodies=True)[FILE.url] == taken
    (entry, *_) = SqlAuditLog(keeping.database).list(AuditFilter(), 10, None).items
    assert (entry.actor, entry.action, entry.subject) == ("system", "calendar.refresh", "de")


def test_what_a_user_changed_meanwhile_is_left_alone(keeping: Refreshing) -> None:
    keeping.lead()
    keeping.save("de")

    def edited() -> Refreshed:
        keeping.calendars.edit("de", lambda _: SECOND_ONE, by=BY, feeds=[replace(FILE, body=b"theirs")])
        return Refreshed(replace(FIRST, compiled=Compiled("UTC")), (FILE,), True)

    keeping.answers["de"] = edited
    keeping.refresher.round()
    assert (keeping.calendars.get("de").version, keeping.calendars.get("de").content) == (2, SECOND_ONE)
    assert keeping.feeds.feeds_of("de", with_bodies=True)[FILE.url].body == b"theirs"

    def deleted() -> Refreshed:
        keeping.calendars.delete("de", by=BY)
        return Refreshed(FIRST, (FILE,), True)

    keeping.make_due()
    keeping.answers["de"] = deleted
    keeping.refresher.round()
    assert keeping.feeds.feeds_of("de", with_bodies=False) == {}


@pytest.mark.parametrize("error", [BadValue("rules.0.holidays", "XX", "no more"), KeyError("a fault of ours")])
def test_one_that_fails_keeps_no_other_waiting_and_is_not_due_at_once(keeping: Refreshing, error: Exception) -> None:
    keeping.lead()
    keeping.save("at")
    keeping.save("de")
    keeping.answers |= {"at": error, "de": Refreshed(FIRST, (StoredFeed(OWN), FILE), False)}
    keeping.refresher.round()
    assert keeping.refreshed == ["at", "de"]
    keeping.refresher.round()
    assert keeping.refreshed == ["at", "de"]
    own = keeping.feeds.feeds_of("at", with_bodies=True)[OWN]
    assert own.failing_since is not None
    assert keeping.feeds.feeds_of("at", with_bodies=True)[FILE.url] == FILE


def test_what_fails_is_shown_at_once_and_reported_when_it_lasts(keeping: Refreshing) -> None:
    keeping.lead()
    now = keeping.leases.peek(0).now  # type: ignore[union-attr]
    failed = replace(FILE, error="the server answered 500", failing_since=now)
    keeping.save("de", failed)
    keeping.save("at", replace(failed, failing_since=now - 4 * HOUR), replace(failed, url=OWN, failing_since=now - DAY))
    keeping.answers |= dict.fromkeys(["de", "at"], BadValue("ics", None, "no"))
    keeping.refresher.round()
    assert keeping.shown == [3]
    (notices,) = keeping.reported
    assert [(one.subject, one.facts["reason"]) for one in notices] == [("at", "the server answered 500")]


@pytest.mark.parametrize("at", ["calendar_versions", "calendar_feeds", "audit_log", "calendars"])
def test_a_kill_between_two_statements_leaves_it_due_and_whole(keeping: Refreshing, at: str) -> None:
    keeping.lead()
    keeping.save("de")
    keeping.answers["de"] = Refreshed(SECOND_ONE, (StoredFeed(OWN), replace(FILE, body=b"two")), True)

    def kill(connection: Any, cursor: Any, statement: str, *args: Any) -> None:
        if statement.startswith((f"INSERT INTO {at}", f"UPDATE {at}")):
            raise StoreUnavailable("killed here")

    event.listen(keeping.database.engine, "before_cursor_execute", kill)
    with pytest.raises(StoreUnavailable):
        keeping.refresher.round()
    event.remove(keeping.database.engine, "before_cursor_execute", kill)
    assert keeping.calendars.get("de").version == 1
    assert keeping.feeds.feeds_of("de", with_bodies=True)[FILE.url] == FILE
    assert keeping.feeds.due(10) == ["de"]
    keeping.refresher.round()
    assert keeping.calendars.get("de").version == 2


@pytest.mark.slow
def test_the_leader_s_own_takes_what_a_server_changed(sqlite_url: str) -> None:
    def ics(*days: int) -> bytes:
        events = "".join(f"BEGIN:VEVENT\nUID:{day}\nDTSTART;VALUE=DATE:202712{day}\nEND:VEVENT\n" for day in days)
        return f"BEGIN:VCALENDAR\n{events}END:VCALENDAR\n".encode()

    class Handler(QuietHandler):
        files: ClassVar[list[bytes]] = [ics(24, 25), ics(24, 25, 26), b""]

        def do_GET(self) -> None:
            body = self.files.pop(0)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    shown: list[int] = []
    settings = Settings(database_url=sqlite_url, notify_allow_private=True)
    with closing(Database(sqlite_url)) as database, LoopbackServer(Handler) as server:
        keeping = Refreshing(database)
        keeping.lead()
        now = SqlOutbox(database).now()
        saved = expand({"rules": [{"ics": {"url": f"{server.address}/a"}}]}, {}, now, reach_of(allow_private=True))
        keeping.calendars.edit("de", lambda _: saved.content, by=BY, feeds=saved.feeds)
        mine = refresher_of(settings, database, "me", shown.append)
        assert check_calendars(database) == "every file of a calendar was taken at the last try"
        for version, days, failing in ((2, 3, 0), (2, 3, 1)):
            keeping.make_due()
            mine.round()
            calendar = keeping.calendars.get("de")
            assert (calendar.version, len(calendar.content.compiled.days), shown[-1]) == (version, days, failing)
        with pytest.raises(NotWell, match=r"^de: is no complete iCalendar file"):
            check_calendars(database)
