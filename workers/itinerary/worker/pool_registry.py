"""The main process's knowledge of its pool: attempts with their claim, their progress, the last minute's reports.

Pool children send it datagrams, which arrive whole or not at all, however they die. Promises that an attempt counts as
claimed only after its claim was won. After Redis lost data, the reports of the last minute before can be sent again, in
order. A report may be handed over: then the main process sends it. Never talks to Redis. Children take no lock here:
one may be forked while it is held.
"""

import json
import logging
import mmap
import os
import select
import socket
import struct
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from itinerary.protocol.attempt_logs import PackedLog
from itinerary.protocol.progress import Progress
from itinerary.worker.reporting import Report

KEPT_SECONDS: Final = 60.0
PROGRESS_EVERY: Final = 1.0
# Longer than from heartbeat to heartbeat: a main process that is frozen is soon handed nothing more.
_TAKES_FOR: Final = 5.0
_INSTANT: Final = struct.Struct("d")
# So that the thread that listens wakes for many datagrams, not for each.
_GATHERS_FOR: Final = 0.004
_KEPT_BYTES: Final = 32 * 1024 * 1024
_DATAGRAM: Final = 1024 * 1024
_PLAIN_BELOW: Final = 32 * 1024

log = logging.getLogger("itinerary.worker")


@dataclass(frozen=True, slots=True)
class Kept:
    """A report as it was sent: with its token, its monotonic time, and its approximate size."""

    report: Report
    token: str
    at: float
    size: int


Shown = Callable[[], Progress | None]
Sender = Callable[[Report, str, PackedLog | None], None]


