"""How much work Python does for something: its calls, the same number on every machine.

A bound on these shows that something does not search for long; a bound on seconds would judge the machine as well.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls_made(do: Callable[[], object]) -> int:
    """The calls, of Python and of C, that `do` makes in this thread; its exceptions pass."""
    calls = 0

    def count(_frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        do()
    finally:
        sys.setprofile(before)
    return calls
