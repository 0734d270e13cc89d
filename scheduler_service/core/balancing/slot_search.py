"""The search for the best place of a rhythm: the phase of one interval that meets the least load.

The cost of a place is the heaviest slot of its occurrences in the next week, then the sum of those slots. Of equal
places the one with the least load around it wins, then the earliest. An interval of whole slots meets the same slots at
any second of a slot. Its costs are cached slot by slot while places are taken. Any other interval is followed
occurrence by occurrence.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.balancing.slot_counts import HORIZON_SLOTS, Ints, Share
from scheduler_service.core.index.forecast import SLOT

_SUM_BITS: Final = 40
_SUM: Final = (1 << _SUM_BITS) - 1
_HORIZON: Final = HORIZON_SLOTS * SLOT
_RANGE: Final[Ints] = np.arange(HORIZON_SLOTS + 1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Place:
    """The instant of an occurrence; `load` is the most that any slot of its rhythm holds besides it."""

    at: Instant
    load: int


class Search:
    """The places for one interval over the loads from slot `base` on, which `put` changes meanwhile.

    An interval longer than the map is compared only within the map.
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

    def best(self, spread: Duration, low: Instant, high: Instant) -> Place:
        """Return the best place in [low, high), at most one interval long."""
        first, last = self._slots(spread, low, high)
        if self._every < SLOT or first >= last:
            at = low + (spread - low) % min(self._every, SLOT)
            return Place(at, self.peak_at(at))
        slot, cost = self._cheapest(first, last, spread, apart=True)
        return Place(slot * SLOT + spread, cost >> _SUM_BITS)

    def better(self, spread: Duration, low: Instant, high: Instant, than: Instant) -> Place | None:
        """Return the best place in [low, high) if its heaviest slot holds less than that of a rhythm at `than`."""
        first, last = self._slots(spread, low, high)
        if self._every < SLOT or first >= last:
            return None
        slot, cost = self._cheapest(first, last, spread, apart=False)
        if self.peak_at(than) <= cost >> _SUM_BITS:
            return None
        return Place(slot * SLOT + spread, cost >> _SUM_BITS)

    def peak_at(self, at: Instant) -> int:
        """Return the heaviest slot that a rhythm through `at` meets."""
        phase = (at - self._start) % self._every
        if self._period:
            return int(self._costs.item(phase // SLOT)) >> _SUM_BITS
        return int(self._counts[np.minimum((phase + self._steps) // SLOT, HORIZON_SLOTS - 1)].max())

    def put(self, share: Share, first: Instant) -> None:
        """Count a share of this interval whose rhythm begins at `first`."""
        low, high = max(share.start, self._start), min(share.end, self._start + _HORIZON)
        at = first + max(0, -((first - low) // self._every)) * self._every
        if at >= high:
            return
        if not self._period:
            np.add.at(self._counts, np.arange(at - self._start, high - self._start, self._every) // SLOT, 1)
            return
        slot = at // SLOT - self._base
        self._counts[slot : -(-high // SLOT) - self._base : self._period] += 1
        phase = slot % self._period
        if phase == slot and high == self._start + _HORIZON:
            self._costs[phase] += (1 << _SUM_BITS) + self._turns  # each slot that it meets holds one more
            return
        met = self._counts[phase : self._turns * self._period : self._period]
        self._costs[phase] = (int(met.max()) << _SUM_BITS) + int(met.sum())

    def _slots(self, spread: Duration, low: Instant, high: Instant) -> tuple[int, int]:
        """Return the slots [first, last) whose places lie in [low, high)."""
        first, last = -((spread - low) // SLOT), -((spread - high) // SLOT)
        return first, last if self._every <= _HORIZON else min(last, self._base + HORIZON_SLOTS)

    def _cheapest(self, first: int, last: int, spread: Duration, *, apart: bool) -> tuple[int, int]:
        """Return the cheapest slot in [first, last), and its cost; `apart`: of equal ones the least surrounded.

        The candidates are in at most two rows: those before the rhythm's wrap in the map's time, and those after it.
        """
        alias = (first * SLOT + spread - self._start) % self._every
        number = min(last - first, -((alias - self._every) // SLOT))
        best = self._cheapest_of(first, alias, number, apart)
        if number < last - first:
            alias += number * SLOT - self._every
            best = min(best, self._cheapest_of(first + number, alias, last - first - number, apart))
        return best[2], best[0]

    def _cheapest_of(self, first: int, alias: Duration, number: int, apart: bool) -> tuple[int, int, int]:
        """Return cost, surroundings and slot of the cheapest of a row of candidates, whose first has this phase."""
        if self._period:
            met, costs = None, self._costs[alias // SLOT : alias // SLOT + number]
        else:
            met = ((alias + self._steps) // SLOT)[:, None] + _RANGE[:number]
            loads = self._counts[met]
            costs = _costs(loads.max(axis=0), loads.sum(axis=0))
        chosen = int(costs.argmin())
        cost = int(costs[chosen])
        if not apart:
            return cost, 0, first + chosen
        around = self._beside(alias // SLOT, number) if met is None else self._neighbours()[met].sum(axis=0)
        around[costs != cost] = _SUM
        chosen = int(around.argmin())
        return cost, int(around[chosen]), first + chosen

    def _neighbours(self) -> Ints:
        """Sum the load of the two slots on either side of each slot."""
        wide = np.zeros(HORIZON_SLOTS + 4, dtype=np.int64)
        wide[2:-2] = self._counts
        beside: Ints = wide[:-4] + wide[1:-3] + wide[3:-1] + wide[4:]
        return beside

    def _beside(self, phase: int, number: int) -> Ints:
        folded = self._neighbours()[: self._turns * self._period].reshape(self._turns, self._period)
        around: Ints = folded[:, phase : phase + number].sum(axis=0)
        return around


def _costs(peaks: Ints, sums: Ints) -> Ints:
    """Combine each place's costs into one number, so that the minimum is the best place."""
    return (peaks << _SUM_BITS) + sums
