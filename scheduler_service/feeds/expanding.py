"""Calendars with rules for holidays and iCalendar files, written out when they are saved and ever after.

What is saved is what was fetched then. A refresh takes no file that is empty, broken or half as large as before. Its
last good copy stays, and its feed names the reason. Fetches and reads outside of any transaction.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from itinerary.net.safe_http import Reach
from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import Instant
from scheduler_service.core.calendars.ics import IcsEvents
from scheduler_service.core.calendars.refreshing import differs, today_in, too_few
from scheduler_service.core.calendars.rules import (
    CalendarDefinition,
    Rule,
    compile_rules,
    read_calendar,
    written_out_elsewhere,
)
from scheduler_service.core.calendars.stored import CalendarContent, StoredCalendar
from scheduler_service.feeds.fetching import Feed, FeedFailed, fetch
from scheduler_service.feeds.written_out import TOO_LONG, holidays_written_out, ics_written_out
from scheduler_service.ports.calendar_feeds import EXTENDED_EVERY, OWN, Refreshed, StoredFeed

_AT_ONCE: Final = 10


@dataclass(frozen=True, slots=True)
class Expanded:
    """A calendar as it is to be saved, and all that it is refreshed from."""

    content: CalendarContent
    feeds: tuple[StoredFeed, ...]


def expand(body: Mapping[str, object], known: Mapping[str, StoredFeed], now: Instant, reach: Reach) -> Expanded:
    """Read, fetch and write out a calendar that is saved; BadValues with everything that is wrong.

    A file that cannot be fetched now is taken from `known`, the feeds of the calendar as it is.
    """
    definition = read_calendar(body)
    rules = written_out_elsewhere(definition)
    feeds, errors = _saved_feeds(rules, known, now, reach)
    today = today_in(definition.timezone, now)
    fetched = {place: rule for place, rule in rules.items() if _url(rule) is None or _url(rule) in feeds}
    found, wrong = _written_out(fetched, feeds, definition.timezone, today)
    if errors or wrong:
        raise BadValues([*errors, *wrong])
    content = CalendarContent(definition.to_json(), compile_rules(definition, today, found))
    own = (StoredFeed(OWN, fetched_at=now, good_at=now),) if rules else ()
    return Expanded(content, (*own, *feeds.values()))


def refresh(calendar: StoredCalendar, feeds: Mapping[str, StoredFeed], now: Instant, reach: Reach) -> Refreshed:
    """Fetch again what changed, and write the calendar out further; never raises for what a server answers."""
    definition = read_calendar(calendar.content.definition)
    rules = written_out_elsewhere(definition)
    today = today_in(definition.timezone, now)
    before = {url: feeds.get(url, StoredFeed(url)) for url in _urls(rules)}
    answers = _fetched(before, reach)
    after = {url: _taken(before[url], answers[url], definition.timezone, today, now) for url in before}
    is_new = any(after[url].body != before[url].body for url in after)
    own = feeds.get(OWN, StoredFeed(OWN))
    content = calendar.content
    if is_new or own.fetched_at is None or now - own.fetched_at >= EXTENDED_EVERY:
        try:
            content = _extended(definition, rules, after, calendar.content, today)
            own = StoredFeed(OWN, fetched_at=now, good_at=now)
        except BadValue as exc:
            own = _failed(own, str(exc), now)
            after, is_new = before, False
    return Refreshed(content, (own, *after.values()), is_new or content != calendar.content)


def _saved_feeds(
    rules: Mapping[int, Rule], known: Mapping[str, StoredFeed], now: Instant, reach: Reach
) -> tuple[dict[str, StoredFeed], list[BadValue]]:
    places = {_url(rule): place for place, rule in rules.items()}
    feeds: dict[str, StoredFeed] = {}
    errors: list[BadValue] = []
    # Without their marks: what is saved is the whole file as it is now.
    for url, answer in _fetched({url: StoredFeed(url) for url in _urls(rules)}, reach).items():
        if isinstance(answer, Feed):
            feeds[url] = StoredFeed(url, answer.body, answer.etag, answer.last_modified, now, now)
        elif url in known and known[url].body:
            feeds[url] = _failed(known[url], str(answer), now)
        else:
            errors.append(BadValue(f"rules.{places[url]}.ics.url", None, str(answer)))
    return feeds, errors


def _fetched(feeds: Mapping[str, StoredFeed], reach: Reach) -> dict[str, Feed | FeedFailed]:
    def ask(feed: StoredFeed) -> Feed | FeedFailed:
        known = Feed(feed.body, feed.etag, feed.last_modified) if feed.body else None
        try:
            return fetch(feed.url, known, reach)
        except FeedFailed as exc:
            return exc

    if not feeds:
        return {}
    with ThreadPoolExecutor(_AT_ONCE, "calendar-feed") as pool:
        return dict(zip(feeds, pool.map(ask, feeds.values()), strict=True))


def _taken(feed: StoredFeed, answer: Feed | FeedFailed, timezone: str, today: int, now: Instant) -> StoredFeed:
    """Return the feed with its new copy, or with the last good one and why."""
    if isinstance(answer, FeedFailed):
        return _failed(feed, str(answer), now)
    taken = StoredFeed(feed.url, answer.body, answer.etag, answer.last_modified, now, now)
    if answer.body == feed.body:
        return replace(taken, good_at=feed.good_at)
    try:
        events = ics_written_out(answer.body, timezone, today)
    except BadValue as exc:
        return _failed(feed, exc.allowed, now)
    counts = too_few(_known(feed, timezone, today), events, timezone, today)
    if counts is not None:
        left, had = counts
        return _failed(feed, f"has {left} of {had} events to come; save the calendar again to take it as it is", now)
    return taken


def _known(feed: StoredFeed, timezone: str, today: int) -> IcsEvents:
    try:
        return ics_written_out(feed.body, timezone, today)
    except BadValue:  # nothing was taken yet, or by a library that read more
        return IcsEvents((), ())


def _failed(feed: StoredFeed, error: str, now: Instant) -> StoredFeed:
    return replace(feed, error=error, failing_since=now if feed.failing_since is None else feed.failing_since)


def _extended(
    definition: CalendarDefinition, rules: Mapping[int, Rule], feeds: Mapping[str, StoredFeed],
    before: CalendarContent, today: int,
) -> CalendarContent:  # fmt: skip
    found, wrong = _written_out(rules, feeds, definition.timezone, today)
    if wrong:
        raise wrong[0]
    compiled = compile_rules(definition, today, found)
    return replace(before, compiled=compiled) if differs(before.compiled, compiled, today) else before


def _written_out(
    rules: Mapping[int, Rule], feeds: Mapping[str, StoredFeed], timezone: str, today: int
) -> tuple[dict[int, IcsEvents], list[BadValue]]:
    """Return what the rules close by their places, and what is wrong with the others."""
    of_countries = {place: rule for place, rule in rules.items() if "holidays" in rule}
    asked = [(rule["holidays"], rule.get("subdivision")) for rule in of_countries.values()]
    answers: dict[int, IcsEvents | BadValue] = dict(zip(of_countries, holidays_written_out(asked, today), strict=True))
    for place in sorted(rules.keys() - of_countries.keys()):
        try:
            answers[place] = ics_written_out(_file(rules[place], feeds), timezone, today)
        except BadValue as exc:
            answers[place] = exc
            if exc.allowed == TOO_LONG:
                break  # each of the others may take as long, and nothing is saved anyway
    wrong = [one.under(f"rules.{place}") for place, one in sorted(answers.items()) if isinstance(one, BadValue)]
    return {place: one for place, one in answers.items() if not isinstance(one, BadValue)}, wrong


def _file(rule: Rule, feeds: Mapping[str, StoredFeed]) -> bytes:
    url = _url(rule)
    return rule["ics"]["text"].encode() if url is None else feeds[url].body


def _url(rule: Rule) -> str | None:
    url: str | None = rule["ics"].get("url") if "ics" in rule else None
    return url


def _urls(rules: Mapping[int, Rule]) -> list[str]:
    return list(dict.fromkeys(url for rule in rules.values() if (url := _url(rule)) is not None))
