"""Reports that the processes of a pool have handed to the worker's main process, until Redis has them.

Promises to write each at least once and in order; the script of the report makes it once. One that no entry can hold
is given up alone. One that Redis refuses keeps no other out; it is given up after a minute of heartbeats that Redis
took. Any thread may add, and is told whether to wake the one that writes.
"""

import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import Final

import redis

from itinerary.protocol.attempt_logs import PackedLog
from itinerary.protocol.wire import HEARTBEAT_SECONDS
from itinerary.worker.connection import RedisConnection
from itinerary.worker.reporting import REPORT, Report, arguments

_AT_ONCE: Final = 200
# A Redis that syncs each write serves nobody meanwhile: reports are to take a quarter of its time at most. Where ends
# are rarer than that, each is written at once. The shortest rest keeps threads from waking each other for each report.
_RESTS: Final = 3
_SHORTEST_REST: Final = 0.01
_LONGEST_REST: Final = 0.02
# After so many heartbeats that Redis took, what it still refuses is given up.
REFUSALS: Final = 60 // HEARTBEAT_SECONDS

Call = tuple[list[str], list[str]]

log = logging.getLogger("itinerary.worker")


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A report with the token of its claim, and the log that goes with it."""

    report: Report
    token: str
    log: PackedLog | None = None


@dataclass(slots=True)
class _Held:
    """A report as it is written, and the heartbeats since Redis refused it."""

    task_id: str
    call: Call
    heartbeats: int = 0


class Outbox:
    """The reports in hand. If we die with them, their attempts count as lost, since heartbeats end too."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._added: deque[HandedOver] = deque()
        self._held: list[_Held] = []
        self._refused: list[_Held] = []
        self._rests_until = float("-inf")
        self._awake = False

    def add(self, one: HandedOver) -> bool:
        """Hold this report; return whether the thread that writes has to be woken."""
        self._added.append(one)
        wake, self._awake = not self._awake, True
        return wake

    def attempts(self) -> list[str]:
        """The task ids of the reports in hand."""
        held = [*self._refused, *self._held]
        return [*(one.task_id for one in held), *(one.report.task_id for one in self._added.copy())]

    def due_at(self) -> float:
        """The monotonic time of the next write; infinite if nothing is to be written: then the next to add wakes us."""
        if not self._held and not self._added:
            self._awake = False  # before looking again, so that none is missed
        return self._rests_until if self._held or self._added else float("inf")

    def write(self) -> None:
        """Write all that is in hand, many in one round trip; raises if Redis is away, and keeps what it has not."""
        self._awake = False  # what is added from here on may come too late for this write
        self._take_in()
        while self._held:
            batch, began = self._held[:_AT_ONCE], time.monotonic()
            answers = self._connection.run_scripts(REPORT, [one.call for one in batch])
            for one, answer in zip(batch, answers, strict=True):
                if isinstance(answer, redis.ResponseError):
                    self._refuse(one, answer)
            del self._held[:_AT_ONCE]
            now = time.monotonic()
            self._rests_until = now + max(_SHORTEST_REST, min(_RESTS * (now - began), _LONGEST_REST))

    def try_again(self, *, took_a_heartbeat: bool) -> None:
        """Let the next write have what Redis refused."""
        for one in self._refused:
            one.heartbeats += took_a_heartbeat
        self._held = [*self._refused, *self._held]
        self._refused = []

    def _refuse(self, one: _Held, error: redis.ResponseError) -> None:
        if one.heartbeats == 0:
            log.warning("redis refuses a report, which is held: %s: %s", one.task_id, error)
        if one.heartbeats < REFUSALS:
            self._refused.append(one)
        else:
            log.error("redis refuses a report, which is given up: %s: %s", one.task_id, error)

    def _take_in(self) -> None:
        own = self._connection.keys
        while self._added:
            one = self._added.popleft()
            try:
                call = arguments(own, one.report, one.token, True, log=one.log)
            except Exception:
                log.exception("a report cannot be sent and is given up: %s", one.report.task_id)
            else:
                self._held.append(_Held(one.report.task_id, call))
