"""Calendars saved and refreshed from real servers on loopback, written out in real processes."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from typing import Any, ClassVar

import pytest

from itinerary.protocol.errors import BadValues
from itinerary.protocol.instants import DAY, HOUR
from scheduler_service.core.calendars.stored import CalendarContent, StoredCalendar
from scheduler_service.feeds import written_out
from scheduler_service.feeds.expanding import Expanded, expand, refresh
from scheduler_service.feeds.fetching import reach_of
from scheduler_service.ports.calendar_feeds import OWN, Refreshed, StoredFeed
from tests.support.http_server import LoopbackServer, QuietHandler

pytestmark = pytest.mark.slow
NOW = 20_786 * DAY
"""29 November 2026."""
PRIVATE = reach_of(allow_private=True)


def ics(*days: str) -> bytes:
    events = "".join(f"BEGIN:VEVENT\nUID:{day}\nDTSTART;VALUE=DATE:{day}\nEND:VEVENT\n" for day in days)
    return f"BEGIN:VCALENDAR\n{events}END:VCALENDAR\n".encode()


FOUR = ics("20261224", "20261225", "20261226", "20270101")


class Handler(QuietHandler):
    """Answers every path with the present file."""

    status: ClassVar[int] = 200
    body: ClassVar[bytes] = FOUR

    def do_GET(self) -> None:
        tag = f'"{hash(self.body)}"'
        same = self.status == 200 and self.headers.get("If-None-Match") == tag
        self.send_response(304 if same else self.status)
        self.send_header("ETag", tag)
        self.send_header("Content-Length", "0" if same else str(len(self.body)))
        self.end_headers()
        if not same:
            self.wfile.write(self.body)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with LoopbackServer(Handler) as server:
        yield server.address


@pytest.fixture(autouse=True)
def as_it_was() -> None:
    Handler.status, Handler.body = 200, FOUR


def saved(address: str, *rules: dict[str, Any]) -> Expanded:
    return expand({"rules": [{"ics": {"url": f"{address}/a"}}, *rules]}, {}, NOW, PRIVATE)


def refreshed(expanded: Expanded, after: int = HOUR) -> Refreshed:
    feeds = {feed.url: feed for feed in expanded.feeds}
    calendar = StoredCalendar("de", 1, NOW, expanded.content, NOW, NOW)
    return refresh(calendar, feeds, NOW + after, PRIVATE)


def feed_of(feeds: tuple[StoredFeed, ...]) -> StoredFeed:
    (feed,) = (each for each in feeds if each.url != OWN)
    return feed


def days_of(content: CalendarContent) -> list[str]:
    return [str(date(1970, 1, 1) + timedelta(each.first)) for each in content.compiled.days]


def test_a_calendar_is_saved_with_all_that_its_rules_say_now(address: str) -> None:
    more = ({"ics": {"text": ics("20270601").decode()}}, {"holidays": "DE"}, {"date": "2027-02-02"})
    expanded = saved(address, *more)
    assert {"2026-12-24", "2027-06-01", "2026-10-03", "2027-02-02"} <= set(days_of(expanded.content))
    assert feed_of(expanded.feeds).body == FOUR
    assert [feed.url for feed in expanded.feeds] == [OWN, f"{address}/a"]


def test_a_thousand_rules_for_holidays_are_saved() -> None:
    rules = [{"holidays": ("DE", "US", "FR", "IT")[n % 4], "name": f"{n}"} for n in range(1_000)]
    expanded = expand({"rules": rules}, {}, NOW, PRIVATE)
    assert {day.name for day in expanded.content.compiled.days} == {f"{n}" for n in range(1_000)}


def test_a_file_that_would_never_end_ends_the_reading_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_out, "CPU_SECONDS", 1)
    text = ics("20270101").decode().replace("END:VEVENT", "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30\nEND:VEVENT")
    bomb = text.replace("BEGIN:VCALENDAR\n", "BEGIN:VCALENDAR\n" + "".join(text.splitlines(keepends=True)[1:-1]) * 200)
    with pytest.raises(BadValues) as error:
        expand({"rules": [{"ics": {"text": bomb}} for _ in range(10)]}, {}, NOW, PRIVATE)
    assert [each.field for each in error.value.errors] == ["rules.0.ics"]


def test_a_calendar_without_such_rules_is_never_refreshed() -> None:
    assert expand({"rules": [{"date": "2027-02-02"}]}, {}, NOW, PRIVATE).feeds == ()


def test_everything_wrong_is_reported_by_its_rule(address: str) -> None:
    Handler.status = 404
    with pytest.raises(BadValues) as error:
        saved(address, {"holidays": "DX"}, {"ics": {"text": "nothing"}}, {"ics": {"url": "ftp://example.org/"}})
    assert [each.field for each in error.value.errors][:3] == ["rules.0.ics.url", "rules.3.ics.url", "rules.1.holidays"]
    assert "the server answered 404" in str(error.value)


def test_a_file_away_at_the_moment_of_an_edit_is_the_last_good_copy(address: str) -> None:
    first = saved(address)
    Handler.status = 500
    known = {feed.url: feed for feed in first.feeds}
    again = expand({"rules": [{"ics": {"url": f"{address}/a"}, "name": "Closed"}]}, known, NOW + HOUR, PRIVATE)
    assert days_of(again.content) == days_of(first.content)
    assert feed_of(again.feeds).error == "the server answered 500"


def test_a_file_that_did_not_change_changes_nothing(address: str) -> None:
    first = saved(address)
    for after in (HOUR, 25 * HOUR):
        result = refreshed(first, after)
        assert not result.is_new
        assert result.content is first.content
        feed = feed_of(result.feeds)
        assert (feed.fetched_at, feed.good_at, feed.error) == (NOW + after, NOW, None)


def test_another_file_is_another_set_and_another_wording_is_none(address: str) -> None:
    first = saved(address)
    Handler.body = FOUR.replace(b"UID", b"SUMMARY:Closed\nUID")
    result = refreshed(first)
    assert result.is_new
    assert (result.content, feed_of(result.feeds).body) == (first.content, Handler.body)
    Handler.body = ics("20261224", "20261225", "20270101")
    result = refreshed(first)
    assert days_of(result.content) == ["2026-12-24", "2026-12-25", "2027-01-01"]
    assert feed_of(result.feeds).good_at == NOW + HOUR


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (500, FOUR, "the server answered 500"),
        (200, b"", "no complete iCalendar file"),
        (200, FOUR[:-30], "no complete iCalendar file"),
        (200, ics(), "has no events"),
        (200, ics("20261224"), "has 1 of 4 events to come"),
        (200, b"x" * (5 * 1024 * 1024 + 1), "over 5,242,880 bytes"),
    ],
)
def test_the_last_good_copy_stays(address: str, status: int, body: bytes, says: str) -> None:
    first = saved(address)
    Handler.status, Handler.body = status, body
    result = refreshed(first, 25 * HOUR)
    assert not result.is_new
    assert result.content is first.content
    feed = feed_of(result.feeds)
    assert says in str(feed.error)
    assert (feed.body, feed.fetched_at, feed.failing_since) == (FOUR, NOW, NOW + 25 * HOUR)
    # It is let in by whoever saves the calendar, and by a file that has recovered.
    Handler.status, Handler.body = 200, FOUR
    again = replace(first, feeds=result.feeds)
    assert feed_of(refreshed(again, 26 * HOUR).feeds).error is None


def test_the_years_to_come_are_written_out_as_they_come(address: str) -> None:
    first = expand({"rules": [{"holidays": "DE"}]}, {}, NOW, PRIVATE)
    assert not refreshed(first, 25 * HOUR).is_new
    next_year = refreshed(first, 40 * DAY)
    assert next_year.is_new
    assert days_of(next_year.content)[-1] == "2032-12-26"
