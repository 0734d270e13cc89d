"""How each of it grows with N: the exponents, fitted on what was measured in this run. Nothing worse than n log n.

What the suites before it did not measure is measured here, without peers and at fewer N.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from tests.benchmarks import bench_idle, bench_precision
from tests.benchmarks.bed import Bed
from tests.benchmarks.bench_burst import burst
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.plots import against_n, exponent

# n log n between 1,000 and 1,000,000 looks like n to the 1.1.
WORST: Final = 1.1
SERIES: Final = (
    "burst, s: Itinerary",
    "precision, ms: published, p99",
    "precision, ms: started, p99",
    "sustained, leader's CPU s a second",
    "idle: start, s",
    "idle: memory, MB",
    "idle: rebuild, s",
)
PEERS: Final = ("burst, s: beat", "burst, s: RedBeat", "burst, s: APScheduler")


def figures(asked: Asked) -> Iterator[Figure]:
    """An exponent for each series, and one picture of all."""
    if SERIES[0] not in asked.series:
        with Bed() as bed:
            for number in (100, 300, 1_000) if asked.quick else (1_000, 3_000, 10_000, 30_000):
                asked.point(SERIES[0], number, burst(bed, number).seconds)
    for suite, module in (("precision", bench_precision), ("idle", bench_idle)):
        if not asked.kept(suite):
            list(module.figures(asked))
    for name in (*SERIES, *PEERS):
        points = asked.series.get(name, {})
        if len(points) > 1:
            target = WORST if name in SERIES and not asked.quick else None
            span = f"N from {min(points):,} to {max(points):,}, {_steepest(points):.2f} at the steepest"
            yield Figure(f"{name} ~ N to the power of, {span}", exponent(points), "", target=target)
    if asked.plots:
        drawn = {name: points for name in SERIES if (points := asked.series.get(name))}
        against_n(asked.plots / "growth.svg", "How it grows", "in its unit", drawn)


def _steepest(points: Mapping[int, float]) -> float:
    """The largest exponent between neighbouring N: a floor at small N hides behind a fit over all."""
    return max(exponent(dict(pair)) for pair in pairwise(sorted(points.items())))
