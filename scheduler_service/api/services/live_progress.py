"""The progress of running runs, asked of the leader once a second at most, however many requests and pages want it.

Promises that no request waits for a leader that has just not answered. Never keeps anything beyond a second.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler_service.api.http.problems import Problem

Ask = Callable[..., Mapping[str, Any]]
Shown = Mapping[str, Any] | None
_KEPT_FOR: Final = 1.0
_SPARED_FOR: Final = 3.0


class LiveProgress:
    """The last answer; threads that ask at once share one question."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._valid_until = float("-inf")
        self._found: Mapping[str, Any] = {}
        self._count = 0

    def of(self, run_id: str, ask: Ask) -> Shown:
        """The progress of one running run; of one that is not among the thousand that changed last, asked alone."""
        found = self.of_all(ask)
        if run_id in found or self._count <= len(found):
            return found.get(run_id)
        try:
            run = ask("run", run_id).get("run")
        except Problem:
            return None
        return None if run is None else run.get("progress")

    def of_all(self, ask: Ask) -> Mapping[str, Any]:
        """The progress by run, of the thousand that changed last; none where no leader answers `ask`."""
        with self._lock:
            if self._clock() >= self._valid_until:
                kept_for = self._read(ask)
                self._valid_until = self._clock() + kept_for
            return self._found

    def _read(self, ask: Ask) -> float:
        try:
            answer = ask("progress")
        except Problem:
            self._found, self._count = {}, 0
            return _SPARED_FOR
        self._found, self._count = answer.get("progress", {}), answer.get("count", 0)  # the release before has none
        return _KEPT_FOR
