"""Messages that the broker has and that no worker is known to have started."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import MILLISECOND, SECOND, Instant

_CHECK_EVERY: Final = 5 * SECOND
_SUSPECT_FOR: Final = 5 * SECOND
_RECEIVED_COUNTS_FOR: Final = 10 * SECOND
_PART: Final = 250 * MILLISECOND
_PASSED_KEPT: Final = 10 * SECOND


@dataclass(slots=True)
class Unstarted:
    """`published`: when the broker accepted the run's last message.

    `_redispatched`: how often the run was sent again because no worker took it. `_suspects`: when its message was first
    found gone. `_received`: when a worker last listed it as held, and its queue. `held`: how many those are, by queue.
    `_passed`: the highest number started, by queue, as of some instants of the last seconds. `_in_any_order`: messages
    up to this number may stand in any order.
    """

    published: dict[str, Instant] = field(default_factory=dict)
    _redispatched: dict[str, int] = field(default_factory=dict)
    _suspects: dict[str, Instant] = field(default_factory=dict)
    held: Counter[str] = field(default_factory=Counter)
    _received: dict[str, tuple[Instant, str]] = field(default_factory=dict)
    _passed: dict[str, deque[tuple[Instant, int]]] = field(default_factory=dict)
    _in_any_order: int = 0
    _next_check_at: Instant = 0

    def accepted(self, run_id: str, at: Instant) -> None:
        """Record that the broker accepted the run's message."""
        self.published[run_id] = at

    def unaccepted(self, run_id: str) -> None:
        """Record that the run is to be sent again."""
        self.published.pop(run_id, None)

    def check_due(self, now: Instant) -> bool:
        """Whether the queues are to be checked now; the next time is a little later."""
        if now < self._next_check_at:
            return False
        self._next_check_at = now + _CHECK_EVERY
        return True

    def times_redispatched(self, run_id: str) -> int:
        """How often the run was sent again since nobody took it."""
        return self._redispatched.get(run_id, 0)

    def redispatched(self, run_id: str) -> None:
        """Count that the run is sent again."""
        self._redispatched[run_id] = self._redispatched.get(run_id, 0) + 1

    def suspect(self, run_id: str, now: Instant) -> bool:
        """Record that the message seems gone, and return whether it has for long enough."""
        if now - self._suspects.setdefault(run_id, now) < _SUSPECT_FOR:
            return False
        del self._suspects[run_id]
        return True

    def trust(self, run_id: str) -> None:
        """Record that the message is not gone."""
        self._suspects.pop(run_id, None)

    def received(self, run_id: str, queue: str, now: Instant) -> None:
        """Record that a worker lists the message as held."""
        if run_id not in self._received:
            self.held[queue] += 1
        self._received[run_id] = (now, queue)

    def is_received(self, run_id: str, now: Instant) -> bool:
        """Whether a worker has lately listed the message as held."""
        received = self._received.get(run_id)
        return received is not None and now - received[0] < _RECEIVED_COUNTS_FOR

    def forget_unlisted(self, now: Instant) -> None:
        """Count messages as held no longer that no worker has listed lately."""
        for run_id in [one for one in self._received if not self.is_received(one, now)]:
            self.let_go(run_id)

    def let_go(self, run_id: str) -> None:
        """Record that the message is not held: it was started, or is nobody's."""
        received = self._received.pop(run_id, None) if self._received else None
        if received is not None:
            queue = received[1]
            self.held[queue] -= 1
            if not self.held[queue]:
                del self.held[queue]  # queue names come and go

    def started(self, queue: str, seq: int, now: Instant) -> None:
        """Record that a message of this number was started: the queue is past those below it."""
        passed = self._passed.get(queue)
        if passed is None:
            passed = self._passed[queue] = deque()
        highest = max(seq, passed[-1][1]) if passed else seq
        if passed and passed[-1][0] // _PART == now // _PART:
            passed.pop()
        passed.append((now, highest))
        while passed[0][0] < now - _PASSED_KEPT:
            passed.popleft()

    def put_back(self, last: int) -> None:
        """Record that a worker leaves when `last` is the newest number: it puts back what it took, the newest first."""
        self._in_any_order = last

    def is_overtaken(self, seq: int, by: int) -> bool:
        """Whether a later message, `by`, that is at the head or started shows that this one has left its queue."""
        return by > max(seq, self._in_any_order)

    def overtaken_at(self, queue: str, seq: int) -> Instant | None:
        """When a later message of the queue had been started, which may be later than the first such time; or None."""
        return next((at for at, highest in self._passed.get(queue, ()) if self.is_overtaken(seq, highest)), None)

    def forget_queue(self, queue: str) -> None:
        """Forget the number of a queue without pending runs."""
        self._passed.pop(queue, None)

    def attempt_over(self, run_id: str) -> None:
        """Forget the run's attempt."""
        self.let_go(run_id)
        self.published.pop(run_id, None)
        if self._redispatched or self._suspects:
            self._redispatched.pop(run_id, None)
            self._suspects.pop(run_id, None)
