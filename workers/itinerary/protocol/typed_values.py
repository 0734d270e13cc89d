"""Arguments of types that JSON lacks: stored as plain JSON, decoded by kombu in the worker.

A stored object with the keys `$type` and `$value` alone stands for a Python value. Everything else arrives as it was
stored, even an object with kombu's own keys, which kombu would otherwise convert. Light: workers and programs that
enqueue import it too.
"""

import base64
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from itinerary.protocol.instants import spelt_out
from itinerary.protocol.json_text import is_deep

TYPE: Final = "$type"
VALUE: Final = "$value"
PLAIN: Final = "plain"
KOMBU: Final = "kombu"
# Our own type for kombu, with [type, value]: an object that has kombu's keys and is meant literally.
ESCAPED: Final = "itinerary"
_TYPED: Final = {TYPE, VALUE}
_KOMBUS: Final = {"__type__", "__value__"}
_MARKS: Final = ('"__type__"', f'"{TYPE}"')


def may_need_care(text: str) -> bool:
    """Whether these arguments, as JSON, might change in a message; nearly always not."""
    return any(mark in text for mark in _MARKS)


def careful(args: Any, kwargs: Any, text: str) -> tuple[Any, Any]:
    """Both as kombu decodes them, given their JSON; values deeper than any API accepts travel unchanged."""
    if not may_need_care(text) or is_deep(text):
        return list(args), dict(kwargs)
    return to_message(list(args)), _escaped({key: to_message(value) for key, value in kwargs.items()})


def to_message(value: Any) -> Any:
    """Stored arguments as the JSON that kombu decodes; malformed typed values travel unchanged."""
    if isinstance(value, list | tuple):
        return [to_message(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == _TYPED:
        try:
            return _TO_MESSAGE[value[TYPE]](value[VALUE])
        except (KeyError, TypeError, ValueError, ArithmeticError):
            return {key: to_message(one) for key, one in value.items()}
    return _escaped({key: to_message(one) for key, one in value.items()})


def flaw(value: Any) -> str | None:
    """The error of the first invalid typed value."""
    if isinstance(value, list | tuple):
        return next((why for one in value if (why := flaw(one)) is not None), None)
    if not isinstance(value, dict):
        return None
    if value.keys() != _TYPED:
        return flaw(list(value.values()))
    kind = value[TYPE]
    if not isinstance(kind, str) or kind not in _TO_MESSAGE:
        return f"$type {str(kind)[:50]!r} is not known; known are {', '.join(sorted(_TO_MESSAGE))}"
    try:
        _TO_MESSAGE[kind](value[VALUE])
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return f"{str(value[VALUE])[:50]!r} is no {kind}; give {_GIVE[kind]}"
    return None


def from_python(value: Any, encode: Callable[[Any], Any]) -> Any:
    """Python values in their stored form; `encode` gives kombu's JSON of others, or raises TypeError."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        stored = {key: from_python(one, encode) for key, one in value.items()}
        return {TYPE: PLAIN, VALUE: value} if value.keys() == _TYPED else stored
    if isinstance(value, list | tuple):
        return [from_python(one, encode) for one in value]
    for kind, (name, text) in _STORED.items():
        if isinstance(value, kind):
            return {TYPE: name, VALUE: text(value)}
    encoded = encode(value)
    is_typed = isinstance(encoded, dict) and encoded.keys() == _KOMBUS
    return {TYPE: KOMBU, VALUE: [encoded["__type__"], encoded["__value__"]]} if is_typed else encoded


def unescaped(pair: Any) -> dict[str, Any]:
    """Decode ESCAPED for kombu."""
    kind, value = pair
    return {"__type__": kind, "__value__": value}


def _escaped(value: dict[str, Any]) -> dict[str, Any]:
    return _kombus(ESCAPED, [value["__type__"], value["__value__"]]) if value.keys() == _KOMBUS else value


def _kombus(kind: str, value: Any) -> dict[str, Any]:
    return {"__type__": kind, "__value__": value}


def _plain(value: Any) -> Any:
    """The literal value: objects that kombu would convert are escaped."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return _escaped({key: _plain(one) for key, one in value.items()}) if isinstance(value, dict) else value


def _any_of_kombus(pair: Any) -> dict[str, Any]:
    kind, value = pair
    if not isinstance(kind, str):
        raise TypeError
    return _kombus(kind, value)


def _decoded_base64(text: str) -> dict[str, Any]:
    base64.b64decode(text, validate=True)
    return _kombus("base64", text)


_TO_MESSAGE: Final[dict[str, Callable[[Any], Any]]] = {
    "datetime": lambda text: _kombus("datetime", datetime.fromisoformat(spelt_out(text)).isoformat()),
    "date": lambda text: _kombus("date", date.fromisoformat(text).isoformat()),
    "time": lambda text: _kombus("time", time.fromisoformat(spelt_out(text)).isoformat()),
    "decimal": lambda text: _kombus("decimal", str(Decimal(_text(text)))),
    "uuid": lambda text: _kombus("uuid", {"hex": UUID(_text(text)).hex}),
    "bytes": _decoded_base64,
    PLAIN: _plain,
    KOMBU: _any_of_kombus,
}
_GIVE: Final = {
    "datetime": '"2026-12-01T12:00:00+01:00"',
    "date": '"2026-12-01"',
    "time": '"12:00:00"',
    "decimal": '"1.10", as text',
    "uuid": "32 hexadecimal digits",
    "bytes": "base64",
    PLAIN: "any JSON",
    KOMBU: "a list of a type that the worker has registered with kombu, and its value",
}
# A datetime is also a date, so the order matters.
_STORED: Final[dict[type, tuple[str, Callable[[Any], str]]]] = {
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    time: ("time", time.isoformat),
    Decimal: ("decimal", str),
    UUID: ("uuid", str),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
