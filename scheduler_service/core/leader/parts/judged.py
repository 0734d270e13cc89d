"""The time up to which the lateness of due runs was judged, and whether the database knows it."""

from dataclasses import dataclass
from typing import Final, Self

from itinerary.protocol.instants import SECOND, Instant

_SAVED_WITHIN: Final = SECOND


@dataclass(slots=True)
class Judged:
    """Every run due before `until` was judged. The next leader must know that while such a run still waits."""

    until: Instant = 0
    _saved: Instant = 0
    _waits_since: Instant = 0

    @classmethod
    def taken_over(cls, until: Instant) -> Self:
        """Continue from the time that the database knows."""
        return cls(until, until)

    def judge(self, now: Instant) -> None:
        """Record that every run due by now was judged; the others wait for the window or their job's other runs."""
        self.until = max(self.until, now)

    def waits(self, now: Instant) -> None:
        """Record that a judged run waits on."""
        self._waits_since = now

    def is_unsaved(self) -> bool:
        """Whether a run waits whose judgement the database does not know."""
        return min(self._waits_since, self.until) > self._saved

    def is_overdue(self, now: Instant) -> bool:
        """Whether the database has not known it for a second."""
        return now - self._saved > _SAVED_WITHIN and self.is_unsaved()

    def saved(self) -> None:
        """Record that a command of this pass stores the time."""
        self._saved = self.until
