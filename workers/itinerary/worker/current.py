"""The current run, for the code of its task.

Owns `current_run()`. Uses Redis only for `cancelled()`; progress rides on the worker's heartbeats.
"""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from itinerary.protocol.progress import Progress, checked

_ASKED_EVERY: Final = 0.5


class RunCancelled(Exception):
    """A task stops because its run was cancelled."""

    __module__ = "itinerary"  # the name under which a run's error is stored and shown


def _shown_nowhere(read: Callable[[], Progress | None]) -> None:
    """A run that no worker executes."""


@dataclass(slots=True)
class CurrentRun:
    """One attempt of a run, seen from inside its task. Times are aware, in UTC."""

    run_id: str
    job_id: str | None
    attempt: int
    scheduled_at: datetime
    due_at: datetime
    _ask: Callable[[], bool] = field(repr=False)
    _show: Callable[[Callable[[], Progress | None]], None] = field(default=_shown_nowhere, repr=False)
    _progress: Progress | None = field(default=None, repr=False)
    _answer: bool = field(default=False, repr=False)
    _asked: float = field(default=float("-inf"), repr=False)

    def cancelled(self) -> bool:
        """Whether the run is to stop; queries Redis at most twice a second, and keeps the last answer meanwhile.

        Once true it stays true. A task that stops because of it raises RunCancelled, or just returns.
        """
        now = time.monotonic()
        if not self._answer and now - self._asked >= _ASKED_EVERY:
            self._asked = now
            self._answer = self._ask()
        return self._answer

    def progress(self, done: float, total: float | None = None, unit: str = "") -> None:
        """Show how far the task has come: `done` of `total`, such as 412 of 1000 rows; BadValue for what is no number.

        Cheap enough for each turn of a loop: the latest is kept, and the worker's next heartbeat carries it.
        """
        is_first, self._progress = self._progress is None, checked(done, total, unit)
        if is_first:
            self._show(self.shown)

    def shown(self) -> Progress | None:
        """The latest progress; None as long as the task shows none."""
        return self._progress


running: ContextVar[CurrentRun | None] = ContextVar("itinerary_current_run", default=None)


def current_run() -> CurrentRun | None:
    """The run of the current task, or None outside tasks that Itinerary started."""
    return running.get()
