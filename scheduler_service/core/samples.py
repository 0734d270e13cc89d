"""Samples: what a leader counted in one step of time, in a form that can be added up. Pure.

Owns the steps, how long samples are kept, and how they are merged. A step that no leader sampled has no sample: a gap,
never a zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate
from typing import Final, NamedTuple

from itinerary.protocol.instants import DAY, MINUTE, SECOND, Duration, Instant

DELAY_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the delays counted, in seconds; one more count is of those above."""
MOST_QUEUES: Final = 50
"""A sample names so many queues, the busiest: one that names thousands would not be small."""


class Step(IntEnum):
    """How long a stored sample covers, in minutes."""

    MINUTE = 1
    TEN_MINUTES = 10

    @property
    def length(self) -> Duration:
        """Return the length as a duration."""
        return self.value * MINUTE

    @property
    def kept(self) -> Duration:
        """Return how long samples of this step are kept."""
        return 2 * DAY if self is Step.MINUTE else 30 * DAY


class QueueSample(NamedTuple):
    """One queue: the longest lag and the most pending and running runs seen, and how many attempts began and ended."""

    lag: Duration = 0
    pending: int = 0
    running: int = 0
    started: int = 0
    completed: int = 0
    failed: int = 0
    missed: int = 0

    def is_idle(self) -> bool:
        """Return whether nothing happened and nothing waited."""
        return self == _IDLE

    def plus(self, other: "QueueSample") -> "QueueSample":
        """Return both as one: the worst of what was seen, the sum of what was counted."""
        return QueueSample(
            max(self.lag, other.lag), max(self.pending, other.pending), max(self.running, other.running),
            self.started + other.started, self.completed + other.completed, self.failed + other.failed,
            self.missed + other.missed,
        )  # fmt: skip


_IDLE: Final = QueueSample()


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of the leader of a term from `at` on; `total` is of all queues, also of those that are not named.

    `delays` counts runs by how late they were dispatched, by DELAY_BOUNDS. `workers` is the fewest that were alive;
    `worker_versions` are the versions that they reported.
    """

    at: Instant
    term: int
    version: str
    total: QueueSample
    delays: tuple[int, ...]
    workers: int
    inbox_lag: Duration
    queues: Mapping[str, QueueSample] = field(default_factory=dict)
    worker_versions: tuple[str, ...] = ()


def merged(samples: Sequence[Sample], at: Instant) -> Sample:
    """Return the samples, in the order of time, as one from `at` on."""
    queues: dict[str, QueueSample] = {}
    for sample in samples:
        for name, one in sample.queues.items():
            before = queues.get(name)
            queues[name] = one if before is None else before.plus(one)
    total = samples[0].total
    for sample in samples[1:]:
        total = total.plus(sample.total)
    last = samples[-1]
    return Sample(
        at, last.term, last.version, total, tuple(map(sum, zip(*(sample.delays for sample in samples), strict=True))),
        min(sample.workers for sample in samples), max(sample.inbox_lag for sample in samples), busiest(queues),
        last.worker_versions,
    )  # fmt: skip


def busiest(queues: Mapping[str, QueueSample]) -> dict[str, QueueSample]:
    """Return those of the queues in which something happened or waited, at most MOST_QUEUES, by name."""
    busy = [(name, one) for name, one in queues.items() if not one.is_idle()]
    if len(busy) > MOST_QUEUES:
        busy.sort(key=lambda item: (item[1].lag, item[1].started + item[1].pending, item[0]), reverse=True)
    return dict(sorted(busy[:MOST_QUEUES]))


def total_of(queues: Mapping[str, QueueSample]) -> QueueSample:
    """Return all queues at one moment as one: the longest lag, the sum of everything else."""
    every = [*queues.values()]
    lag = max((one.lag for one in every), default=0)
    return QueueSample(lag, *(sum(numbers) for numbers in zip(*(one[1:] for one in every), strict=True)))


def in_steps(samples: Iterable[Sample], step: Duration) -> dict[Instant, Sample]:
    """Return the samples, in the order of time, merged by steps of this length; a step without a sample is absent."""
    by_step: dict[Instant, list[Sample]] = {}
    for sample in samples:
        by_step.setdefault(sample.at - sample.at % step, []).append(sample)
    return {at: found[0] if found[0].at == at and not found[1:] else merged(found, at) for at, found in by_step.items()}


def delay_quantile(delays: Sequence[int], share: float) -> Duration | None:
    """Estimate below which delay this share of the dispatches lies, linear within its bounds; None without any."""
    number = sum(delays)
    if not number:
        return None
    wanted = share * number
    for place, (count, so_far) in enumerate(zip(delays, accumulate(delays), strict=True)):
        if so_far >= wanted and count:
            low = DELAY_BOUNDS[place - 1] if place else 0.0
            high = DELAY_BOUNDS[place] if place < len(DELAY_BOUNDS) else low
            return round((low + (high - low) * (wanted - so_far + count) / count) * SECOND)
    return None
