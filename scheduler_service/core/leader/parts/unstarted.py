"""Messages that the broker has and that no worker is known to have started."""

from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import SECOND, Instant

_CHECK_EVERY: Final = 5 * SECOND
_SUSPECT_FOR: Final = 5 * SECOND
_RECEIVED_COUNTS_FOR: Final = 10 * SECOND


@dataclass(slots=True)
class Unstarted:
    """`published`: when the broker accepted the run's last message.

    `_redispatched`: how often the run was sent again because no worker took it. `_suspects`: when its message was first
    found gone. `_received`: when a worker last listed it as held. `_started_seq`: the highest number started, by queue.
    """

    published: dict[str, Instant] = field(default_factory=dict)
    _redispatched: dict[str, int] = field(default_factory=dict)
    _suspects: dict[str, Instant] = field(default_factory=dict)
    _received: dict[str, Instant] = field(default_factory=dict)
    _started_seq: dict[str, int] = field(default_factory=dict)
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

    def received(self, run_id: str, now: Instant) -> None:
        """Record that a worker lists the message as held."""
        self._received[run_id] = now

    def is_received(self, run_id: str, now: Instant) -> bool:
        """Whether a worker has lately listed the message as held."""
        return now - self._received.get(run_id, 0) < _RECEIVED_COUNTS_FOR

    def started(self, queue: str, seq: int) -> None:
        """Record that a message of this number was started: the queue is past those below it."""
        self._started_seq[queue] = max(self._started_seq.get(queue, 0), seq)

    def is_overtaken(self, queue: str, seq: int) -> bool:
        """Whether a later message of the queue was started."""
        return self._started_seq.get(queue, 0) > seq

    def forget_queue(self, queue: str) -> None:
        """Forget the number of a queue without pending runs."""
        self._started_seq.pop(queue, None)

    def attempt_over(self, run_id: str) -> None:
        """Forget the run's attempt."""
        for kept in (self.published, self._redispatched, self._suspects, self._received):
            kept.pop(run_id, None)
