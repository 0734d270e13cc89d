"""Limits on JSON texts: how deep they nest, since most readers recurse, and characters that every database takes.

Promises that one part never writes JSON that another cannot read. A storable text has no NUL and no lone surrogates.
"""

import re
from itertools import accumulate
from typing import Any, Final

MOST_LEVELS: Final = 100
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_BRACKET: Final = re.compile(r"[\[{\]}]")


def is_deep(text: str) -> bool:
    """Whether lists and objects of this JSON nest more than MOST_LEVELS deep."""
    if text.count("[") + text.count("{") <= MOST_LEVELS:
        return False
    steps = (1 if bracket in "[{" else -1 for bracket in _BRACKET.findall(_STRING.sub("", text)))
    return max(accumulate(steps), default=0) > MOST_LEVELS


def is_plain(text: str) -> bool:
    """Whether no text in this JSON can hold a NUL or a surrogate."""
    return text.isascii() and "\\u0000" not in text and "\\ud" not in text and "\\uD" not in text


def is_storable(text: str) -> bool:
    """Whether every database takes the text."""
    return "\x00" not in text if text.isascii() else _UNSTORABLE.search(text) is None


def storable(text: str) -> str:
    """The text with U+FFFD, the replacement character, in place of each character that no database takes."""
    return text if is_storable(text) else _UNSTORABLE.sub("\ufffd", text)


def storable_text(body: dict[str, Any]) -> dict[str, Any]:
    """The body, changed in place, without recursion, since it may be as deep as its sender likes."""
    holders: list[Any] = [body]
    for holder in holders:
        if isinstance(holder, dict):
            items = [(_text(key), _text(value)) for key, value in holder.items()]
            holder.clear()
            holder.update(items)
        else:
            holder[:] = map(_text, holder)
        values = holder.values() if isinstance(holder, dict) else holder
        holders += [value for value in values if isinstance(value, dict | list)]
    return body


def _text(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value
