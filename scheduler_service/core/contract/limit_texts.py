"""Bounds as people write them: `5`, `90/10s`, `none`; of a key `acme=20,90/10s` or `acme=none`. Pure.

Whether a number may be a bound is judged by `limit_json`, which gets the JSON that is read here.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue

NONE: Final = "none"
_DIGITS: Final = 9


def read_concurrency(text: str, field: str) -> int | None:
    """The number; None for `none`."""
    if text == NONE:
        return None
    if not _is_number(text):
        raise BadValue(field, text, "give a whole number such as 5, or none")
    return int(text)


def read_rate(text: str, field: str) -> dict[str, Any] | None:
    """The rate as JSON; None for `none`."""
    if text == NONE:
        return None
    count, slash, per = text.partition("/")
    if not slash or not _is_number(count.strip()):
        raise BadValue(field, text, "give COUNT/TIME such as 90/10s, or none")
    return {"count": int(count), "per": per.strip()}


def read_overrides(texts: Iterable[str], field: str) -> dict[str, Any]:
    """The overrides as JSON, None for a key that has none; a key may contain `=`, but not at its end."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, bounds = (part.strip() for part in text.rpartition("="))
        if not (key and equals):
            raise BadValue(field, text, "give KEY=5, KEY=90/10s, both with a comma, or KEY=none")
        found[key] = None if bounds == NONE else _override(bounds, field)
    return found


def bounds_text(bounds: Mapping[str, Any]) -> str:
    """The bounds of JSON in a phrase: `5 at a time, 90 in 10s`; empty for none."""
    concurrency, rate = bounds.get("concurrency"), bounds.get("rate")
    parts = [] if concurrency is None else [f"{concurrency:,} at a time"]
    parts += [] if rate is None else [f"{rate['count']:,} in {rate['per']}"]
    return ", ".join(parts)


def concurrency_text(bounds: Mapping[str, Any]) -> str:
    """The concurrency as `read_concurrency` reads it; empty for none."""
    return "" if bounds.get("concurrency") is None else str(bounds["concurrency"])


def rate_text(bounds: Mapping[str, Any]) -> str:
    """The rate as `read_rate` reads it; empty for none."""
    rate = bounds.get("rate")
    return "" if rate is None else f"{rate['count']}/{rate['per']}"


def override_text(key: str, bounds: Mapping[str, Any]) -> str:
    """An override as `read_overrides` reads it."""
    return f"{key}={','.join(text for text in (concurrency_text(bounds), rate_text(bounds)) if text)}"


def _override(text: str, field: str) -> dict[str, Any]:
    parts = [part.strip() for part in text.split(",")]
    bounds: dict[str, Any] = {}
    for part in parts:
        if "/" in part:
            bounds["rate"] = read_rate(part, field)
        else:
            bounds["concurrency"] = read_concurrency(part, field)
    if len(bounds) < len(parts):
        raise BadValue(field, text, "give one number, one rate, or one of each")
    return bounds


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS
