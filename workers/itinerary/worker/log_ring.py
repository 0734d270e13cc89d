"""The last lines of one attempt, in memory: a ring of bounded size, whatever the task writes.

Owns the form of a line and the positions: characters since the attempt began. Promises that a tail is the end of all
that was written, at most 64 KiB of UTF-8, without a value that `hide` knows. Adding a line costs a fifth of a
microsecond: lines are measured in groups, and become text only when asked for. Never talks to Redis.
"""

import re
import threading
import time
import traceback
from collections import deque
from logging import LogRecord
from typing import Any, Final

from itinerary.protocol.attempt_logs import KEPT_BYTES, Tail
from itinerary.worker.hiding import AS_IT_IS, Hide

_UNMEASURED: Final = 64
_LONG: Final = 4 * 1024
# A larger group is cut at once: a ring holds no more than this beside its tail.
_LARGEST: Final = _UNMEASURED * _LONG
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_ABSENT: Final = "\ufffd"
# Date, spaces, colon and line feed beside level, name and message: see `_text`.
_FRAME: Final = 28
# A time, level, name and message; without a time, the message is the end of a line that was longer than the ring.
_Line = tuple[float | None, str, str, str]


class LogRing:
    """The lines of one attempt; several threads of its task may add to it."""

    __slots__ = ("_end", "_fresh", "_groups", "_held", "_hide", "_lock")

    def __init__(self, hide: Hide = AS_IT_IS) -> None:
        self._hide = hide
        self._fresh: list[_Line] = []
        self._groups: deque[tuple[int, list[_Line]]] = deque()
        self._held = 0
        self._end = 0
        # Reentrant: a signal's handler may log while this thread measures.
        self._lock = threading.RLock()

    def add_record(self, record: LogRecord) -> None:
        """Add a record as the handlers before show it: with its traceback, if it has one."""
        message = record.__dict__.get("message")  # those handlers have formatted it
        if message is None:
            message = record.getMessage()
        if record.exc_info or record.stack_info:
            message = f"{message}{_trace(record)}"
        if self._hide is not AS_IT_IS:
            message = self._hide(message)
        fresh = self._fresh
        fresh.append((record.created, record.levelname, record.name, message))
        if len(fresh) >= _UNMEASURED or len(message) > _LONG:
            self._measure()

    def add(self, level: str, name: str, message: str) -> None:
        """Add a line that is no record."""
        self._fresh.append((time.time(), level, name, self._hide(message)))
        if len(self._fresh) >= _UNMEASURED or len(message) > _LONG:
            self._measure()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written so far."""
        return not self._fresh and not self._end

    def tail(self, after: int = 0) -> Tail:
        """The end of the text, from position `after` on if the ring still has it."""
        with self._lock:
            self._measure()
            end, size = self._end, 0
            wanted: list[list[_Line]] = []
            for measured, group in reversed(self._groups):
                if size >= min(KEPT_BYTES, end - after):
                    break
                wanted.append(group)
                size += measured
        text = _bounded(_SURROGATES.sub(_ABSENT, "".join(_text(line) for group in reversed(wanted) for line in group)))
        return Tail(text, end).after(after)

    def _measure(self) -> None:
        """Move the new lines into the ring, and drop the oldest groups that are not needed for a whole tail."""
        with self._lock:
            group, self._fresh = self._fresh, []
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


def _bounded(text: str) -> str:
    """The end of a text, 64 KiB at most, from the beginning of a line if there is one."""
    encoded = text.encode()
    if len(encoded) <= KEPT_BYTES:
        return text
    end = encoded[-KEPT_BYTES:].decode(errors="ignore")
    _, _, whole = end.partition("\n")
    return whole or end


def _text(line: _Line) -> str:
    at, level, name, message = line
    if at is None:
        return message
    whole = int(at)
    date = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(whole))
    return f"{date}.{int((at - whole) * 1000):03d} {level} {name}: {message}\n"


def _trace(record: Any) -> str:
    parts = []
    if record.exc_info and record.exc_info[1] is not None:
        parts.append(record.exc_text or "".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))
    if record.stack_info:
        parts.append(record.stack_info)
    return "".join(f"\n{part}" for part in parts)
