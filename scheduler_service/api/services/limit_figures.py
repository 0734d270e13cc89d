"""The leader's figures of limits, asked for once a second at most, however many requests and pages want them.

Promises an answer no older than a second, or None where no leader answers.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler_service.api.http.problems import Problem

_KEPT_FOR: Final = 1.0


class LimitFigures:
    """The last answer; threads that ask at once share one question."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asked_at: float | None = None
        self._found: Mapping[str, Mapping[str, Any]] | None = None

    def by_name(self, ask: Callable[[], Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]] | None:
        """The figures by the limit's name, by what the leader answers to `ask`; the release before has none."""
        with self._lock:
            if self._asked_at is None or self._clock() - self._asked_at >= _KEPT_FOR:
                self._found = self._answer(ask)
                self._asked_at = self._clock()
            return self._found

    def _answer(self, ask: Callable[[], Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]] | None:
        try:
            uses = ask().get("limits")
        except Problem:
            return None
        return None if uses is None else {use["name"]: use for use in uses}
