"""A whole `itinerary up` under an even load for ten minutes: what each of its processes holds in memory.

What is measured is growth after the warm-up, when everything has run once. Flower keeps a bounded number of tasks, and
must stand still once it has as many.
"""

import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.benchmarks.figures import Asked, Figure
from tests.support.running import Running

RATE: Final = 50
PARTS: Final = ("leader", "worker", "api", "flower", "redis")
MOST_GROWTH: Final = 30.0
"""MB from the warm-up to the end; Flower alone grew by 20 MB a minute when it was not bounded."""


def figures(asked: Asked) -> Iterator[Figure]:
    """Memory of each process after the warm-up and at the end, in MB."""
    rate, warm, lasts = (RATE, 15, 45) if asked.quick else (RATE, 240, 600)
    with tempfile.TemporaryDirectory() as folder, Running(Path(folder) / "data") as up:
        up.wait_for("flower")
        with up.client() as client:
            for number in range(rate):
                every = {"kind": "interval", "every": "1s"}
                client.put_job(f"soak.{number:03}", {"task": "itinerary.echo", "schedule": every})
            asked.say(f"  {rate} runs a second, warming up for {warm} s")
            _pass(warm)
            before = _memory(up)
            asked.say(f"  {', '.join(f'{name} {size:.0f}' for name, size in before.items())} MB; on to {lasts} s")
            _pass(lasts - warm)
            after = _memory(up)
            done = client.status()
        assert done["leader"], up.output
    for name in PARTS:
        yield Figure(f"{name}: memory after {lasts} s at {rate} runs a second", after[name], "MB")
        growth = after[name] - before[name]
        target = None if asked.quick else MOST_GROWTH
        yield Figure(f"{name}: grown in the last {lasts - warm} s", growth, "MB", target=target)


def _pass(seconds: float) -> None:
    threading.Event().wait(seconds)  # an even load over a time is what is measured


def _memory(up: Running) -> Mapping[str, float]:
    """The resident memory of each part's main process."""
    return {name: _resident(up.pid_of(name)) for name in PARTS}


def _resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (size,) = (int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return size / 1024
