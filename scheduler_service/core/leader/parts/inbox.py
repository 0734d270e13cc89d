"""The position up to which the inbox was read, and whether the database knows it."""

from dataclasses import dataclass
from typing import Final, Self

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.leader.poll_state import NEVER, Listened

_SAVED_WITHIN: Final = 10 * SECOND
_TRIM_EVERY: Final = 10 * SECOND


@dataclass(slots=True)
class InboxPosition:
    """The next leader reads the inbox from the stored position. `listened`: the interval of reads without a pause."""

    position: str
    listened: Listened = NEVER
    _saved: str = ""
    _saved_at: Instant = 0
    _trimmed_at: Instant = 0

    @classmethod
    def taken_over(cls, position: str, now: Instant) -> Self:
        """Continue from the position that the database knows."""
        return cls(position, NEVER, position, now)

    def advance(self, position: str) -> None:
        """Record that everything up to here was read."""
        self.position = position

    def listen(self, listened: Listened) -> None:
        """Record the interval of confirmed reads."""
        self.listened = listened

    def is_unsaved(self) -> bool:
        """Whether the database does not know the position."""
        return self.position != self._saved

    def is_overdue(self, now: Instant) -> bool:
        """Whether the position is to be stored, even by a write of its own."""
        return self.is_unsaved() and now - self._saved_at > _SAVED_WITHIN

    def saved(self, now: Instant) -> None:
        """Record that a command of this pass stores the position."""
        self._saved, self._saved_at = self.position, now

    def trim_due(self, now: Instant) -> bool:
        """Whether the inbox is to be trimmed now; the next time is a little later."""
        if now - self._trimmed_at <= _TRIM_EVERY:
            return False
        self._trimmed_at = now
        return True
