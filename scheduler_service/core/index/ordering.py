"""Ordering of runs: several streams merged into one, by time, then by position.

A run is a pair of numbers, its time and its position in the order of job ids. Runs on whole seconds of one window are
counted into their seconds; all others are packed into one 64-bit key each and sorted. Both give the same order and
remove duplicates.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import SECOND

Ints = NDArray[np.int64]
Positions = NDArray[np.int32]
Shorts = NDArray[np.uint16]
_CROWDED: Final = 16  # runs a second, from where counting is cheaper than sorting
_SHORT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Runs:
    """Times (microseconds) and positions, side by side."""

    times: Ints
    positions: Positions


NO_RUNS: Final = Runs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))


def merged(ordered: Runs, others: list[Runs], size: int) -> Runs:
    """Merge `ordered` and `others` into one ordered stream without duplicates; positions are below `size`."""
    if not others:
        return ordered
    rest = ordered_runs(
        Runs(np.concatenate([r.times for r in others]), np.concatenate([r.positions for r in others])), size
    )
    if not ordered.times.size:
        return rest
    base = min(int(ordered.times[0]), int(rest.times[0]))
    bits = _bits(size)
    if (max(int(ordered.times[-1]), int(rest.times[-1])) - base).bit_length() + bits > 63:
        both = Runs(np.concatenate([ordered.times, rest.times]), np.concatenate([ordered.positions, rest.positions]))
        return _lexically(both)
    keys = np.concatenate([_keys(ordered, base, bits), _keys(rest, base, bits)])
    # A stable sort of two ordered runs is a merge.
    keys.sort(kind="stable")
    return _unpacked(_each_once(keys), base, bits)


def ordered_runs(runs: Runs, size: int) -> Runs:
    """Order at least one run by (time, position), without duplicates."""
    base = int(runs.times.min())
    span, bits = int(runs.times.max()) - base, _bits(size)
    if size < _SHORT and span < min(_SHORT, runs.times.size // _CROWDED) * SECOND:
        counted = _by_counting(runs, base)
        if counted:
            return counted
    if span.bit_length() + bits > 63:
        return _lexically(runs)
    keys = _keys(runs, base, bits)
    keys.sort()
    return _unpacked(_each_once(keys), base, bits)


def _bits(size: int) -> int:
    return max(1, size - 1).bit_length()


def _keys(runs: Runs, base: int, bits: int) -> Ints:
    return ((runs.times - base) << bits) | runs.positions


def _unpacked(keys: Ints, base: int, bits: int) -> Runs:
    return Runs((keys >> bits) + base, (keys & ((1 << bits) - 1)).astype(np.int32))


def _each_once(keys: Ints) -> Ints:
    fresh = np.ones(keys.size, dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    return keys if fresh.all() else keys[fresh]


def _by_counting(runs: Runs, base: int) -> Runs | None:
    """Count the runs into their seconds and sort each second's positions; None if that does not pay."""
    seconds = _whole_seconds(runs.times - base)
    if seconds is None:
        return None
    counts = np.bincount(seconds)
    if int(counts.max()) * counts.size > 4 * runs.times.size:
        return None
    positions = runs.positions.astype(np.uint16).take(np.argsort(seconds, kind="stable"))
    filled = np.arange(int(counts.max())) < counts[:, None]
    grid = np.full(filled.shape, _SHORT - 1, dtype=np.uint16)
    grid[filled] = positions
    grid.sort(axis=1, kind="stable")
    doubled = (grid[:, 1:] == grid[:, :-1]) & filled[:, 1:]
    if doubled.any():
        filled[:, 1:] &= ~doubled
        counts = filled.sum(axis=1)
    times = np.repeat(np.arange(counts.size) * SECOND + base, counts)
    return Runs(times, grid[filled].astype(np.int32))


def _whole_seconds(since: Ints) -> Shorts | None:
    """Convert microseconds to seconds; None if any of them is not whole."""
    # Floats hold these numbers exactly, and multiply much faster than integers divide.
    seconds = (since * (1 / SECOND) + 0.5).astype(np.uint16)
    return seconds if bool((seconds.astype(np.int64) * SECOND == since).all()) else None


def _lexically(runs: Runs) -> Runs:
    order = np.lexsort((runs.positions, runs.times))
    times, positions = runs.times[order], runs.positions[order]
    fresh = np.ones(times.size, dtype=np.bool_)
    fresh[1:] = (times[1:] != times[:-1]) | (positions[1:] != positions[:-1])
    return Runs(times[fresh], positions[fresh])
