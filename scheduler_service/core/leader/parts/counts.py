"""The counters that the loop keeps for the metrics. mypy finds a name that no metric shows."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

CountName = Literal[
    "ignored", "stale", "skip", "misfire", "republished", "recalled", "lost", "forgotten", "placed", "rebalanced"
]


@dataclass(slots=True)
class Counts:
    """The numbers counted since the metrics last took them, by name and label."""

    _numbers: Counter[tuple[CountName, str]] = field(default_factory=Counter)

    def add(self, name: CountName, label: str = "", number: int = 1) -> None:
        """Count `number` more."""
        self._numbers[name, label] += number

    def take(self) -> Counter[tuple[CountName, str]]:
        """Return the numbers and begin at zero."""
        numbers, self._numbers = self._numbers, Counter()
        return numbers
