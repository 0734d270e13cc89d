"""The last lines of one attempt, in memory: a ring of bounded size, whatever the task writes.

Owns the form of a line and the positions: characters since the attempt began. Promises that a tail is the end of all
that was written, at most 64 KiB of UTF-8, without a value that `hide` knows. Lines are measured, and values hidden, in
groups, and lines become text only when asked for. Never talks to Redis.
"""

import re
import threading
import time
import traceback
from collections import deque
from logging import LogRecord
from typing import Final

from itinerary.protocol.attempt_logs import KEPT_BYTES, Tail
from itinerary.worker.hiding import AS_IT_IS, Hide

UNMEASURED: Final = 64
LONG: Final = 4 * 1024
# A larger group is cut at once: a ring holds no more than this beside its tail.
_LARGEST: Final = UNMEASURED * LONG
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_ABSENT: Final = "\ufffd"
# Date, spaces, colon and line feed beside level, name and message: see `_text`.
_FRAME: Final = 28
# A time, level, name and message; without a time, the message is the end of a line that was longer than the ring.
Line = tuple[float | None, str, str, str]


class LogRing:
    """The lines of one attempt; several threads of its task may add to it.

    `fresh` has the newest lines, with values that `hide` will replace. Who appends there calls `measure` at UNMEASURED
    lines, or behind one above LONG.
    """

    __slots__ = ("_end", "_groups", "_held", "_lock", "fresh", "hide")

    def __init__(self, hide: Hide = AS_IT_IS) -> None:
        self.hide = hide
        self.fresh: list[Line] = []
        self._groups: deque[tuple[int, list[Line]]] = deque()
        self._held = 0
        self._end = 0
        # Reentrant: a signal's handler may log while this thread measures.
        self._lock = threading.RLock()

    def add(self, level: str, name: str, message: str) -> None:
        """Add a line that is no record."""
        self.fresh.append((time.time(), level, name, message))
        if len(self.fresh) >= UNMEASURED or len(message) > LONG:
            self.measure()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written so far."""
        return not self.fresh and not self._end

    def tail(self, after: int = 0) -> Tail:
        """The end of the text, from position `after` on if the ring still has it."""
        with self._lock:
            self.measure()
            end, size = self._end, 0
            wanted: list[list[Line]] = []
            for measured, group in reversed(self._groups):
                if size >= min(KEPT_BYTES, end - after):
                    break
                wanted.append(group)
                size += measured
        text = _bounded(_SURROGATES.sub(_ABSENT, "".join(_text(line) for group in reversed(wanted) for line in group)))
        return Tail(text, end).after(after)

    def measure(self) -> None:
        """Move the new lines into the ring, and drop the oldest groups that are not needed for a whole tail."""
        with self._lock:
            group = self._taken()
            size = sum([len(level) + len(name) + len(message) for _, level, name, message in group])
            size += _FRAME * len(group)
            self._end += size
            if size > _LARGEST:
                group, size = [(None, "", "", "".join(map(_text, group))[-KEPT_BYTES:])], KEPT_BYTES
            if group:
                self._groups.append((size, group))
                self._held += size
            while self._held - (self._groups[0][0] if self._groups else self._held) >= KEPT_BYTES:
                self._held -= self._groups.popleft()[0]

    def _taken(self) -> list[Line]:
        """The new lines, taken out without a value that is hidden; other threads may append meanwhile."""
        count = len(self.fresh)
        group = self.fresh[:count]
        del self.fresh[:count]
        if self.hide is not AS_IT_IS:
            together = "\n".join([line[3] for line in group])
            if self.hide(together) != together:
                return [(at, level, name, self.hide(message)) for at, level, name, message in group]
        return group


def _bounded(text: str) -> str:
    """The end of a text, 64 KiB at most, from the beginning of a line if there is one."""
    encoded = text.encode()
    if len(encoded) <= KEPT_BYTES:
        return text
    end = encoded[-KEPT_BYTES:].decode(errors="ignore")
    _, _, whole = end.partition("\n")
    return whole or end


def _text(line: Line) -> str:
    at, level, name, message = line
    if at is None:
        return message
    whole = int(at)
    date = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(whole))
    return f"{date}.{int((at - whole) * 1000):03d} {level} {name}: {message}\n"


def traces_of(record: LogRecord) -> str:
    """The traceback and the stack of a record, each from a new line on."""
    parts = []
    if record.exc_info and record.exc_info[1] is not None:
        parts.append(record.exc_text or "".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))
    if record.stack_info:
        parts.append(record.stack_info)
    return "".join(f"\n{part}" for part in parts)
