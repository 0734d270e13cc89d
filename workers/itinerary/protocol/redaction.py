"""Values that are never shown: those under names such as `password`, at any depth of arguments and results.

Owns the names (setting `redact_keys`), one set per process; a process that sets none hides the default ones. Promises
that a value without such a name comes back as the same object. A mask sent back is never taken for a value. Never
changes the values that are stored or sent to workers.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from itinerary.protocol.errors import BadValue

MASK: Final = "[redacted]"
DEFAULT_KEYS: Final = (
    "password", "passwords", "passwd", "passphrase", "pwd", "secret", "secrets", "token", "api_key", "apikey",
    "access_key", "secret_key", "private_key", "authorization", "cookie", "credential", "credentials",
)  # fmt: skip
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHERS: Final = re.compile(r"[^a-z0-9]+")
_REFERENCES: Final = ({"$env"}, {"$secret"})
_ABSENT: Final[Any] = object()


def _word_parts(name: str) -> str:
    return _OTHERS.sub("_", _HUMP.sub("_", name).lower()).strip("_")


class _Keys:
    def __init__(self) -> None:
        self.ends: tuple[str, ...] = tuple(f"_{key}" for key in DEFAULT_KEYS)


_keys: Final = _Keys()


def use_keys(names: Iterable[str]) -> None:
    """Hide the values under these names in this process from now on; without names, hide nothing."""
    _keys.ends = tuple(f"_{word_parts}" for name in names if (word_parts := _word_parts(name)))
    is_hidden.cache_clear()


@lru_cache(maxsize=4096)
def is_hidden(name: str) -> bool:
    """Whether a value of this name is hidden: `password`, and with it `dbPassword` and `X-Db-Password`."""
    return len(name) <= 256 and f"_{_word_parts(name)}".endswith(_keys.ends) if _keys.ends else False


def hidden(value: Any) -> Any:
    """The mask for a value of a hidden name; a value that reveals nothing (none, empty, a reference) stays."""
    if value is None or isinstance(value, bool) or value in ("", [], {}):
        return value
    return value if isinstance(value, dict) and value.keys() in _REFERENCES else MASK


def redacted(value: Any) -> Any:
    """The value as it may be shown; the same object if nothing is hidden."""
    if isinstance(value, dict):
        changed: dict[str, Any] = {}
        for name, inner in value.items():
            shown = hidden(inner) if is_hidden(name) else redacted(inner) if isinstance(inner, _NESTS) else inner
            if shown is not inner:
                changed[name] = shown
        return {**value, **changed} if changed else value
    if isinstance(value, _LISTS):
        for inner in value:
            if isinstance(inner, _NESTS):
                break
        else:
            return value
        items = [redacted(inner) if isinstance(inner, _NESTS) else inner for inner in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


_NESTS: Final = (dict, list, tuple)
_LISTS: Final = (list, tuple)


def restored(given: Any, stored: Any, field: str) -> Any:
    """The given value, with each mask replaced by the stored value; BadValue for a mask without one.

    In a list, a masked value is identified only by its position and by everything beside it.
    """
    if redacted(given) is given and not holds_mask(given):
        return given
    if isinstance(given, dict):
        there = stored if isinstance(stored, Mapping) else {}
        return {
            name: _kept(inner, there.get(name, _ABSENT), f"{field}.{name}")
            if is_hidden(name) and inner == MASK
            else restored(inner, there.get(name), f"{field}.{name}")
            for name, inner in given.items()
        }
    if isinstance(given, list):
        theirs = list(stored) if isinstance(stored, list | tuple) else []
        return [
            theirs[place]
            if place < len(theirs) and redacted(theirs[place]) == inner
            else restored(inner, None, f"{field}.{place}")
            for place, inner in enumerate(given)
        ]
    return given


def unmasked(body: Mapping[str, Any], args: Any = None, kwargs: Any = None, headers: Any = None) -> dict[str, Any]:
    """A request's body, with masks replaced by stored arguments; BadValue names the first without one."""
    changed = dict(body)
    for name, stored in (("args", args), ("kwargs", kwargs), ("headers", headers)):
        if isinstance(body.get(name), dict | list):
            changed[name] = restored(body[name], stored, name)
    return changed


def _kept(given: Any, stored: Any, field: str) -> Any:
    if stored is _ABSENT or hidden(stored) != MASK:
        raise BadValue(field, given, "this stands for a hidden value, and none is stored here: give the value itself")
    return stored


def holds_mask(value: Any) -> bool:
    """Whether a mask stands for a value of a hidden name, at any depth."""
    if isinstance(value, dict):
        return any((inner == MASK and is_hidden(name)) or holds_mask(inner) for name, inner in value.items())
    return isinstance(value, list) and any(map(holds_mask, value))
