"""The logs of attempts: captured while they run, published while somebody watches, packed for the report of their end.

Owns one thread in each process that runs tasks; it sends what watchers wait for. Promises that no error of logs reaches
a task or its report, and that an attempt which nobody watches causes no traffic. If the process is killed, the lines of
its attempt are gone with it: only watchers may have seen them.
"""

import logging
import os
import threading
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from celery.exceptions import SoftTimeLimitExceeded

from itinerary.protocol.attempt_logs import WATCHED_SECONDS, KeepLogs, PackedLog, packed
from itinerary.protocol.field_types import Choice
from itinerary.protocol.wire import HEADER_KEEP_LOGS, HEADER_LOGS
from itinerary.worker.connection import RedisConnection
from itinerary.worker.hiding import Hide
from itinerary.worker.log_capture import Capture
from itinerary.worker.log_ring import LogRing
from itinerary.worker.watched import WatchedAttempts

_PUBLISHED_EVERY: Final = 0.25
# At most half a mebibyte of a watched attempt lies in Redis.
_ENTRIES: Final = 8

# KEYS: the sign that somebody watches, the stream. ARGV: the position of the text's end, of its start, the text, the
# number of entries, and seconds. A position is the entry's id, so that a watcher reads on from the one it has.
_PUBLISH: Final = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[4], ARGV[1] .. '-0', 'start', ARGV[2], 'text', ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[5])
return 1
"""

log = logging.getLogger("itinerary.worker")


class Captured(Enum):
    """The lines that are captured of a task: the records of its loggers, also what it prints, or none."""

    RECORDS = "records"
    OUTPUT = "output"
    NOTHING = "nothing"


def read_captured(text: str) -> Captured:
    """The value of the argument of `attach`; BadValue if it is none."""
    return Captured(CAPTURED.read(text, "logs"))


CAPTURED: Final = Choice(Captured)


class AttemptLog:
    """The log of one attempt that runs here."""

    def __init__(self, logs: "TaskLogs", task_id: str, keep: KeepLogs, ring: LogRing) -> None:
        self.task_id = task_id
        self._logs = logs
        self._keep = keep
        self._ring = ring
        self._published = 0

    def end(self, failed: bool) -> PackedLog | None:
        """Stop capturing; return the log if it is to be kept."""
        self._logs.ended(self)
        if self._ring.is_empty or not (failed or self._keep is KeepLogs.ALL or self._logs.watched.shows(self.task_id)):
            return None
        try:
            return packed(self._ring.tail())
        except Exception as exc:  # noqa: BLE001 - a report must not wait for a log, whatever is wrong with it
            log.warning("%s ends without its log: %r", self.task_id, exc)
            return None

    def publish(self, connection: RedisConnection) -> None:
        """Send the lines since the last time to the watchers, if there are both."""
        tail = self._ring.tail(self._published)
        if tail.text:
            keys = [connection.keys.watch(self.task_id), connection.keys.live_log(self.task_id)]
            args = [str(tail.end), str(tail.start), tail.text, str(_ENTRIES), str(WATCHED_SECONDS)]
            if connection.run_script(_PUBLISH, keys, args):
                self._published = tail.end


class TaskLogs:
    """The logs of one worker; created in its main process, used in each process that runs tasks."""

    def __init__(self, connection: RedisConnection, *, output: bool) -> None:
        self.watched = WatchedAttempts()
        self._connection = connection
        self._output = output
        self._main_pid = os.getpid()
        self._pid = 0
        self._starting = threading.Lock()  # of the threads of a pool
        self._running: dict[str, AttemptLog] = {}
        self._some = threading.Event()

    def begin(self, headers: Mapping[str, Any], task_id: str, hide: Hide) -> AttemptLog | None:
        """Capture from now on, unless the service does not keep logs or this run wants none."""
        asked = headers.get(HEADER_KEEP_LOGS)
        keep = KeepLogs(asked) if asked in _CHOICES else KeepLogs.FAILURES
        if not headers.get(HEADER_LOGS) or keep is KeepLogs.NONE:
            return None
        try:
            with self._starting:
                if os.getpid() != self._pid:
                    self._start()
            started = AttemptLog(self, task_id, keep, self._capture.begin(hide))
        except SoftTimeLimitExceeded:  # a signal's, meant for the task
            raise
        except Exception as exc:  # noqa: BLE001 - a task must not fail for its log
            log.warning("%s runs without its log: %r", task_id, exc)
            return None
        self._running[task_id] = started
        if not self._some.is_set():
            self._some.set()
        return started

    def ended(self, one: AttemptLog) -> None:
        """Capture nothing more of it, and publish nothing more."""
        self._capture.end()
        self._running.pop(one.task_id, None)

    def _start(self) -> None:
        pid = os.getpid()
        self._running, self._some = {}, threading.Event()
        self._capture = Capture(output=self._output, alone=pid != self._main_pid)
        threading.Thread(target=self._publish, name="itinerary-logs", daemon=True).start()
        self._pid = pid

    def _publish(self) -> None:
        pause = threading.Event()
        while True:
            self._some.wait()
            pause.wait(_PUBLISHED_EVERY)  # first: short tasks need not wake this thread, each for itself
            while self._running:
                if self.watched.any():
                    self._publish_watched()
                pause.wait(_PUBLISHED_EVERY)
            self._some.clear()
            if self._running:  # begun just before
                self._some.set()

    def _publish_watched(self) -> None:
        for one in list(self._running.values()):
            if self.watched.shows(one.task_id):
                try:
                    one.publish(self._connection)
                except Exception as exc:  # noqa: BLE001 - watchers wait; the task does not
                    log.debug("%s is watched, but its lines are not sent: %r", one.task_id, exc)


_CHOICES: Final = tuple(one.value for one in KeepLogs)  # no set: a header may be anything


def logs_of(captured: Captured, connection: RedisConnection) -> TaskLogs | None:
    """The logs of a worker, or None if it captures nothing."""
    return None if captured is Captured.NOTHING else TaskLogs(connection, output=captured is Captured.OUTPUT)