class PoolRegistry:
    """Created in the main process before its children: they call `claimed`, `shows_progress`, `waiting`, `report_sent`,
    `hand_over`.

    A child that shows progress has a thread that sends what is new of it, once a second.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pid = os.getpid()
        self._reading, self._writing = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._reading.setblocking(False)  # gevent's sockets block despite MSG_DONTWAIT
        self._writing.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _DATAGRAM)
        self._reading.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _DATAGRAM)
        self._lock = threading.Lock()
        self._claimed: set[str] = set()
        self._progress: dict[str, Shown] = {}
        self._own: tuple[str, Shown] | None = None
        self._telling_pid = 0
        self._kept: deque[Kept] = deque()
        self._size = 0
        self._has_reported = False
        self._closed = False
        self._takes_until = mmap.mmap(-1, _INSTANT.size)  # shared with the children
        self.on_waiting: Callable[[], None] = lambda: None
        self.on_report: Sender | None = None

    def close(self) -> None:
        """Stop receiving from children."""
        self._closed = True
        self._reading.close()
        self._writing.close()

    def claimed(self, task_id: str) -> None:
        """Note that this attempt's claim was won; called before its first line of user code runs."""
        self._send({"claimed": task_id})

    def shows_progress(self, task_id: str, read: Shown) -> None:
        """Note that this attempt shows progress; `read` gives its latest from any thread."""
        if os.getpid() == self._pid:
            with self._lock:
                self._progress[task_id] = read
            return
        self._own = (task_id, read)
        if self._telling_pid != os.getpid():  # a fork does not take its parent's threads along
            self._telling_pid = os.getpid()
            threading.Thread(target=self._tell_progress, name="itinerary-progress", daemon=True).start()

    def progress(self) -> dict[str, Progress]:
        """The latest progress of the attempts that show one."""
        with self._lock:
            self._receive()
            latest = [(task_id, read()) for task_id, read in self._progress.items()]
        return {task_id: progress for task_id, progress in latest if progress is not None}

    def waiting(self) -> None:
        """Note that a claim must wait until the leader has this worker's report."""
        self._send({"waiting": True})

    def report_sent(self, report: Report, token: str) -> None:
        """Note a report that is about to be sent."""
        self._send({"report": _as_json(report), "token": token})

    def take_reports(self, take: bool) -> None:
        """Let `on_report` send what is handed over in the next seconds, or let each process send its own."""
        until = self._clock() + _TAKES_FOR if take else 0.0
        _INSTANT.pack_into(self._takes_until, 0, until)

    def hand_over(self, report: Report, token: str, log: PackedLog | None) -> bool:
        """Note a report that the main process is to send; False if the caller must."""
        (until,) = _INSTANT.unpack_from(self._takes_until)
        if self._clock() >= until:
            return False
        packed = None if log is None else [log.text, log.end]
        return self._send({"report": _as_json(report), "token": token, "log": packed})

    def is_claimed(self, task_id: str) -> bool:
        """Whether this attempt has its claim; true as long as no process ever reported one, since then none can."""
        return task_id in self.all_claimed() or not self._has_reported

    def all_claimed(self) -> set[str]:
        """The attempts that have their claim and are not known to be over."""
        with self._lock:
            self._receive()
            return set(self._claimed)

    def over(self, task_ids: Iterable[str]) -> None:
        """Forget attempts that the worker no longer has."""
        with self._lock:
            for task_id in task_ids:
                self._claimed.discard(task_id)
                self._progress.pop(task_id, None)

    def recent_reports(self) -> list[Kept]:
        """The kept reports, oldest first."""
        with self._lock:
            self._receive()
            return list(self._kept)

    def forget_old(self) -> None:
        """Drop reports sent over a minute ago, which Redis still has."""
        with self._lock:
            while self._kept and self._kept[0].at < self._clock() - KEPT_SECONDS:
                self._size -= self._kept.popleft().size

    def start_listening(self) -> None:
        """Receive from the children within milliseconds, so that none has to wait; in a thread of its own."""
        threading.Thread(target=self._listen, name="itinerary-board", daemon=True).start()

    def _listen(self) -> None:
        while not self._closed:
            try:
                select.select([self._reading], [], [])
                with self._lock:
                    waiting = self._receive()
            except (OSError, ValueError):
                if self._closed:
                    return
                raise
            if waiting:
                self.on_waiting()
            time.sleep(_GATHERS_FOR)

    def _tell_progress(self) -> None:
        """Send what is new, for the life of the child: its attempts come one after the other."""
        sent: tuple[str, Progress | None] | None = None
        while True:
            if self._own is not None:
                task_id, read = self._own
                latest = (task_id, read())
                if latest != sent:
                    sent = latest
                    self._send({"progress": latest})
            time.sleep(PROGRESS_EVERY)

    def _send(self, word: dict[str, Any]) -> bool:
        if os.getpid() == self._pid:
            with self._lock:
                waiting = self._receive()
                waiting = self._take_in(word, 0) or waiting
            if waiting:
                self.on_waiting()
            return True
        text = json.dumps(word).encode()
        try:
            self._writing.send(text if len(text) < _PLAIN_BELOW else zlib.compress(text, 1))
        except OSError as exc:
            # The main process is gone, and we soon too; or the text exceeds the system's limit.
            log.warning("the worker's main process could not be told %d bytes: %s", len(text), exc)
            return False
        return True

    def _receive(self) -> bool:
        """Process all datagrams; return whether a claim waits."""
        waiting = False
        while True:
            try:
                text = self._reading.recv(_DATAGRAM)
            except BlockingIOError:
                return waiting
            whole = text if text.startswith(b"{") else zlib.decompress(text)
            waiting = self._take_in(json.loads(whole.decode()), len(whole)) or waiting

    def _take_in(self, word: dict[str, Any], size: int) -> bool:
        if "claimed" in word:
            self._has_reported = True
            self._claimed.add(word["claimed"])
        elif "progress" in word:
            task_id, latest = word["progress"]
            if task_id in self._claimed:  # not of one that is over, which nobody would forget
                self._progress[task_id] = partial(Progress, *latest)
        elif "report" in word:
            report = Report(**word["report"])
            self._keep(Kept(report, word["token"], self._clock(), size or len(str(report.body))))
            if "log" in word and self.on_report is not None:
                self.on_report(report, word["token"], PackedLog(*word["log"]) if word["log"] else None)
        return "waiting" in word

    def _keep(self, kept: Kept) -> None:
        self._kept.append(kept)
        self._size += kept.size
        while self._size > _KEPT_BYTES:
            self._size -= self._kept.popleft().size


def _as_json(report: Report) -> dict[str, Any]:
    return {"task_id": report.task_id, "kind": report.kind, "at": report.at, "body": dict(report.body)}


def is_gone(pid: int | None) -> bool:
    """Whether a pool child has ended; a pool of threads reports our own process."""
    if pid is None or pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False
