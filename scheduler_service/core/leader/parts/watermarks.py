"""The low watermark of each queue: the lowest seq of its messages that may still start an attempt.

The leader keeps the claims of ended attempts until the watermark in Redis has passed their seq. Removed sooner, a
duplicate message of the attempt would start it again. A watermark never passes a message of a run that is pending or
being dispatched. That includes earlier messages, which a worker may have held all along. The lowest watermark applies
to every queue, so Redis keeps none for a queue below it. Queue names come and go, and no watermark stays forever.
"""

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import SECOND, Instant

Attempt = tuple[str, int]

# Beyond this number, claims of ended attempts are left to expire.
_MOST_KEPT: Final = 200_000
_RUBBISH: Final = 1_000


@dataclass(slots=True)
class Watermarks:
    """Attempts in flight by queue, and ended attempts waiting for the watermark to pass them."""

    _in_flight: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    _count: Counter[str] = field(default_factory=Counter)
    _seqs: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    _touched: set[str] = field(default_factory=set)
    _raising: dict[str, int] = field(default_factory=dict)
    _uncommitted: dict[str, list[tuple[int, str, int]]] = field(default_factory=dict)
    _ended: dict[str, list[tuple[int, str, int]]] = field(default_factory=dict)
    _kept: int = 0
    _next_at: Instant = 0

    def in_flight(self, queue: str, run_id: str, attempt: int, seq: int) -> None:
        """Record that a message with this seq exists or is about to; the first one of an attempt counts."""
        before = self._in_flight.get(run_id)
        if before is not None:
            if before[0] == queue and before[1] == attempt and before[2] <= seq:
                return
            self.gone(run_id)
        self._in_flight[run_id] = (queue, attempt, seq)
        self._count[queue] += 1
        heapq.heappush(self._seqs.setdefault(queue, []), (seq, run_id))
        self._touched.add(queue)

    def taken_over(self, queue: str, run_id: str, attempt: int) -> None:
        """Record an attempt that another leader sent, perhaps more than once; only its last seq is stored."""
        if run_id not in self._in_flight:
            self.in_flight(queue, run_id, attempt, 0)

    def gone(self, run_id: str) -> None:
        """Record that no message of this run may start an attempt from now on."""
        before = self._in_flight.pop(run_id, None)
        if before is not None:
            self._count[before[0]] -= 1
            self._touched.add(before[0])

    def ended(self, queue: str, seq: int, run_id: str, attempt: int) -> None:
        """Record that an attempt in flight ended, in memory so far; `seq` is that of its last message."""
        others = self._uncommitted.get(run_id)
        kept = [one for one in others if one[0] != attempt] if others else []
        kept.append((attempt, queue, seq))
        self._uncommitted[run_id] = kept

    def committed(self, run_id: str, attempt: int) -> None:
        """Record that the database holds the end of this attempt, and so of all earlier ones."""
        for number, queue, seq in self._uncommitted.pop(run_id, ()):
            if number > attempt:
                self._uncommitted.setdefault(run_id, []).append((number, queue, seq))
            elif self._kept < _MOST_KEPT:
                heapq.heappush(self._ended.setdefault(queue, []), (seq, run_id, number))
                self._kept += 1
                self._touched.add(queue)

    def still_running(self, run_id: str, attempt: int) -> None:
        """Record that the database holds the run in this attempt: only earlier ones are over, whatever memory holds."""
        self.committed(run_id, attempt - 1)
        self._uncommitted.pop(run_id, None)

    def dropped(self, run_id: str) -> None:
        """Record that the run no longer exists in the database."""
        self.gone(run_id)
        for attempt, _, _ in list(self._uncommitted.get(run_id, ())):
            self.committed(run_id, attempt)

    def raise_due(self, now: Instant) -> bool:
        """Whether the watermarks are to be raised now; the next time is a second later."""
        if now < self._next_at:
            return False
        self._next_at = now + SECOND
        return True

    def to_raise(self, next_seq: int) -> dict[str, int]:
        """The new watermarks of queues that changed, one request at a time; `next_seq` if nothing is in flight."""
        if self._raising:
            return {}
        self._raising = {queue: self._lowest(queue, next_seq) for queue in self._touched}
        self._touched.clear()
        return dict(self._raising)

    def lowest(self, next_seq: int) -> int:
        """The low watermark across all queues; call it after `to_raise`."""
        return min((seqs[0][0] for seqs in self._seqs.values()), default=next_seq)

    def raised(self, watermarks: Mapping[str, int]) -> list[Attempt]:
        """Apply the watermarks that Redis confirmed (none if it did not answer); return the attempts they passed."""
        self._touched.update(queue for queue in self._raising if queue not in watermarks)
        self._raising = {}
        return [attempt for queue, watermark in watermarks.items() for attempt in self._passed(queue, watermark)]

    def _passed(self, queue: str, watermark: int) -> list[Attempt]:
        ended = self._ended.get(queue, [])
        passed = []
        while ended and ended[0][0] < watermark:
            _, run_id, attempt = heapq.heappop(ended)
            passed.append((run_id, attempt))
        self._kept -= len(passed)
        if not ended:
            self._ended.pop(queue, None)
        return passed

    def _lowest(self, queue: str, next_seq: int) -> int:
        seqs = self._seqs.get(queue, [])
        if len(seqs) > 2 * self._count[queue] + _RUBBISH:
            seqs = self._seqs[queue] = [one for one in seqs if self._is_in_flight(queue, *one)]
            heapq.heapify(seqs)
        while seqs and not self._is_in_flight(queue, *seqs[0]):
            heapq.heappop(seqs)
        if seqs:
            return seqs[0][0]
        self._seqs.pop(queue, None)
        del self._count[queue]
        return next_seq

    def _is_in_flight(self, queue: str, seq: int, run_id: str) -> bool:
        last = self._in_flight.get(run_id)
        return last is not None and last[0] == queue and last[2] == seq
