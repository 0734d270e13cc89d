"""The worker's main process: reports every two seconds what it runs and holds, and reports for killed children.

Owns one daemon thread, started when the worker is ready. Promises that held reports are sent in order before the next
heartbeat. A child told to stop is listed until it is gone or has reported. In a new epoch of Redis it repeats recent
reports before its heartbeat names that epoch. Never blocks Celery's event loop, and never runs in a pool child.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final
from uuid import uuid4

from celery.worker import state

from itinerary.protocol.batches import batched
from itinerary.protocol.instants import format_instant
from itinerary.protocol.progress import PROGRESS_FIELD, listed
from itinerary.protocol.wire import (
    HEARTBEAT_SECONDS,
    PROTOCOL,
    PROTOCOL_FIELD,
    QUERY_EPOCH,
    RECALLS_FIELD,
    SINCE_FIELD,
    VERSION_FIELD,
    entry,
)
from itinerary.version import VERSION
from itinerary.worker.claim import Verdict
from itinerary.worker.connection import AWAY, RedisConnection
from itinerary.worker.delivery import is_ours
from itinerary.worker.held import HeldRequests
from itinerary.worker.pool_registry import PoolRegistry
from itinerary.worker.reporting import clock, is_reported, send
from itinerary.worker.watched import WatchedAttempts, find_watched

EVERY: Final = float(HEARTBEAT_SECONDS)
_FAREWELL_WITHIN: Final = 5.0
_TOO_DEEP: Final = 50_000
_ASKED_EVERY: Final = 60.0
_ASKED_FIRST_AFTER: Final = 10.0
_TRIED_AGAIN_AFTER: Final = 0.5
# An id has at most 300 characters, a progress 200, and an inbox entry half a million.
_IN_ONE_ENTRY: Final = 600  # two such lists fit into one entry of the inbox, the first with progress
_LISTED_AT_ONCE: Final = 20_000

log = logging.getLogger("itinerary.worker")


@dataclass(frozen=True, slots=True)
class PendingSend:
    """An action that must reach Redis and may be repeated; with `pid`, only once that process or greenlet is gone.

    An action that returns `Verdict.WAIT` is repeated after the next heartbeat.
    """

    task_id: str
    action: Callable[[], object]
    pid: int | None = None


class Heartbeater(threading.Thread):
    """The sending thread: `enqueue` takes pending sends, `beat_soon` asks for a heartbeat, `stop` sends a farewell."""

    def __init__(
        self, connection: RedisConnection, registry: PoolRegistry, worker: str, consumer: Any, received: HeldRequests
    ) -> None:
        super().__init__(name="itinerary-heart", daemon=True)
        self._connection = connection
        self._registry = registry
        self._worker = worker
        self._consumer = consumer
        self._requests = received
        self._since = format_instant(clock())
        self._inbox: queue.SimpleQueue[PendingSend | None] = queue.SimpleQueue()
        self._held: list[PendingSend] = []
        self._leaving: list[PendingSend] = []
        self._not_yet: list[PendingSend] = []
        self._epoch: str | None = None
        self._missing: set[str] = set()
        self._over: set[str] = set()
        self._listed_until = 0
        self._beaten_at = float("-inf")
        self._pause = EVERY
        self._hurried = False
        self._stopping = False
        self._asked_at = time.monotonic() - _ASKED_EVERY + _ASKED_FIRST_AFTER
        self.asks: Callable[[], bool] = lambda: True
        self.watched: WatchedAttempts | None = None
        self.known: Callable[[dict[str, Any], int], list[Any]] = lambda body, part: []

    def enqueue(self, pending: PendingSend) -> None:
        """Send this soon, repeatedly until Redis answers."""
        self._inbox.put(pending)

    def beat_soon(self) -> None:
        """Send the next heartbeat early, because a claim waits for it."""
        self._hurried = True
        self._inbox.put(None)

    def run(self) -> None:
        """Send reports as they come, and heartbeats every two seconds or sooner if requested, until `stop`."""
        while not self._stopping:
            self._collect(self._next_beat() - time.monotonic())
            if not self._deliver():
                self._collect(_TRIED_AGAIN_AFTER)
            elif time.monotonic() >= self._next_beat():
                self._hurried = False
                self._pause = EVERY if self._beat() else _TRIED_AGAIN_AFTER
                self._beaten_at = time.monotonic()
                self._ask()
                find_watched(self.watched, self._connection, self._registry.all_claimed)
                self._held, self._not_yet = [*self._not_yet, *self._held], []

    def _ask(self) -> None:
        """Repeat the open check once a minute, beside the heartbeats, until it succeeds."""
        if time.monotonic() - self._asked_at >= _ASKED_EVERY:
            self._asked_at = time.monotonic()
            if self.asks():
                self.asks = lambda: True

    def _next_beat(self) -> float:
        return self._beaten_at + (min(self._pause, _TRIED_AGAIN_AFTER) if self._hurried else self._pause)

    def stop(self) -> None:
        """Send the pending reports and a farewell to the leader; bounded, since Redis may be away."""
        self._stopping = True
        self._inbox.put(None)
        self.join(_FAREWELL_WITHIN)
        if not self.is_alive() and self._deliver():
            self._beat(farewell=True)

    def _collect(self, seconds: float) -> None:
        """Receive pending sends, waiting up to `seconds` for the first."""
        try:
            pending = self._inbox.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return
        if pending is not None:
            (self._held if pending.pid is None else self._leaving).append(pending)

    def _deliver(self) -> bool:
        """Send all that is due, oldest first; False if Redis is away."""
        while not self._inbox.empty():
            self._collect(0)
        greenlets = getattr(self._consumer.pool, "_pool_map", {})  # gevent's "pids" are not processes
        gone = [pending for pending in self._leaving if pending.pid not in greenlets and _is_gone(pending.pid)]
        self._held += gone
        self._leaving = [pending for pending in self._leaving if pending not in gone]
        try:
            self._leaving = [pending for pending in self._leaving if not is_reported(self._connection, pending.task_id)]
            while self._held:
                self._do(self._held[0])
                del self._held[0]
        except AWAY as exc:
            log.warning("redis is away, reports are held count=%d: %s", len(self._held), exc)
            return False
        return True

    def _do(self, pending: PendingSend) -> None:
        try:
            if pending.action() is Verdict.WAIT:
                self._not_yet.append(pending)
        except AWAY:
            raise
        except Exception:
            log.exception("a report cannot be sent and is given up")  # it would block all later ones

    def _beat(self, farewell: bool = False) -> bool:
        """Send one heartbeat; False if Redis is away.

        Skipped while the inbox is too deep, except the first heartbeat of an epoch: the leader needs it.
        """
        try:
            is_first = self._report_again()
            # Listed only now, to include attempts claimed before the data were lost.
            parts = self._parts(farewell)
            depth: Any = self._connection.client.xlen(self._connection.keys.inbox)
            if is_first or depth < _TOO_DEEP:
                with self._connection.client.pipeline(transaction=False) as pipe:
                    for part in parts:
                        pipe.xadd(self._connection.keys.inbox, part)
                    pipe.execute()
        except AWAY as exc:
            log.warning("redis is away, no heartbeat: %s", exc)
            return False
        return True

    def _report_again(self) -> bool:
        """Send recent reports again if Redis is another one or has other data; return whether it is."""
        own = self._connection.keys
        keys = [own.epoch, own.epoch_seen, own.server_mark]
        answer: Any = self._connection.run_script(QUERY_EPOCH, keys, [uuid4().hex])
        name = str(answer[0])
        if name == self._epoch:
            self._registry.forget_old()
            return False
        kept = self._registry.recent_reports()
        for one in kept:
            send(self._connection, one.report, one.token, claimed=True, again=True)
        if kept:
            log.warning("redis may have lost data, reports are sent again count=%d", len(kept))
        self._epoch = name
        return True

    def _parts(self, farewell: bool) -> list[Any]:
        """The heartbeat as entries, more than one if the lists are long."""
        running, received = ([], []) if farewell else self._listed()
        body = {
            "worker": self._worker,
            PROTOCOL_FIELD: PROTOCOL,
            RECALLS_FIELD: True,
            VERSION_FIELD: VERSION,
            SINCE_FIELD: self._since,
            # A leader of the previous release recognises the farewell only by a concurrency of 0.
            "concurrency": 0 if farewell else self._concurrency(),
            "leaving": farewell,
            "queues": self._queues(),
            "generation": self._epoch,
        }
        of = {} if farewell else self._registry.progress()
        slices = [batched(running, _IN_ONE_ENTRY), batched(received, _IN_ONE_ENTRY)]
        pairs = list(zip_longest(*slices, fillvalue=())) or [((), ())]
        lists = [
            entry(
                "heartbeat",
                clock(),
                body
                | {"running": runs, "received": waits}
                | ({PROGRESS_FIELD: shown} if of and (shown := listed(runs, of)) else {})
                | ({"part": n} if n else {}),
            )
            for n, (runs, waits) in enumerate(pairs)
        ]
        return lists if farewell else [*lists, *self.known(body, len(lists))]

    def _listed(self) -> tuple[list[str], list[str]]:
        """The attempts (running, received): claimed ones are running; the others wait for their claim or their turn."""
        claimed = self._registry.all_claimed()
        ours = [request.id for request in _snapshot(state.requests) if is_ours(request.request_dict)]
        held = set(self._requests.unacknowledged())
        missing = claimed.difference(ours)
        # Not at once: the report for a killed child may be about to need it.
        over = missing & self._missing
        self._registry.over(over)
        # A second message of an attempt that ran here and ended may still wait here: that does not keep it alive.
        self._over = (self._over | over) & held
        self._missing = missing
        leaving = [pending.task_id for pending in self._leaving]
        waiting = [t for t in ours if t not in claimed]
        waiting += held.difference(ours, claimed, self._over)
        return [*(t for t in ours if t in claimed), *leaving], self._in_turn(waiting)

    def _in_turn(self, waiting: list[str]) -> list[str]:
        """The ids that fit into one heartbeat; the others follow in the next ones."""
        if len(waiting) <= _LISTED_AT_ONCE:
            return waiting
        waiting.sort()
        at = self._listed_until % len(waiting)
        self._listed_until = at + _LISTED_AT_ONCE
        return (waiting[at:] + waiting[:at])[:_LISTED_AT_ONCE]

    def _concurrency(self) -> int:
        """The number of tasks that can run at once; Celery below 5.7 counts running greenlets for a green pool."""
        pool = self._consumer.pool
        places = "limit" if getattr(pool, "is_green", False) else "num_processes"
        return int(getattr(pool, places, 0) or 0)

    def _queues(self) -> list[str]:
        consumed: Mapping[str, Any] = self._consumer.app.amqp.queues.consume_from
        return sorted(consumed)


def _is_gone(pid: int | None) -> bool:
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


def _snapshot(requests: Mapping[str, Any]) -> Iterable[Any]:
    """The worker's requests, while its main thread may change them."""
    while True:
        try:
            return list(requests.values())
        except RuntimeError:
            continue  # changed while copied
