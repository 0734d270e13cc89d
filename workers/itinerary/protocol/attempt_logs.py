"""The log of an attempt between worker and service: which are kept, how they are packed, and how they are watched.

Promises that a packed log is unpacked into at most 64 KiB of text, by whomever it was packed. Pure.
"""

import zlib
from base64 import b64decode, b64encode
from enum import Enum
from typing import Final, NamedTuple

from itinerary.protocol.errors import BadValue

KEPT_BYTES: Final = 64 * 1024
LONGEST_PACKED: Final = 128 * 1024
"""Of a packed log's text: a log that cannot be compressed has 88 KiB."""
WATCHED_SECONDS: Final = 15
"""How long a watcher counts as one after each time that it asks."""


class KeepLogs(Enum):
    """Which attempts' logs are stored: those that failed, all, or none; none are not even captured."""

    FAILURES = "failures"
    ALL = "all"
    NONE = "none"


class Tail(NamedTuple):
    """The end of a log: a text whose last character is the one before position `end`.

    A position is a number of characters since the attempt began, those of lines that are not kept included.
    """

    text: str
    end: int

    @property
    def start(self) -> int:
        """The position of its first character."""
        return self.end - len(self.text)

    def after(self, position: int) -> "Tail":
        """The part that follows a position, as far as it is here."""
        return Tail(self.text[max(0, position - self.start) :], self.end)


class PackedLog(NamedTuple):
    """A compressed tail, as a text that an entry can hold, and the position of its end."""

    text: str
    end: int


def packed(tail: Tail) -> PackedLog:
    """The tail, compressed."""
    return PackedLog(b64encode(zlib.compress(tail.text.encode(), 1)).decode(), tail.end)


def compressed_of(text: str) -> bytes:
    """The compressed bytes of a packed log; BadValue if it is none."""
    if len(text) > LONGEST_PACKED:
        raise BadValue("log", f"{len(text)} characters", f"a packed log has at most {LONGEST_PACKED}")
    try:
        compressed = b64decode(text, validate=True)
    except ValueError:
        raise BadValue("log", text[:20], "a packed log is base64") from None
    unpacked(compressed)
    return compressed


def unpacked(compressed: bytes) -> str:
    """The text of these bytes; BadValue if they are no log."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(compressed, KEPT_BYTES + 1)
    except zlib.error as exc:
        raise BadValue("log", "...", f"a packed log is compressed by zlib ({exc})") from None
    if len(text) > KEPT_BYTES or not unpacking.eof:
        raise BadValue("log", "...", f"a log has at most {KEPT_BYTES} bytes")
    return text.decode(errors="replace")
