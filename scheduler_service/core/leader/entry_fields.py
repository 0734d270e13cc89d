"""Fields of an inbox entry's body, each checked. Pure; raises MalformedEntry with the reason."""

import json
from collections.abc import Mapping
from typing import Any, Final

from itinerary.protocol.errors import MalformedEntry
from itinerary.protocol.instants import Instant, parse_instant

MAX_NAME: Final = 300
MAX_BODY: Final = 512 * 1024
_MAX_LISTED: Final = 20_000


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def body_of(text: str) -> dict[str, Any]:
    """The JSON object of an entry."""
    if len(text) > MAX_BODY:
        raise MalformedEntry(f"body of {len(text)} characters is over {MAX_BODY}")
    try:
        body, end = _JSON.raw_decode(text) if text.startswith("{") else (None, 0)
        if end != len(text):  # blanks around it, which raw_decode does not look for, and no worker writes
            body = _JSON.decode(text)
    except (ValueError, RecursionError) as exc:
        raise MalformedEntry(f"body is not JSON: {str(exc)[:100]}") from exc
    if not isinstance(body, dict):
        raise MalformedEntry("body is not a JSON object")
    return body


def name(body: Mapping[str, Any], key: str, most: int = MAX_NAME) -> str:
    """A text that must be there."""
    value = body.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise MalformedEntry(f"{key} must be a text of 1 to {most} characters")
    return value


def optional_name(body: Mapping[str, Any], key: str, most: int = MAX_NAME) -> str | None:
    """A text that may be absent."""
    return None if body.get(key) is None else name(body, key, most)


def optional_instant(body: Mapping[str, Any], key: str) -> Instant | None:
    """An instant that may be absent."""
    return None if body.get(key) is None else parse_instant(body[key], key)


def error_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The error of an attempt."""
    given = body.get("error")
    if not isinstance(given, dict) or not isinstance(given.get("type"), str):
        raise MalformedEntry("error must be an object with a type")
    trace = given.get("traceback")
    return {
        "type": given["type"],
        "message": str(given.get("message", "")),
        "traceback": trace if isinstance(trace, str) else None,
    }


def whole(body: Mapping[str, Any], key: str, absent: int, *, below: int) -> int:
    """A whole number from 0 to `below`."""
    value = body.get(key, absent)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < below:
        raise MalformedEntry(f"{key} must be a whole number below {below}")
    return value


def listed(body: Mapping[str, Any], key: str) -> list[str]:
    """A list of texts; absent is empty."""
    value = body.get(key, [])
    if not isinstance(value, list) or len(value) > _MAX_LISTED or not all(isinstance(v, str) for v in value):
        raise MalformedEntry(f"{key} must be a list of at most {_MAX_LISTED} texts")
    return value
