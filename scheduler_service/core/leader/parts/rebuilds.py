"""Rebuilds of the index: whether one runs, and when the last one ended."""

from dataclasses import dataclass

from itinerary.protocol.instants import Duration, Instant


@dataclass(slots=True)
class Rebuilds:
    """One rebuild at a time. `last_at` is None before the first one, and after one that came too late to be used."""

    running: bool = False
    last_at: Instant | None = None
    took: Duration = 0
    _asked_at: Instant = 0

    def ask(self, now: Instant) -> None:
        """Record that a rebuild was commanded."""
        self.running = True
        self._asked_at = now

    def built(self, now: Instant) -> None:
        """Record that the builder has answered."""
        self.running = False
        self.took = now - self._asked_at
        self.last_at = now

    def was_useless(self) -> None:
        """Record that the cursor has moved meanwhile: another rebuild is due at once."""
        self.last_at = None
