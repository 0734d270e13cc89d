"""How long a person waits for `itinerary up`: until it leads, until a killed part is back, until it has stopped."""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from tests.benchmarks.figures import Asked, Figure
from tests.support.running import Running

ROUNDS = 3


def figures(asked: Asked) -> Iterator[Figure]:
    """Medians of a few rounds, in seconds."""
    starts, restarts, stops = [], [], []
    with tempfile.TemporaryDirectory(prefix="itinerary-bench-") as folder, Running(Path(folder) / "data") as running:
        running.stop()
        for _ in range(1 if asked.quick else ROUNDS):
            starts.append(_seconds(running.start))
            restarts.append(_seconds(lambda: running.kill_part("api")))
            stops.append(_seconds(running.stop))
    yield Figure("up to a leading leader and an answering API", median(starts), "s", target=6)
    yield Figure("a killed part to its next process", median(restarts), "s", target=1)
    yield Figure("Ctrl-C to the last process gone", median(stops), "s", target=10)


def _seconds(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began
