"""Messages that the leader recalls from their queues: it asks for the mark that makes them start nothing."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Recalls:
    """The reasons of the unanswered ones, by run."""

    _reasons: dict[str, str] = field(default_factory=dict)

    def begin(self, run_id: str, reason: str) -> bool:
        """Record that the run's mark is asked for; false if it is already."""
        if run_id in self._reasons:
            return False
        self._reasons[run_id] = reason
        return True

    def answered(self, run_id: str) -> str | None:
        """Record the answer and return the reason, if this leader knows it."""
        return self._reasons.pop(run_id, None)
