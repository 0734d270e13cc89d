"""Putting runs in order: by time, then by position, several streams into one.

A run is a pair of numbers, its time and its position in the order of job ids; both fit one 64-bit key
for any window the index holds, so that ordering is one sort of plain integers.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Positions = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Runs:
    """Times (microseconds) and positions, side by side."""

    times: Ints
    positions: Positions


NO_RUNS: Final = Runs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))


def merged(ordered: Runs, others: list[Runs], size: int) -> Runs:
    """`ordered` and `others` as one ordered stream, doubles in `others` dropped; positions are below `size`."""
    if not others:
        return ordered
    rest = Runs(np.concatenate([r.times for r in others]), np.concatenate([r.positions for r in others]))
    base = min(int(r.times.min()) for r in (ordered, rest) if r.times.size)
    top = max(int(r.times.max()) for r in (ordered, rest) if r.times.size)
    bits = max(1, size - 1).bit_length()
    if (top - base).bit_length() + bits > 63:
        return _lexically(ordered, rest)
    keys = np.sort(_keys(rest, base, bits))
    keys = keys[np.flatnonzero(np.diff(keys, prepend=-1))]
    if ordered.times.size:
        # A stable sort of two ordered runs is a merge.
        keys = np.sort(np.concatenate([_keys(ordered, base, bits), keys]), kind="stable")
    return Runs((keys >> bits) + base, (keys & ((1 << bits) - 1)).astype(np.int32))


def _keys(runs: Runs, base: int, bits: int) -> Ints:
    return ((runs.times - base) << bits) | runs.positions


def _lexically(ordered: Runs, rest: Runs) -> Runs:
    times = np.concatenate([ordered.times, rest.times])
    positions = np.concatenate([ordered.positions, rest.positions])
    order = np.lexsort((positions, times))
    times, positions = times[order], positions[order]
    fresh = np.ones(times.size, dtype=np.bool_)
    fresh[1:] = (np.diff(times) != 0) | (np.diff(positions) != 0)
    return Runs(times[fresh], positions[fresh])
