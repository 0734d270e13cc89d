"""Memoised readers of JSON values: a hundred thousand jobs share few distinct schedules and policies."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

T = TypeVar("T")
_MOST: Final = 65_536


def shared(read: Callable[[Any, str], T], depends_on: Callable[[], int] = lambda: 0) -> Callable[[Any, str], T]:
    """Memoise `read(value, word)`: equal JSON returns one shared, immutable object.

    A refused value is read, and refused, each time; any value again once `depends_on` returns another number.
    """
    kept: dict[tuple[str, str, int], T] = {}

    @wraps(read)
    def reading(value: Any, word: str) -> T:
        written = (repr(value), word, depends_on())  # as text: 1 is neither 1.0 nor true
        found = kept.get(written)
        if found is None:
            if len(kept) >= _MOST:
                kept.clear()
            found = kept[written] = read(value, word)
        return found

    return reading
