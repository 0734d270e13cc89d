"""The search for the best place of a rhythm: which phase of one interval meets the least of what is there.

The cost of a place is the heaviest slot that its occurrences in the coming week meet, then the sum of all of these; of
equal ones that with the least around it, then the earliest. An interval of whole slots meets the same slots wherever in
a slot it runs, so that its costs are kept, slot by slot, while place after place is taken; any other is followed
occurrence by occurrence.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler_service.core.forecast import SLOT
from scheduler_service.core.instants import Duration, Instant
from scheduler_service.core.slot_counts import HORIZON_SLOTS, Ints, Share

_SUM_BITS: Final = 40
_SUM: Final = (1 << _SUM_BITS) - 1
_BESIDE: Final = (-2, -1, 1, 2)
_HORIZON: Final = HORIZON_SLOTS * SLOT
_RANGE: Final[Ints] = np.arange(HORIZON_SLOTS + 1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an occurrence goes; `load` is the most that any slot of its rhythm holds besides it."""

    at: Instant
    load: int


@dataclass(frozen=True, slots=True)
class _Run:
    """Candidates in a row, from slot `first` on, one a slot; `alias` is the first one's phase, from the map's start."""

    first: int
    alias: Duration
    number: int


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

    def best(self, spread: Duration, low: Instant, high: Instant) -> Place:
        """The best place in [low, high), at most one interval long."""
        first, last = self._slots(spread, low, high)
        if self._every < SLOT or first >= last:
            at = low + (spread - low) % min(self._every, SLOT)
            return Place(at, self.peak_at(at))
        slot, cost = self._cheapest(first, last, spread, apart=True)
        return Place(slot * SLOT + spread, cost >> _SUM_BITS)

    def better(self, spread: Duration, low: Instant, high: Instant, than: Instant) -> Place | None:
        """The best place in [low, high), if its heaviest slot holds less than that of a rhythm through `than`."""
        first, last = self._slots(spread, low, high)
        if self._every < SLOT or first >= last:
            return None
        slot, cost = self._cheapest(first, last, spread, apart=False)
        if self.peak_at(than) <= cost >> _SUM_BITS:
            return None
        return Place(slot * SLOT + spread, cost >> _SUM_BITS)

    def peak_at(self, at: Instant) -> int:
        """The heaviest slot that a rhythm through `at` meets."""
        phase = (at - self._start) % self._every
        if self._period:
            return int(self._costs[phase // SLOT]) >> _SUM_BITS
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
        met = self._counts[phase : self._turns * self._period : self._period]
        self._costs[phase] = (int(met.max()) << _SUM_BITS) + int(met.sum())

    def _slots(self, spread: Duration, low: Instant, high: Instant) -> tuple[int, int]:
        """The slots [first, last) whose places lie in [low, high)."""
        first, last = -((spread - low) // SLOT), -((spread - high) // SLOT)
        return first, last if self._every <= _HORIZON else min(last, self._base + HORIZON_SLOTS)

    def _cheapest(self, first: int, last: int, spread: Duration, *, apart: bool) -> tuple[int, int]:
        """The slot in [first, last) of the least cost, and the cost; `apart`: of equal ones the least surrounded."""
        found: list[tuple[int, int, int]] = []
        for run in self._runs(first, last, spread):
            costs = self._costs_of(run)
            chosen = int(costs.argmin())
            cost, near = int(costs[chosen]), 0
            if apart:
                ties = np.flatnonzero(costs == cost)
                around = self._around(run, ties)
                chosen, near = int(ties[around.argmin()]), int(around.min())
            found.append((cost, near, run.first + chosen))
        cost, _, slot = min(found)
        return slot, cost

    def _runs(self, first: int, last: int, spread: Duration) -> Iterator[_Run]:
        """The candidates in at most two rows: those that come before the rhythm's turn and those after it."""
        alias = (first * SLOT + spread - self._start) % self._every
        number = min(last - first, -((alias - self._every) // SLOT))
        yield _Run(first, alias, number)
        if number < last - first:
            yield _Run(first + number, alias + number * SLOT - self._every, last - first - number)

    def _costs_of(self, run: _Run) -> Ints:
        if self._period:
            slot = run.alias // SLOT
            return self._costs[slot : slot + run.number]
        loads = self._counts[self._met(run)]
        return _costs(loads.max(axis=0), loads.sum(axis=0))

    def _met(self, run: _Run) -> Ints:
        """The slots that each candidate meets, a column each."""
        met: Ints = ((run.alias + self._steps) // SLOT)[:, None] + _RANGE[: run.number]
        return met

    def _around(self, run: _Run, ties: Ints) -> Ints:
        """What lies in the slots beside those that these candidates meet."""
        if self._period:
            sums, phases = self._costs & _SUM, run.alias // SLOT + ties
            return np.asarray(sum(sums[(phases + away) % self._period] for away in _BESIDE))
        met = self._met(run)[:, ties]
        beside = [self._counts[np.clip(met + away, 0, HORIZON_SLOTS - 1)].sum(axis=0) for away in _BESIDE]
        return np.asarray(sum(beside))


def _costs(peaks: Ints, sums: Ints) -> Ints:
    """One number for each place, so that the least of them is the best place."""
    return (peaks << _SUM_BITS) + sums
