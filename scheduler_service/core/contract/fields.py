"""JSON types that only jobs have: texts, tags, the misfire policy; and stored retry policies. See field_types."""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.field_types import Choice, FieldType, Group, Span, Whole
from itinerary.protocol.instants import DAY
from itinerary.protocol.json_text import is_storable
from itinerary.protocol.run_fields import RETRY, RetryPolicy
from scheduler_service.core.memo import shared
from scheduler_service.core.model import Misfire, MisfirePolicy, Overlap


@dataclass(frozen=True)
class Text(FieldType):
    """Free text that every database can store."""

    longest: int = 10_000

    def read(self, value: Any, field: str) -> str:
        """Return the text."""
        if not isinstance(value, str) or len(value) > self.longest or not is_storable(value):
            raise BadValue(field, value, f"give a text of at most {self.longest} characters without NUL")
        return value


@dataclass(frozen=True)
class Tags(FieldType):
    """Short texts, each once, in their order."""

    most: int = 50
    longest: int = 100

    def read(self, value: Any, field: str) -> tuple[str, ...]:
        """Return the texts."""
        if not isinstance(value, list) or len(value) > self.most:
            raise BadValue(field, value, f"give a list of at most {self.most} texts")
        for tag in value:
            if not isinstance(tag, str) or not 0 < len(tag) <= self.longest or not is_storable(tag):
                raise BadValue(field, tag, f"a tag is a text of 1 to {self.longest} characters")
        return tuple(dict.fromkeys(value))

    def write(self, value: tuple[str, ...]) -> list[str]:
        """Return them as a list."""
        return list(value)


TEXT: Final = Text()
OVERLAP: Final = Choice(Overlap)
MISFIRE: Final = Group(
    Misfire, {"policy": Choice(MisfirePolicy), "grace": Span(0, 365 * DAY), "max_catch_up": Whole(1, 10_000)}
)
read_text: Final = TEXT.read
# Equal policies are one object: a hundred thousand jobs have few.
read_retry: Final = shared(RETRY.read)
read_misfire: Final = shared(MISFIRE.read)


def unread_retry(text: str) -> RetryPolicy:
    """Recover a stored retry policy that `read_retry` refuses: its readable part, and the text itself.

    Without fields that only a newer release knows it is read whole; else its attempts are, if possible. A copy of the
    run gets the same text, so that a program which can read it still finds it.
    """
    try:
        body = json.loads(text)
        known = {name: body[name] for name in body if name in RETRY.types} if isinstance(body, dict) else {}
        if known and len(known) < len(body):
            with suppress(BadValue):
                return replace(read_retry(known, "retry"), unread=text)
        attempts = body["max_attempts"] if isinstance(body, dict) else 1
        return RetryPolicy(RETRY.types["max_attempts"].read(attempts, "max_attempts"), unread=text)
    except (ValueError, KeyError, RecursionError, BadValue):
        return RetryPolicy(unread=text)
