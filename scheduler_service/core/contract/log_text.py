"""Logs of tasks as texts to show: nothing in them steers a terminal. Pure."""

import re
from typing import Final

_COLOURS: Final = re.compile("\x1b\\[[0-9;?]*[ -/]*[@-~]")
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def shown(text: str) -> str:
    """The text without colours; other control characters than tabs and ends of lines as one sign."""
    return _CONTROLS.sub("\ufffd", _COLOURS.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))


def last_lines(text: str, number: int) -> str:
    """The last lines of a text."""
    return "".join(text.splitlines(keepends=True)[-number:])
