"""The times of a union: those of its members, in order and each once."""

from collections.abc import Iterable, Iterator
from heapq import merge

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import Instant

Ints = NDArray[np.int64]


def united(members: Iterable[Iterator[Instant]]) -> Iterator[Instant]:
    """Merge ascending times, each once."""
    last: Instant | None = None
    for at in merge(*members):
        if at != last:
            yield at
        last = at


def united_arrays(members: Iterable[Ints]) -> Ints:
    """Merge arrays of times, each time once; no array at all is no time."""
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *members]))
