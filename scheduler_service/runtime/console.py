"""The console: the output of several processes, merged into one stream of whole lines with their names.

Promises that no part's text controls the terminal or passes for another part's line. Owns a thread that writes, so that
a paused terminal never stops the processes: past a bound, lines are dropped and counted. Colours only on a terminal,
and never with NO_COLOR.
"""

import os
import queue
import sys
import threading
from contextlib import suppress
from typing import Final, TextIO

COLOURS: Final = (36, 33, 32, 35, 34, 96, 93, 92)
BOUND: Final = 10_000


class Console:
    """A printer of lines as `name | text`; `broken` is set once nobody reads the stream any more."""

    def __init__(self, names: list[str], stream: TextIO | None = None) -> None:
        self.broken = threading.Event()
        self._stream = stream = stream or sys.stdout
        self._width = max(map(len, names), default=0)
        coloured = stream.isatty() and not os.environ.get("NO_COLOR")
        self._colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)} if coloured else {}
        self._lines: queue.Queue[str | None] = queue.Queue(BOUND)
        self._dropped = 0
        self._writer = threading.Thread(target=self._write, daemon=True, name="console")
        self._writer.start()

    def line(self, name: str, text: str) -> None:
        """Print a line of the part `name`; control characters are shown, not obeyed."""
        self._labelled(name, harmless(text))

    def status(self, name: str, text: str) -> None:
        """Print a line about the part `name`."""
        shown = harmless(text)
        self._labelled(name, f"\033[1m* {shown}\033[0m" if self._colour else f"* {shown}")

    def plain(self, text: str) -> None:
        """Print lines without a name."""
        self._put(text)

    def _labelled(self, name: str, text: str) -> None:
        prefix = name.ljust(self._width) + " |"
        colour = self._colour.get(name)
        self._put(f"\033[{colour}m{prefix}\033[0m {text}" if colour else f"{prefix} {text}")

    def close(self, timeout: float = 2) -> None:
        """Write the remaining lines, as long as somebody reads them."""
        try:
            self._lines.put(None, timeout=timeout)
        except queue.Full:
            return  # the terminal is paused: the rest stays unwritten
        self._writer.join(timeout)

    def _put(self, text: str) -> None:
        try:
            if self._dropped:
                self._lines.put_nowait(f"... {self._dropped} lines were dropped: nobody read them in time")
                self._dropped = 0
            self._lines.put_nowait(text)
        except queue.Full:
            self._dropped += 1

    def _write(self) -> None:
        while (text := self._lines.get()) is not None:
            if self.broken.is_set():
                continue
            try:
                self._stream.write(text + "\n")
                if self._lines.empty():
                    self._stream.flush()
            except (OSError, ValueError):
                self.broken.set()
                self._let_go()

    def _let_go(self) -> None:
        """Point the stream at nothing, so that its buffer does not fail again when the process ends."""
        with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())


def harmless(text: str) -> str:
    """The text on one line, with each control, line-breaking or direction-changing character escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode("ascii") for c in text)
