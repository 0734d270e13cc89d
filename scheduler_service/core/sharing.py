"""Reading JSON values once: a hundred thousand jobs have few different schedules and policies."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Said:
    """A JSON value, equal to another that reads the same: 1 is neither 1.0 nor true."""

    text: str
    value: Any = field(compare=False)


def shared(read: Callable[[Any, str], T]) -> Callable[[Any, str], T]:
    """`read(value, word)` that gives the same object, which nobody may change, for a value that reads the same."""

    @lru_cache(maxsize=65_536)
    def kept(said: _Said, word: str) -> T:
        return read(said.value, word)

    @wraps(read)
    def reading(value: Any, word: str) -> T:
        return kept(_Said(repr(value), value), word)

    return reading
