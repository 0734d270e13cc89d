"""Something of a simulation that takes turns, and may die or freeze between any two of them."""

from typing import TYPE_CHECKING

from itinerary.protocol.instants import SECOND, Duration, Instant

if TYPE_CHECKING:
    from tests.support.simulation import Simulation


class Process:
    """Something that takes turns by name, until it is dead; while frozen, its turns wait."""

    def __init__(self, simulation: "Simulation", name: str) -> None:
        self.simulation = simulation
        self.name = name
        self.dead = False
        self.frozen_until: Instant = 0
        self._next: dict[str, Instant] = {}

    def kick(self, turn: str, delay: Duration) -> None:
        """Let this turn be taken after `delay`, if it is not to be taken sooner."""
        at = self.simulation.t + delay
        known = self._next.get(turn)
        if known is None or at < known:
            self._next[turn] = at
            self.simulation.push(at, lambda: self._take(turn, at))

    def _take(self, turn: str, at: Instant) -> None:
        if self.dead or self._next.get(turn) != at:
            return
        del self._next[turn]
        if self.frozen_until > self.simulation.t:
            self.kick(turn, self.frozen_until - self.simulation.t)
        else:
            getattr(self, f"turn_{turn}")()

    def freeze(self, duration: Duration) -> None:
        self.frozen_until = max(self.frozen_until, self.simulation.t + duration)  # a second does not end the first
        self.simulation.note(f"{self.name} freezes for {duration / SECOND:.1f} s")

    def thaw(self) -> None:
        """Go on at once, should it stand still."""
        if self.frozen_until > self.simulation.t:
            self.frozen_until = self.simulation.t
            for turn in list(self._next):
                self.kick(turn, 0)

    def die(self, why: str) -> None:
        if not self.dead:
            self.dead = True
            self.simulation.note(f"{self.name} is gone: {why}")
