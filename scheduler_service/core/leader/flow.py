"""How many attempts began and how many runs ended in each queue, for the samples."""

from collections import Counter

from scheduler_service.core.run_state import FINAL, PENDING, RUNNING, RunState


class Flow:
    """Numbers since the last `take`."""

    def __init__(self) -> None:
        self._numbers: Counter[tuple[str, RunState]] = Counter()

    def changed(self, queue: str, before: RunState, after: RunState) -> None:
        """Count a run that went from one state into another."""
        if (after is RUNNING and before is PENDING) or (after in FINAL and before not in FINAL):
            self._numbers[queue, after] += 1

    def take(self) -> Counter[tuple[str, RunState]]:
        """Return how many runs began to run or became final, by queue and state, and begin at zero."""
        numbers, self._numbers = self._numbers, Counter()
        return numbers
