"""Pages of a list: the rows after a key, and the opaque cursor with which a caller continues.

Promises pages that neither repeat nor miss a row that exists throughout, whatever is written meanwhile.
"""

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from itinerary.protocol.errors import BadValue
from itinerary.protocol.json_text import is_storable
from scheduler_service.ports.stores import Page
from scheduler_service.sql.column_types import FIRST_INSTANT, LAST_INSTANT

T = TypeVar("T")


def page_of(rows: Sequence[Any], limit: int, read: Callable[[Any], T], key: Callable[[Any], list[Any]]) -> Page[T]:
    """The first `limit` of `rows`; if there are more, the cursor is the key of the last one shown."""
    shown = rows[:limit]
    more = len(rows) > limit
    return Page([read(row) for row in shown], write_cursor(key(shown[-1])) if more else None)


def write_cursor(key: Sequence[Any]) -> str:
    """The key as a text for URLs."""
    return urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def read_cursor(text: str, *kinds: type) -> list[Any]:
    """The key from a cursor, with parts of these kinds; BadValue for a text that is no cursor."""
    try:
        key = json.loads(urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
    except (binascii.Error, ValueError) as error:
        raise no_cursor(text) from error
    if not isinstance(key, list) or [type(part) for part in key] != list(kinds) or not all(map(_can_be, key)):
        raise no_cursor(text)
    return key


def no_cursor(text: str) -> BadValue:
    """The error for a text that no page of this list gave."""
    return BadValue("cursor", text, "give the next_cursor of the page before")


def _can_be(part: Any) -> bool:
    return (
        is_storable(part) if isinstance(part, str) else isinstance(part, int) and FIRST_INSTANT <= part <= LAST_INSTANT
    )
