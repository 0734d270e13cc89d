"""The worker's main process: sends its pool's reports, those for killed children, and every two seconds what it holds.

Owns one daemon thread, started when the worker is ready. Promises that held reports are sent in order before the next
heartbeat, and that a warm shutdown waits for them. While Redis is away it takes no more of them: then each task's own
process holds its report, and its slot with it. A child told to stop is listed until it is gone or has reported. In
a new epoch of Redis it repeats recent reports before its heartbeat names that epoch. Never blocks Celery's event loop,
and never runs in a pool child.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import zip_longest
from typing import Any, Final
from uuid import uuid4

from itinerary.protocol.attempt_logs import PackedLog
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
from itinerary.worker.connection import AWAY, RedisConnection
from itinerary.worker.held import HeldRequests
from itinerary.worker.listing import Listing
from itinerary.worker.outbox import HandedOver, Outbox
from itinerary.worker.pending import PendingSend
from itinerary.worker.pool_registry import KEPT_SECONDS, PoolRegistry, is_gone
from itinerary.worker.reporting import Report, clock, is_reported, send
from itinerary.worker.warm_stop import ends_at_once
from itinerary.worker.watched import WatchedAttempts, find_watched

EVERY: Final = float(HEARTBEAT_SECONDS)
_FAREWELL_WITHIN: Final = 5.0
_TOO_DEEP: Final = 50_000
_ASKED_EVERY: Final = 60.0
_ASKED_FIRST_AFTER: Final = 10.0
_TRIED_AGAIN_AFTER: Final = 0.5
_WARNED_EVERY: Final = 10.0
# An id has at most 300 characters, a progress 200, and an inbox entry half a million.
_IN_ONE_ENTRY: Final = 600  # two such lists fit into one entry of the inbox, the first with progress

log = logging.getLogger("itinerary.worker")


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
        self._listing = Listing(registry, received)
        self._outbox = Outbox(connection)
        self._since = format_instant(clock())
        self._inbox: queue.SimpleQueue[PendingSend | None] = queue.SimpleQueue()
        self._held: list[PendingSend] = []
        self._leaving: list[PendingSend] = []
        self._not_yet: list[PendingSend] = []
        self._epoch: str | None = None
        self._beaten_at = float("-inf")
        self._away_at = float("-inf")
        self._warned: dict[str, float] = {}
        self._pause = EVERY
        self._hurried = False
        self._stopping = False
        self._asked_at = time.monotonic() - _ASKED_EVERY + _ASKED_FIRST_AFTER
        self.asks: Callable[[], bool] = lambda: True
        self.watched: WatchedAttempts | None = None
        registry.on_report = self._take
        self.known: Callable[[dict[str, Any], int], list[Any]] = lambda body, part: []

    def enqueue(self, pending: PendingSend) -> None:
        """Send this soon, repeatedly until Redis answers."""
        self._inbox.put(pending)

    def _take(self, report: Report, token: str, kept: PackedLog | None) -> None:
        if self._outbox.add(HandedOver(report, token, kept)):
            self._inbox.put(None)

    def beat_soon(self) -> None:
        """Send the next heartbeat early, because a claim waits for it."""
        self._hurried = True
        self._inbox.put(None)

    def run(self) -> None:
        """Send reports as they come, and heartbeats every two seconds or sooner if requested, until `stop`."""
        while not self._stopping:
            self._collect(min(self._next_beat(), self._outbox.due_at()) - time.monotonic())
            if not self._deliver():
                self._away_at = time.monotonic()
                self._registry.take_reports(False)
                self._collect(_TRIED_AGAIN_AFTER)
            elif time.monotonic() >= self._next_beat():
                self._hurried = False
                is_there = self._beat()
                self._registry.take_reports(is_there and not self._stopping)
                self._pause = EVERY if is_there else _TRIED_AGAIN_AFTER
                self._beaten_at = time.monotonic()
                self._ask()
                find_watched(self.watched, self._connection, self._registry.all_claimed)
                if is_there:
                    self._try_again(took_a_heartbeat=True)
                else:
                    self._away_at = self._beaten_at

    def _try_again(self, *, took_a_heartbeat: bool) -> None:
        self._held, self._not_yet = [*self._not_yet, *self._held], []
        self._outbox.try_again(took_a_heartbeat=took_a_heartbeat)

    def _ask(self) -> None:
        """Repeat the open check once a minute, beside the heartbeats, until it succeeds."""
        if time.monotonic() - self._asked_at >= _ASKED_EVERY:
            self._asked_at = time.monotonic()
            if self.asks():
                self.asks = lambda: True

    def _next_beat(self) -> float:
        return self._beaten_at + (min(self._pause, _TRIED_AGAIN_AFTER) if self._hurried else self._pause)

    def stop(self) -> None:
        """Send the pending reports and a farewell to the leader; bounded, but for the pool's reports.

        Those are waited for while Redis is away, as each process of the pool would, unless the worker must end at once.
        """
        self._stopping = True
        self._registry.take_reports(False)
        self._registry.all_claimed()  # takes in what the processes of the pool left
        self._inbox.put(None)
        self.join(_FAREWELL_WITHIN)
        while self.is_alive() and self._is_waited_for():
            self.join(_TRIED_AGAIN_AFTER)
        while not self.is_alive():
            self._try_again(took_a_heartbeat=False)
            if self._deliver() and self._beat(farewell=True):
                return
            if not self._is_waited_for():
                return
            time.sleep(_TRIED_AGAIN_AFTER)

    def _is_waited_for(self) -> bool:
        return bool(self._outbox.attempts()) and not ends_at_once()

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
        gone = [pending for pending in self._leaving if pending.pid not in greenlets and is_gone(pending.pid)]
        if gone:
            self._registry.all_claimed()  # takes in what they left
        self._held += gone
        self._leaving = [pending for pending in self._leaving if pending not in gone]
        try:
            # A child's own report first: then that of its death finds the attempt reported.
            is_due = self._stopping or self._outbox.due_at() <= time.monotonic()
            if is_due or self._held or self._leaving:
                self._outbox.write()
            self._leaving = [pending for pending in self._leaving if not is_reported(self._connection, pending.task_id)]
            while self._held:
                self._perform(self._held[0])
                del self._held[0]
        except AWAY as exc:
            count = len(self._held) + len(self._outbox.attempts())
            self._warn_away("reports are held", exc, count)
            return False
        return True

    def _warn_away(self, what: str, error: Exception, count: int = 0) -> None:
        """Warn once of each effect while Redis is away, which is tried twice a second; of held reports every 10 s."""
        now = time.monotonic()
        if what not in self._warned or (count and now - self._warned[what] >= _WARNED_EVERY):
            self._warned[what] = now
            log.warning("redis is away, %s%s; trying on: %s", what, f" count={count}" if count else "", error)

    def _perform(self, pending: PendingSend) -> None:
        repeated = pending.perform()
        if repeated is not None:
            self._not_yet.append(repeated)

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
            self._warn_away("no heartbeat", exc)
            return False
        if self._warned:
            self._warned.clear()
            log.info("redis answers again")
        return True

    def _report_again(self) -> bool:
        """Send recent reports again if Redis is another one or has other data; return whether it is."""
        own = self._connection.keys
        keys = [own.epoch, own.epoch_seen, own.server_mark]
        answer: Any = self._connection.run_script(QUERY_EPOCH, keys, [uuid4().hex])
        name = str(answer[0])
        if name == self._epoch:
            if time.monotonic() - self._away_at > KEPT_SECONDS:  # what was held meanwhile may just have been written
                self._registry.forget_old()
            return False
        recent = self._registry.recent_reports()
        unsent = set(self._outbox.attempts())  # these are no repetition
        kept = [one for one in recent if one.report.task_id not in unsent]
        for one in kept:
            action = partial(send, self._connection, one.report, one.token, claimed=True, again=True)
            self._perform(PendingSend(one.report.task_id, action))
        if kept:
            log.info("redis was started anew or is another, recent reports are sent again count=%d", len(kept))
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
        claimed = self._registry.all_claimed()
        return self._listing.next(claimed, [*self._outbox.attempts(), *(one.task_id for one in self._leaving)])

    def _concurrency(self) -> int:
        """The number of tasks that can run at once; Celery below 5.7 counts running greenlets for a green pool.

        Celery counts below zero where a child is told twice to go, and the leader would refuse such a heartbeat.
        """
        pool = self._consumer.pool
        places = "limit" if getattr(pool, "is_green", False) else "num_processes"
        return max(0, int(getattr(pool, places, 0) or 0))

    def _queues(self) -> list[str]:
        consumed: Mapping[str, Any] = self._consumer.app.amqp.queues.consume_from
        return sorted(consumed)
