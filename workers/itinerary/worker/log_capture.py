"""The lines that a task writes while it runs: records of its loggers, and its output where `attach` is to keep it.

Owns the handler beside those of the worker's loggers, and the ring of the attempt that runs here. Promises that no
error of this file reaches a task. Nobody's handlers or levels are replaced, and streams only where output is kept.
Never talks to Redis.
"""

import logging
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Final, TextIO

from celery.exceptions import SoftTimeLimitExceeded

from itinerary.protocol.attempt_logs import KEPT_BYTES
from itinerary.worker.hiding import Hide
from itinerary.worker.log_ring import LONG, UNMEASURED, LogRing, traces_of

# Celery's logger of what a task prints, where it redirects output to its logs, which it does by default.
_REDIRECTED: Final = "celery.redirected"
# Lines of Celery and of ours about a run, beside the task's own.
_NOT_THE_TASKS: Final = frozenset({"celery.app.trace", "celery.pool", "celery.worker.request", "itinerary.worker"})

log = logging.getLogger("itinerary.worker")

_here: Final[ContextVar[LogRing | None]] = ContextVar("itinerary_logs", default=None)


class Capture(logging.Handler):
    """The handler of one process: it adds each record to the ring of the attempt that wrote it.

    `alone`: the process runs one task at a time, so that records of threads that a task started are its own.
    """

    def __init__(self, *, output: bool, alone: bool) -> None:
        super().__init__()
        self._left_out = _NOT_THE_TASKS if output else _NOT_THE_TASKS | {_REDIRECTED}
        self._output = output
        self._alone = alone
        self._only: LogRing | None = None
        self._searched = False
        self._copied: dict[str, _Copied] = {}

    def begin(self, hide: Hide) -> LogRing:
        """Keep from now on what the task writes whose attempt begins in this thread or greenlet."""
        self._listen()
        self._end_lines()  # begun when no task ran: they are nobody's
        ring = LogRing(hide)
        _here.set(ring)
        self._only = ring if self._alone else None
        return ring

    def end(self) -> None:
        """Keep nothing more of it; a line that it did not end is its own, not the next one's."""
        self._end_lines()
        _here.set(None)
        self._only = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Add the record as the handlers before show it; called for each, without a lock, and in one frame.

        Its text is taken now: what its arguments hold may be another thing when the log is read.
        """
        ring = self._only or _here.get()  # not by `ring()`: a frame costs a task that logs much
        if ring is None or (name := record.name) in self._left_out:
            return True
        try:
            try:
                message = record.message  # those handlers have formatted it
            except AttributeError:
                message = record.getMessage()
            if record.exc_info or record.stack_info:
                message = f"{message}{traces_of(record)}"
            fresh = ring.fresh
            fresh.append((record.created, record.levelname, name, message))
            if len(fresh) >= UNMEASURED or len(message) > LONG:
                ring.measure()
        except SoftTimeLimitExceeded:  # a signal's, meant for the task
            raise
        except Exception as exc:  # noqa: BLE001 - a record's arguments are the user's and may raise anything
            ring.add(record.levelname, name, f"<a record that cannot be shown: {type(exc).__name__}>")
        return True

    def ring(self) -> LogRing | None:
        """The ring of the attempt whose code this is."""
        return self._only or _here.get()

    def _listen(self) -> None:
        """Stand behind the handlers that are there: logging may have been set up anew since the last task."""
        for logger in self._ends():
            if logger.handlers and self not in logger.handlers:
                logger.addHandler(self)
        if self._output:
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if not isinstance(stream, _Copied) and type(stream).__name__ != "LoggingProxy":
                    self._copied[name] = _Copied(stream, name, self)
                    setattr(sys, name, self._copied[name])

    def _end_lines(self) -> None:
        for stream in self._copied.values():
            stream.end_line()

    def _ends(self) -> Iterator[logging.Logger]:
        """The loggers at which records end: root, Celery's own for tasks, and once those of the user's."""
        yield logging.getLogger()
        tasks = logging.getLogger("celery.task")
        if not tasks.propagate:
            yield tasks
        if not self._searched:
            self._searched = True
            for logger in list(logging.Logger.manager.loggerDict.values()):
                if isinstance(logger, logging.Logger) and not logger.propagate:
                    yield logger


class _Open(threading.local):
    """The output of a thread since its last whole line, and its length."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0


class _Copied:
    """A stream of output, whose whole lines are also added to the ring."""

    def __init__(self, stream: TextIO, name: str, capture: Capture) -> None:
        self._stream = stream
        self._name = name
        self._capture = capture
        self._of_thread = _Open()

    def write(self, text: str) -> int:
        """Write to the stream, and keep."""
        written = self._stream.write(text)
        try:
            self._keep(text)
        except SoftTimeLimitExceeded:
            raise
        except Exception as exc:  # noqa: BLE001 - printing must not fail for a copy
            log.debug("output is not kept: %r", exc)
        return written

    def end_line(self) -> None:
        """Keep what this thread wrote since its last whole line."""
        if self._of_thread.parts:
            self._keep("\n")

    def writelines(self, lines: Any) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def _keep(self, text: str) -> None:
        """Add the lines that end here: whole, since a value to hide may stand across two writes."""
        here = self._of_thread
        here.parts.append(text)
        here.size += len(text)
        if "\n" in text:
            *lines, rest = "".join(here.parts).split("\n")
            here.parts, here.size = [rest] if rest else [], len(rest)
            ring = self._capture.ring()
            if ring is not None:
                for line in lines:
                    ring.add("OUTPUT", self._name, line)
        elif here.size > 2 * KEPT_BYTES:
            ring = self._capture.ring()
            end = "" if ring is None else ring.hide("".join(here.parts))[-KEPT_BYTES:]
            here.parts, here.size = [end], len(end)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
