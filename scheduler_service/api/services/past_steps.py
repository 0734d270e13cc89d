"""Samples merged by steps, kept once their time is over: of a week of fifty queues 50,000 figures are read and merged.

Owns what is kept of it in this process: pieces of some steps, those used last, at most MOST samples in all. Each set of
limits of a caller has its own. Promises the same steps as from the database.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from itinerary.protocol.instants import HOUR, MINUTE, Duration, Instant
from scheduler_service.core.samples import Sample, Step, in_steps
from scheduler_service.ports.samples import SampleStore

MOST: Final = 2_000
_OF_A_PIECE: Final = 24
_LONGEST: Final = 8 * HOUR
# Later than a leader may still write, with clocks that differ by minutes.
_LATE: Final = 15 * MINUTE


class Versions(NamedTuple):
    """The versions of the leader and of the workers at a time."""

    at: Instant
    leader: str
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """The merged samples of a time by their steps; the versions at the first one read, and where they changed."""

    samples: dict[Instant, Sample] = field(default_factory=dict)
    versions: list[Versions] = field(default_factory=list)


class PastSteps:
    """Steps by who may see them, their length, and their time."""

    def __init__(self) -> None:
        self._pieces: OrderedDict[Hashable, Steps] = OrderedDict()
        self._lock = threading.Lock()

    def read(
        self, store: SampleStore, who: Hashable, step: Duration, since: Instant, until: Instant, now: Instant
    ) -> Steps:
        """Return the whole steps that lie in the time, or begin in it."""
        length = step * max(1, min(_OF_A_PIECE, _LONGEST // step))
        begins = range(since - since % length, until, length)
        found = self._kept({begin: (who, step, begin) for begin in begins})
        missing = [begin for begin in begins if begin not in found]
        if missing:
            stored = Step.TEN_MINUTES if step % Step.TEN_MINUTES.length == 0 else Step.MINUTE
            read = store.read(stored, missing[0], missing[-1] + length)
            new = {begin: _steps([one for one in read if begin <= one.at < begin + length], step) for begin in missing}
            self._keep({(who, step, begin): new[begin] for begin in missing if begin + length + _LATE < now})
            found |= new
        shown = Steps()
        for begin in begins:
            shown.samples.update((at, one) for at, one in found[begin].samples.items() if since <= at < until)
            shown.versions.extend(found[begin].versions)
        return shown

    def _kept(self, keys: dict[Instant, Hashable]) -> dict[Instant, Steps]:
        with self._lock:
            found = {begin: self._pieces[key] for begin, key in keys.items() if key in self._pieces}
            for begin in found:
                self._pieces.move_to_end(keys[begin])
        return found

    def _keep(self, pieces: dict[Hashable, Steps]) -> None:
        with self._lock:
            self._pieces.update(pieces)
            size = sum(map(_size, self._pieces.values()))
            while size > MOST:
                _, oldest = self._pieces.popitem(last=False)
                size -= _size(oldest)


def _steps(read: Sequence[Sample], step: Duration) -> Steps:
    by_versions = groupby(read, key=lambda one: (one.version, one.worker_versions))
    return Steps(in_steps(read, step), [Versions(next(same).at, *versions) for versions, same in by_versions])


def _size(piece: Steps) -> int:
    return max(1, len(piece.samples))
