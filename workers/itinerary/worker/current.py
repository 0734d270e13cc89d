"""The run that the present code belongs to, as its task may ask.

Owns `current_run()`. Never touches Redis but for `cancelled()`.
"""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

_ASKED_EVERY: Final = 0.5


class RunCancelled(Exception):
    """A task stops because its run is not wanted any more."""

    __module__ = "itinerary"  # as errors of runs are stored and shown


@dataclass(slots=True)
class CurrentRun:
    """One attempt of a run, seen from inside its task. Times are aware, in UTC."""

    run_id: str
    job_id: str | None
    attempt: int
    scheduled_at: datetime
    due_at: datetime
    _ask: Callable[[], bool] = field(repr=False)
    _answer: bool = field(default=False, repr=False)
    _asked: float = field(default=float("-inf"), repr=False)

    def cancelled(self) -> bool:
        """Whether the run is to stop; asks Redis twice a second at most, and says the last it knew while that is away.

        Once true it stays true. A task that stops because of it raises RunCancelled, or just returns.
        """
        now = time.monotonic()
        if not self._answer and now - self._asked >= _ASKED_EVERY:
            self._asked = now
            self._answer = self._ask()
        return self._answer


running: ContextVar[CurrentRun | None] = ContextVar("itinerary_current_run", default=None)


def current_run() -> CurrentRun | None:
    """The run of the present task, or None outside the tasks that Itinerary started."""
    return running.get()
