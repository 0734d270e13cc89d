"""The content of a calendar from a request's body: its definition, and the set that its rules make now."""

from collections.abc import Mapping
from typing import Any

from scheduler_service.api.context import ApiContext
from scheduler_service.core.contract.job_json import optional_instant
from scheduler_service.feeds.expanding import Expanded, expand
from scheduler_service.feeds.fetching import reach_of
from scheduler_service.ports.calendar_feeds import StoredFeed


def content_of(context: ApiContext, calendar_id: str, body: Mapping[str, Any]) -> Expanded:
    """Return the content with its files, fetched at this moment; BadValues with everything that is wrong."""
    known = context.stores.feed_store.feeds_of(calendar_id, with_bodies=True)
    return expand(body, known, context.clock(), reach_of(context.settings.notify_allow_private))


def feeds_body(feeds: Mapping[str, StoredFeed]) -> list[dict[str, Any]]:
    """Show the sources that a calendar is refreshed from, and how that goes."""
    return [
        {
            "url": feed.url or None, "fetched_at": optional_instant(feed.fetched_at),
            "good_at": optional_instant(feed.good_at), "error": feed.error,
            "failing_since": optional_instant(feed.failing_since),
        }
        for feed in feeds.values()
    ]  # fmt: skip
