"""A histogram that takes many values at a time; the client library's takes one at a time, under a lock each."""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class BulkHistogram(Collector):
    """A collector that exports like a `prometheus_client.Histogram` of these `buckets` (ascending upper bounds)."""

    def __init__(self, name: str, text: str, buckets: Sequence[float], registry: CollectorRegistry) -> None:
        self._name, self._text = name, text
        self._bounds = [*buckets, inf]
        self._counts = [0] * len(self._bounds)
        self._sum = 0.0
        self._lock = threading.Lock()
        registry.register(self)

    def observe(self, values: Iterable[float]) -> None:
        """Count each of the values."""
        with self._lock:
            for value in values:
                self._counts[bisect_left(self._bounds, value)] += 1
                self._sum += value

    def counts(self) -> tuple[int, ...]:
        """Return the number of values in each bucket, the last one of those above all bounds."""
        with self._lock:
            return tuple(self._counts)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the metric family for the library."""
        with self._lock:
            cumulative, total = list(accumulate(self._counts)), self._sum
        buckets = list(zip(map(floatToGoString, self._bounds), cumulative, strict=True))
        yield HistogramMetricFamily(self._name, self._text, buckets=buckets, sum_value=total)
