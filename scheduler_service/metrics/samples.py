"""The counts of a leader process for its samples: taken from the loop once a second, and by the sampler once a minute.

Promises that nothing is counted twice and that taking a sample waits for no pass of the loop. Knows no database.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.leader.parts.runs import RunTable
from scheduler_service.core.run_state import RUNNING, RunState
from scheduler_service.core.samples import QueueSample, Sample, busiest, total_of
from scheduler_service.metrics.bulk_histogram import BulkHistogram
from scheduler_service.ports.samples import SampleSource
from scheduler_service.version import VERSION

_COUNTED: Final = {
    RUNNING: "started", RunState.COMPLETED: "completed", RunState.FAILED: "failed", RunState.MISSED: "missed",
}  # fmt: skip


class SampleTaker(SampleSource):
    """The figures of one leader process since the last sample."""

    def __init__(self, delays: BulkHistogram) -> None:
        self._lock = threading.Lock()
        self._delays = delays
        self._delays_before = delays.counts()
        self._begin()

    def _begin(self) -> None:
        self._queues: dict[str, QueueSample] = {}
        self._total = QueueSample()
        self._workers: int | None = None
        self._inbox_lag: Duration = 0
        self._versions: tuple[str, ...] = ()

    def show(
        self, runs: RunTable, lags: Mapping[str, Duration], workers: int, inbox_lag: Duration, versions: tuple[str, ...]
    ) -> None:
        """Add the present figures of the loop, and what happened since the last call."""
        seen = _by_queue(runs.flow.take(), lags, runs.pending, runs.running)
        with self._lock:
            for name, one in seen.items():
                before = self._queues.get(name)
                self._queues[name] = one if before is None else before.plus(one)
            self._total = self._total.plus(total_of(seen))
            self._workers = workers if self._workers is None else min(workers, self._workers)
            self._inbox_lag = max(inbox_lag, self._inbox_lag)
            self._versions = versions

    def take_sample(self, at: Instant, term: int) -> Sample:
        delays = self._delays.counts()
        with self._lock:
            new = tuple(now - before for now, before in zip(delays, self._delays_before, strict=True))
            sample = Sample(
                at,
                term,
                VERSION,
                self._total,
                new,
                self._workers or 0,
                self._inbox_lag,
                busiest(self._queues),
                self._versions,
            )
            self._delays_before = delays
            self._begin()
        return sample


def _by_queue(
    happened: Counter[tuple[str, RunState]],
    lags: Mapping[str, Duration],
    pending: Mapping[str, int],
    running: Mapping[str, int],
) -> dict[str, QueueSample]:
    found = {
        name: QueueSample(lags.get(name, 0), pending.get(name, 0), running.get(name, 0))
        for name in {*lags, *pending, *running, *(name for name, _ in happened)}
    }
    for (name, state), number in happened.items():
        if state in _COUNTED:
            found[name] = found[name]._replace(**{_COUNTED[state]: number})
    return found
