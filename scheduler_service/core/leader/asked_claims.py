"""Pending runs for which the leader asks for a claim, or for a mark in its place, until the answer.

Promises one question at a time for each run. Holds no rule: `in_flight.py` withdraws by claims, `recalling.py` recalls
by marks.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class AskedClaims:
    """The reasons of the unanswered ones, by run."""

    _reasons: dict[str, str] = field(default_factory=dict)

    def begin(self, run_id: str, reason: str) -> bool:
        """Record that it is asked for; false if it is already."""
        if run_id in self._reasons:
            return False
        self._reasons[run_id] = reason
        return True

    def is_in_progress(self, run_id: str) -> bool:
        """Whether it is asked for."""
        return run_id in self._reasons

    def answered(self, run_id: str) -> str | None:
        """Record the answer and return the reason, if this leader knows it."""
        return self._reasons.pop(run_id, None)
