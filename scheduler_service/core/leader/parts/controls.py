"""Pauses and limits as the leader last read them, and the time at which it recalls what is pending in paused queues."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.controls import Controls, QueuePause
from scheduler_service.core.limits import Limit

_RECALL_AGAIN: Final = SECOND


@dataclass(slots=True)
class KnownControls:
    """The version, the pauses and the limits by which runs are chosen. `wanted`: the database may have others."""

    version: int = 0
    pauses: Mapping[str, QueuePause] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    fair: frozenset[str] = frozenset()
    wanted: bool = False
    _recall_at: Instant = 0
    _held: frozenset[str] = frozenset()

    def want(self) -> None:
        """Read them again as soon as possible."""
        self.wanted = True

    def begin_read(self) -> None:
        """Record that they are read."""
        self.wanted = False

    def put(self, controls: Controls) -> None:
        """Choose by these from now on."""
        self.version, self.pauses, self._recall_at = controls.version, controls.pauses, 0
        self.limits, self.fair = controls.limits, controls.fair

    def pause_of(self, queue: str, now: Instant) -> QueuePause | None:
        """The pause that holds the queue's runs back."""
        pause = self.pauses.get(queue)
        return pause if pause is not None and pause.holds(now) else None

    def held_queues(self, now: Instant) -> tuple[str, ...]:
        """The queues that are paused."""
        return tuple(sorted(queue for queue, pause in self.pauses.items() if pause.holds(now)))

    def take_ended(self, now: Instant) -> bool:
        """Whether a pause has ended since the last call, by an edit or by itself."""
        before, self._held = self._held, frozenset(self.held_queues(now))
        return not before <= self._held

    def next_end(self, now: Instant) -> Instant | None:
        """The next time at which a pause ends by itself."""
        return min((p.until for p in self.pauses.values() if p.until is not None and p.until > now), default=None)

    def recall_due(self, now: Instant) -> bool:
        """Whether to recall what is pending in paused queues: after each edit, then each second."""
        if now < self._recall_at:
            return False
        self._recall_at = now + _RECALL_AGAIN
        return True
