"""The plots of trends: lines of one value for each step, their captions, gaps and marks, as JSON for the script. Pure.

Promises that a step in which nobody led has no value, and that the step under way is no gap.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import MINUTE, SECOND, Duration
from scheduler_service.api.pages.moments import length
from scheduler_service.api.services.trends import Mark, Trends
from scheduler_service.core.samples import QueueSample, Sample, delay_quantile

LETTERS: Final = {"leader": "T", "version": "V", "freeze": "F", "queue": "Q"}
"""The letter of each kind of mark on the plots."""
_LINES: Final = 5

Numbers = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a plot: a value for each step, None where there is none."""

    label: str
    values: Numbers


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over the same steps, `unit` is that of the axis; `left_out` lines have no place in it."""

    name: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    left_out: int = 0

    @property
    def now(self) -> str:
        """Return the newest value of each line, and how many lines are left out."""
        newest = [f"{line.label} {_newest(line, self.unit)}" for line in self.lines]
        return ", ".join([*(newest or ["–"]), *([f"and {self.left_out} more queues"] if self.left_out else [])])


class Drawn:
    """The lines of a window: one value for each step up to the last sample."""

    def __init__(self, found: Trends, of: Callable[[Sample], QueueSample]) -> None:
        self._found = found
        self._of = of
        last = max(found.samples, default=found.since)
        # The step under way has no sample yet, which is no gap.
        fresh = last >= found.until - 3 * max(found.step, MINUTE)
        self._times = [at for at in found.times if at <= last or not fresh]
        self._per_minute = MINUTE / found.step

    def of_all(self) -> tuple[Plot, ...]:
        """Return delay, throughput and the lag of each queue that was behind."""
        p50, p99 = (self._line(lambda sample, share=share: _delay(sample, share)) for share in (0.5, 0.99))
        delay = (Line("median", p50), Line("p99", p99))
        return Plot("delay", "Dispatch delay", "s", delay), self._throughput(), self._lag_of_queues()

    def of_queue(self) -> tuple[Plot, ...]:
        """Return lag, depth and throughput of one queue."""
        lag = self._line(lambda sample: self._of(sample).lag / SECOND)
        depth = [
            Line(name, self._line(lambda sample, name=name: getattr(self._of(sample), name)))
            for name in ("pending", "running")
        ]
        return Plot("lag", "Lag", "s", (Line("lag", lag),)), Plot("depth", "Depth", "", (*depth,)), self._throughput()

    def of_workers(self) -> tuple[Plot, ...]:
        """Return how many workers there were, and how many runs they ran."""
        workers = Line("fewest alive", self._line(lambda sample: sample.workers))
        running = Line("most at once", self._line(lambda sample: sample.total.running))
        return Plot("workers", "Workers", "", (workers,)), Plot("running", "Running", "", (running,))

    def _throughput(self) -> Plot:
        done = self._line(lambda sample: self._of(sample).completed * self._per_minute)
        bad = self._line(lambda sample: (self._of(sample).failed + self._of(sample).missed) * self._per_minute)
        return Plot("throughput", "Throughput", "a minute", (Line("completed", done), Line("failed, missed", bad)))

    def _lag_of_queues(self) -> Plot:
        """Draw the queues that were furthest behind; if none was, the busiest, which shows that."""
        worst: dict[str, tuple[Duration, int]] = {}
        for sample in self._found.samples.values():
            for name, one in sample.queues.items():
                lag, started = worst.get(name, (0, 0))
                worst[name] = max(lag, one.lag), started + one.started
        names = sorted(worst, key=lambda name: (worst[name], name), reverse=True)
        behind = [name for name in names if worst[name][0]] or names[:1]
        lines = [Line(name, self._line(lambda sample, name=name: _lag(sample, name))) for name in behind[:_LINES]]
        return Plot("lag", "Lag by queue", "s", tuple(lines), max(0, len(behind) - _LINES))

    def _line(self, value: Callable[..., float | None]) -> list[float | None]:
        samples = self._found.samples
        return [None if (sample := samples.get(at)) is None else value(sample) for at in self._times]

    def data(self, plots: Sequence[Plot], marks: Sequence[Mark], timezone: str) -> str:
        """Return the zone, times in seconds, the values of each line, gaps between samples, and the marks, as JSON."""
        body: dict[str, Any] = {
            "zone": timezone,
            "times": [at // SECOND for at in self._times],
            "plots": {plot.name: _of_plot(plot) for plot in plots},
            "gaps": self._gaps(),
            "marks": [[mark.at / SECOND, LETTERS[mark.kind]] for mark in marks],
        }
        return json.dumps(body, separators=(",", ":"))

    def _gaps(self) -> list[list[int]]:
        """Return the times between samples in which nobody led, each with its end."""
        found: list[list[int]] = []
        known = [at in self._found.samples for at in self._times]
        for place, at in enumerate(self._times):
            if known[place] or not any(known[:place]):
                continue
            if place and not known[place - 1]:
                found[-1][1] = (at + self._found.step) // SECOND
            else:
                found.append([at // SECOND, (at + self._found.step) // SECOND])
        return found


def _of_plot(plot: Plot) -> dict[str, Any]:
    rounded = [[None if value is None else round(value, 4) for value in line.values] for line in plot.lines]
    return {"unit": plot.unit, "labels": [line.label for line in plot.lines], "values": rounded, "now": plot.now}


def _delay(sample: Sample, share: float) -> float | None:
    delay = delay_quantile(sample.delays, share)
    return None if delay is None else delay / SECOND


def _lag(sample: Sample, queue: str) -> float:
    return sample.queues.get(queue, QueueSample()).lag / SECOND


def _newest(line: Line, unit: str) -> str:
    """Return the last value of a line as the caption says it."""
    value = next((value for value in reversed(line.values) if value is not None), None)
    if value is None:
        return "–"
    return str(length(round(value * SECOND))) if unit == "s" else f"{value:,.0f}"
