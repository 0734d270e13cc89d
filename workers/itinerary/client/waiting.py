"""Waiting for a run's end: how long, with which pauses, and the errors that it may end in."""

import time
from typing import Final

from itinerary.client.results import Run
from itinerary.protocol.errors import ItineraryError

# Those of the service's own table; a test holds them equal.
FINAL_STATES: Final = frozenset({"completed", "failed", "cancelled", "skipped", "missed"})
_FIRST_PAUSE: Final = 0.02


class WaitTimeout(ItineraryError):
    """The run was not final in time; it continues."""


class RunFailed(ItineraryError):
    """The run ended otherwise than completed; `run` is all of it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        why = f"{run.error.type}: {run.error.message}" if run.error else run.reason
        super().__init__(f"run {run.run_id} ended {run.state}" + (f": {why}" if why else ""))


def checked(run: Run) -> Run:
    """The run if it completed, else RunFailed."""
    if run.state != "completed":
        raise RunFailed(run)
    return run


class Patience:
    """The time limit for a run's end, and the pauses between queries."""

    def __init__(self, timeout: float, every: float) -> None:
        self.timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._pause = min(_FIRST_PAUSE, every)
        self._longest = every

    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._deadline

    def pause(self) -> float:
        """The seconds until the next query; longer each time."""
        pause = max(0.0, min(self._pause, self._deadline - time.monotonic()))
        self._pause = min(self._pause * 1.5, self._longest)
        return pause
