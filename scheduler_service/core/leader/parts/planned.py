"""How far planning has come."""

from dataclasses import dataclass
from typing import Final

from itinerary.protocol.instants import SECOND, Instant

_SAVED_EVERY: Final = 10 * SECOND


@dataclass(slots=True)
class Planned:
    """The cursor: each occurrence before it has a row or lies in a missed range."""

    cursor: Instant
    _saved_at: Instant = 0

    def advance(self, cursor: Instant) -> None:
        """Move the cursor; the caller creates the rows and missed ranges of the occurrences before it."""
        self.cursor = cursor

    def is_stale(self, now: Instant) -> bool:
        """Whether the database has not been given the cursor for long."""
        return now - self._saved_at > _SAVED_EVERY

    def saved(self, now: Instant) -> None:
        """Record that a command of this pass stores the cursor."""
        self._saved_at = now
