"""Subscribed calendars fetched from the web: the whole file, or the word that it did not change.

Promises one bounded call (`itinerary/net/safe_http.py`) that never reaches a private address unless the installation
allows it. Errors show no path and no query of the address: they are often secret.
"""

from dataclasses import dataclass
from typing import Final

from itinerary.net import safe_http
from itinerary.net.safe_http import CallFailed, CallRefused, Reach
from scheduler_service.core.calendars.ics import MOST_BYTES
from scheduler_service.version import VERSION

WITHIN_SECONDS: Final = 20.0
_NOT_MODIFIED: Final = 304
_LONGEST_TAG: Final = 200


class FeedFailed(Exception):
    """The file was not fetched; the text says why."""


@dataclass(frozen=True, slots=True)
class Feed:
    """A file as it was fetched, and the marks by which its server knows it again."""

    body: bytes
    etag: str | None = None
    last_modified: str | None = None


def reach_of(allow_private: bool) -> Reach:
    """Return the limits of the calls; the setting of webhooks allows private addresses here too."""
    return Reach(allow_private, "ITINERARY_NOTIFY_ALLOW_PRIVATE=true")


def fetch(url: str, known: Feed | None, reach: Reach) -> Feed:
    """Return the file at `url`, or `known` itself where it did not change; FeedFailed."""
    headers = {"User-Agent": f"itinerary/{VERSION}", "Accept": "text/calendar, */*;q=0.1"}
    if known is not None and known.etag is not None:
        headers["If-None-Match"] = known.etag
    if known is not None and known.last_modified is not None:
        headers["If-Modified-Since"] = known.last_modified
    try:
        answer = safe_http.fetch(url, headers, WITHIN_SECONDS, reach, MOST_BYTES)
    except CallRefused as exc:
        raise FeedFailed(str(exc)) from exc
    except CallFailed as exc:
        # The answer's own text may repeat the address.
        is_status = exc.status is not None and exc.status >= 400
        raise FeedFailed(f"the server answered {exc.status}" if is_status else str(exc)) from exc
    if answer.status == _NOT_MODIFIED and known is not None:
        return known
    if answer.status != 200:
        raise FeedFailed(f"the server answered {answer.status}")
    return Feed(answer.body, *(_tag(answer.headers.get(name)) for name in ("etag", "last-modified")))


def _tag(value: str | None) -> str | None:
    return value if value and len(value) <= _LONGEST_TAG else None
