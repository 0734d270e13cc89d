"""How deep JSON may nest: what one part writes the others must be able to read, and most readers of JSON recurse."""

import re
from itertools import accumulate
from typing import Final

MOST_LEVELS: Final = 100
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_BRACKET: Final = re.compile(r"[\[{\]}]")


def is_deep(text: str) -> bool:
    """Whether lists and objects of this JSON lie more than MOST_LEVELS within one another."""
    if text.count("[") + text.count("{") <= MOST_LEVELS:
        return False
    steps = (1 if bracket in "[{" else -1 for bracket in _BRACKET.findall(_STRING.sub("", text)))
    return max(accumulate(steps), default=0) > MOST_LEVELS
