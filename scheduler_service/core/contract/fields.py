"""Readers of the fields that only jobs have, and of stored retry policies. See run_fields."""

import json
import re
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from itinerary.protocol import run_fields
from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY
from itinerary.protocol.run_fields import (
    MOST_ATTEMPTS,
    RETRY_FIELDS,
    RetryPolicy,
    choice,
    duration_between,
    object_of,
    whole,
)
from scheduler_service.core.memo import shared
from scheduler_service.core.model import Misfire, MisfirePolicy, Overlap

_MAX_TEXT: Final = 10_000
MISFIRE_FIELDS: Final = frozenset({"policy", "grace", "max_catch_up"})
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_OVERLAPS: Final = tuple(overlap.value for overlap in Overlap)
_MISFIRES: Final = tuple(policy.value for policy in MisfirePolicy)


# Equal policies are one object: a hundred thousand jobs have few.
read_retry: Final = shared(run_fields.read_retry)


def unread_retry(text: str) -> RetryPolicy:
    """Recover a stored retry policy that `read_retry` refuses: its readable part, and the text itself.

    Without fields that only a newer release knows it is read whole; else its attempts are, if possible. A copy of the
    run gets the same text, so that a program which can read it still finds it.
    """
    try:
        body = json.loads(text)
        known = {name: body[name] for name in body if name in RETRY_FIELDS} if isinstance(body, dict) else {}
        if known and len(known) < len(body):
            with suppress(BadValue):
                return replace(read_retry(known, "retry"), unread=text)
        attempts = body["max_attempts"] if isinstance(body, dict) else 1
        return RetryPolicy(whole(attempts, "max_attempts", 1, MOST_ATTEMPTS), unread=text)
    except (ValueError, KeyError, RecursionError, BadValue):
        return RetryPolicy(unread=text)


def read_overlap(value: Any, field: str) -> Overlap:
    """Read one of the overlap policies."""
    return Overlap(choice(value, field, _OVERLAPS))


def read_text(value: Any, field: str) -> str:
    """Read free text that every database can store."""
    if not isinstance(value, str) or len(value) > _MAX_TEXT or not _storable(value):
        raise BadValue(field, value, f"give a text of at most {_MAX_TEXT} characters without NUL")
    return value


@shared
def read_misfire(value: Any, field: str) -> Misfire:
    """Read a misfire policy from its JSON; missing keys take their defaults."""
    body = object_of(value, field, MISFIRE_FIELDS)
    policy = choice(body.get("policy", "fire_once"), f"{field}.policy", _MISFIRES)
    return Misfire(
        policy=MisfirePolicy(policy),
        grace=duration_between(body.get("grace", "30s"), f"{field}.grace", 0, 365 * DAY),
        max_catch_up=whole(body.get("max_catch_up", 100), f"{field}.max_catch_up", 1, 10_000),
    )


def read_jitter(value: Any, field: str) -> int:
    """Read the spread of dispatch times: from none to a day."""
    return duration_between(value, field, 0, DAY)


def read_tags(value: Any, field: str) -> tuple[str, ...]:
    """Read tags, each once, in their order."""
    if not isinstance(value, list) or len(value) > 50:
        raise BadValue(field, value, "give a list of at most 50 texts")
    for tag in value:
        if not isinstance(tag, str) or not 0 < len(tag) <= 100 or not _storable(tag):
            raise BadValue(field, tag, "a tag is a text of 1 to 100 characters")
    return tuple(dict.fromkeys(value))


def _storable(text: str) -> bool:
    return _UNSTORABLE.search(text) is None
