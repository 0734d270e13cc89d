"""The search for the best place of a rhythm: which phase of one interval meets the least of what is there.

The cost of a place is the heaviest slot that its occurrences in the coming week meet, then the sum of all of these,
then its time. An interval of whole slots meets the same slots wherever in a slot it runs, so that its costs are kept,
slot by slot, while place after place is taken; any other interval is followed occurrence by occurrence.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler_service.core.forecast import SLOT
from scheduler_service.core.instants import Duration, Instant
from scheduler_service.core.slot_counts import HORIZON_SLOTS, Ints, Share

_SUM_BITS: Final = 40
_HORIZON: Final = HORIZON_SLOTS * SLOT


@dataclass(frozen=True, slots=True)
class Place:
    """Where an occurrence goes; `load` is the most that any slot of its rhythm holds besides it."""

    at: Instant
    load: int


class Search:
    """The places for one interval over the loads from slot `base` on, which are changed through `put` meanwhile.

    An interval longer than the map is looked at where the map reaches.
    """

    def __init__(self, counts: Ints, base: int, every: Duration) -> None:
        self._counts, self._base, self._every = counts, base, every
        self._start = base * SLOT
        self._turns = max(1, _HORIZON // every)
        self._period = every // SLOT if every % SLOT == 0 and every <= _HORIZON else 0
        if self._period:
            folded = counts[: self._turns * self._period].reshape(self._turns, self._period)
            self._costs = _costs(folded.max(axis=0), folded.sum(axis=0))
        else:
            self._steps = np.arange(self._turns, dtype=np.int64) * every

    def best(self, spread: Duration, low: Instant, high: Instant, *, kept: Instant | None = None) -> Place:
        """The best place in [low, high), at most one interval long; `kept` where no other one has a lower peak."""
        first, last = -((spread - low) // SLOT), -((spread - high) // SLOT)
        if self._every > _HORIZON:
            last = min(last, self._base + HORIZON_SLOTS)
        if self._every < SLOT or first >= last:
            at = kept if kept is not None else low + (spread - low) % min(self._every, SLOT)
            return Place(at, self.peak_at(at))
        slot, cost = self._cheapest(first, last, spread)
        if kept is not None and (peak := self.peak_at(kept)) <= cost >> _SUM_BITS:
            return Place(kept, peak)
        return Place(slot * SLOT + spread, cost >> _SUM_BITS)

    def peak_at(self, at: Instant) -> int:
        """The heaviest slot that a rhythm through `at` meets."""
        if self._period:
            return int(self._costs[(at // SLOT - self._base) % self._period]) >> _SUM_BITS
        return int(self._followed(np.asarray([at]))[0]) >> _SUM_BITS

    def put(self, share: Share, first: Instant) -> None:
        """Count a share of this interval whose rhythm begins at `first`."""
        low, high = max(share.start, self._start), min(share.end, self._start + _HORIZON)
        at = first + max(0, -((first - low) // self._every)) * self._every
        if at >= high:
            return
        if not self._period:
            np.add.at(self._counts, np.arange(at - self._start, high - self._start, self._every) // SLOT, 1)
            return
        phase = (at // SLOT - self._base) % self._period
        self._counts[at // SLOT - self._base : -(-high // SLOT) - self._base : self._period] += 1
        met = self._counts[phase : self._turns * self._period : self._period]
        self._costs[phase] = (int(met.max()) << _SUM_BITS) + int(met.sum())

    def _cheapest(self, first: int, last: int, spread: Duration) -> tuple[int, int]:
        """The slot in [first, last) of the least cost, and the cost."""
        if self._period:
            start = (first - self._base) % self._period
            costs = np.concatenate((self._costs[start:], self._costs[:start]))[: last - first]
        else:
            costs = self._followed(np.arange(first, last) * SLOT + spread)
        chosen = int(costs.argmin())
        return first + chosen, int(costs[chosen])

    def _followed(self, starts: Ints) -> Ints:
        phases = (starts - self._start) % self._every
        met = np.minimum((phases[:, None] + self._steps) // SLOT, HORIZON_SLOTS - 1)
        loads = self._counts[met]
        return _costs(loads.max(axis=1), loads.sum(axis=1))


def _costs(peaks: Ints, sums: Ints) -> Ints:
    """One number for each place, so that the least of them is the best place."""
    return (peaks << _SUM_BITS) + sums
