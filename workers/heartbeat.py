"""The worker's main process: says every two seconds what it runs and holds, and reports for children that were killed.

Owns one daemon thread, started when the worker is ready. Promises that held reports go out in order before the next
heartbeat, that a child that was told to stop is listed until it is gone or has reported, and that nothing here blocks
Celery's event loop. Never runs in a pool child.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from celery.worker import state

from scheduler_service.core.wire import INBOX, entry
from workers.connection import AWAY, RedisConnection
from workers.delivery import is_ours
from workers.reporting import clock, is_reported

EVERY: Final = 2.0
_FAREWELL_WITHIN: Final = 5.0
_NOT_CLAIMED_YET: Final = 1.0
_TOO_DEEP: Final = 50_000
_TRIED_AGAIN_AFTER: Final = 0.5

log = logging.getLogger("itinerary.worker")


@dataclass(frozen=True, slots=True)
class Owed:
    """What must reach Redis, and may be done twice; where `pid` is given, not before that process is gone."""

    task_id: str
    action: Callable[[], object]
    pid: int | None = None


class Heart(threading.Thread):
    """The thread. `enqueue` takes what is owed; `stop` says farewell."""

    def __init__(self, connection: RedisConnection, worker: str, consumer: Any) -> None:
        super().__init__(name="itinerary-heart", daemon=True)
        self._connection = connection
        self._worker = worker
        self._consumer = consumer
        self._inbox: queue.SimpleQueue[Owed | None] = queue.SimpleQueue()
        self._held: list[Owed] = []
        self._leaving: list[Owed] = []
        self._stopping = False

    def enqueue(self, owed: Owed) -> None:
        """Do it soon, again and again until Redis answers."""
        self._inbox.put(owed)

    def run(self) -> None:
        """Until `stop`: reports as they come, heartbeats every two seconds."""
        next_beat = time.monotonic()
        while not self._stopping:
            self._collect(next_beat - time.monotonic())
            if not self._deliver():
                self._collect(_TRIED_AGAIN_AFTER)
            elif time.monotonic() >= next_beat:
                next_beat = time.monotonic() + EVERY
                running, received = _listed()
                leaving = [owed.task_id for owed in self._leaving]
                self._beat([*running, *leaving], received, concurrency=self._concurrency())

    def stop(self) -> None:
        """Deliver what is owed and tell the leader that this worker is gone; bounded, Redis may be away."""
        self._stopping = True
        self._inbox.put(None)
        self.join(_FAREWELL_WITHIN)
        if not self.is_alive() and self._deliver():
            self._beat([], [], concurrency=0)

    def _collect(self, seconds: float) -> None:
        """Take in what is owed, waiting up to `seconds` for the first."""
        try:
            owed = self._inbox.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return
        if owed is not None:
            (self._held if owed.pid is None else self._leaving).append(owed)

    def _deliver(self) -> bool:
        """Do all that is due, oldest first; False where Redis is away."""
        while not self._inbox.empty():
            self._collect(0)
        gone = [owed for owed in self._leaving if _is_gone(owed.pid)]
        self._held += gone
        self._leaving = [owed for owed in self._leaving if owed not in gone]
        try:
            self._leaving = [owed for owed in self._leaving if not is_reported(self._connection, owed.task_id)]
            while self._held:
                self._do(self._held[0])
                del self._held[0]
        except AWAY as exc:
            log.warning("redis is away, reports are held count=%d: %s", len(self._held), exc)
            return False
        return True

    def _do(self, owed: Owed) -> None:
        try:
            owed.action()
        except AWAY:
            raise
        except Exception:
            log.exception("a report cannot be sent and is given up")  # it would stop all later ones

    def _beat(self, running: list[str], received: list[str], concurrency: int) -> None:
        """One heartbeat; left out where the leader has stopped reading, since nobody would learn from it."""
        body = {
            "worker": self._worker,
            "running": running,
            "received": received,
            "concurrency": concurrency,
            "queues": self._queues(),
        }
        fields: Any = entry("heartbeat", clock(), body)
        try:
            depth: Any = self._connection.client.xlen(INBOX)
            if depth < _TOO_DEEP:
                self._connection.client.xadd(INBOX, fields)
        except AWAY as exc:
            log.warning("redis is away, no heartbeat: %s", exc)

    def _concurrency(self) -> int:
        return int(getattr(self._consumer.pool, "num_processes", 0) or 0)

    def _queues(self) -> list[str]:
        consumed: Mapping[str, Any] = self._consumer.app.amqp.queues.consume_from
        return sorted(consumed)


def _listed() -> tuple[list[str], list[str]]:
    """(running, received): a task accepted a moment ago may not have its claim yet and counts as received."""
    claimed_before = time.time() - _NOT_CLAIMED_YET
    ours = [request for request in _snapshot(state.requests) if is_ours(request.request_dict)]
    running = [r.id for r in ours if r.time_start is not None and r.time_start <= claimed_before]
    started = set(running)
    return running, [r.id for r in ours if r.id not in started]


def _is_gone(pid: int | None) -> bool:
    """Whether a pool child has left; a pool without processes names our own, or none that the system knows."""
    if pid is None or pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False


def _snapshot(requests: Mapping[str, Any]) -> Iterable[Any]:
    """The worker's requests, while its main thread may change them."""
    while True:
        try:
            return list(requests.values())
        except RuntimeError:
            continue  # changed while copied
