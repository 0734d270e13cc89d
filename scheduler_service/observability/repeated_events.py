"""Events that may come in floods: each is counted, and logged at intervals with its count."""

import threading
import time
from collections.abc import Callable
from typing import Final

_EVERY: Final = 10.0
_MOST_KEPT: Final = 1_000


class Seldom:
    """For each name, the time it last passed and its count since then. Safe to use from several threads."""

    def __init__(self, every: float = _EVERY, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, int]] = {}

    def count(self, name: str) -> int:
        """Count the event; return the count since it last passed if it passes now, else 0."""
        with self._lock:
            now = self._clock()
            at, count = self._seen.get(name, (-self._every, 0))
            if now - at < self._every:
                self._seen[name] = (at, count + 1)
                return 0
            if len(self._seen) >= _MOST_KEPT:
                self._seen.clear()
            self._seen[name] = (now, 0)
            return count + 1
