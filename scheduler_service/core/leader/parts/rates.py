"""Rates: for each limit and key, the starts reported in the last `per`, and dispatched runs not reported to start.

Promises: if runs are dispatched only after `may_start`, then at most `count` start in any window of `per`, by true
time. All starts of a window were counted when the last of them was dispatched; a late report only counts for longer.
Times are those of the leader's steady clock, which no step of the database's clock changes.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from itinerary.protocol.instants import Duration
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.limits import Rate

MOST_BUCKETS: Final = 1_000
_Timed: TypeAlias = tuple[Duration, str, str, LimitUse]


class RatedUse(NamedTuple):
    """A limit that counts the run, and the rate that holds for its key."""

    use: LimitUse
    rate: Rate


def _timed(at: Duration, use: LimitUse) -> _Timed:
    """An entry of a heap: a use with a key and one without cannot be compared."""
    return at, use.name, use.key or "", use


@dataclass(slots=True)
class _Bucket:
    """Starts that were reported close together; all count as the last of them."""

    first: Duration
    last: Duration
    count: int


@dataclass(slots=True)
class _Window:
    per: Duration
    unreported: int = 0
    reported: int = 0
    buckets: deque[_Bucket] = field(default_factory=deque)
    is_watched: bool = False

    def add(self, at: Duration, count: int) -> None:
        """Count starts that were reported at `at`, no earlier than those before."""
        last = self.buckets[-1] if self.buckets else None
        if last is not None and at - last.first < -(-self.per // (MOST_BUCKETS - 1)):
            last.last, last.count = max(last.last, at), last.count + count
        else:
            self.buckets.append(_Bucket(at, at, count))
        self.reported += count

    def counted(self, now: Duration) -> int:
        """The starts and unreported runs that fill the window."""
        while self.buckets and self.buckets[0].last <= now - self.per:
            self.reported -= self.buckets.popleft().count
        return self.unreported + self.reported

    def free_at(self, count: int) -> Duration | None:
        """When fewer than `count` will be counted; None if only a report can tell."""
        too_many = self.unreported + self.reported - count
        for bucket in self.buckets:
            too_many -= bucket.count
            if too_many < 0:
                return bucket.last + self.per
        return None


@dataclass(slots=True)
class Rates:
    """The windows, and the uses that were refused a start and wait for the next one.

    `now`: the steady time of this pass. `stored`: rows of starts may lie in the database.
    """

    now: Duration = 0
    stored: bool = False
    _windows: dict[LimitUse, _Window] = field(default_factory=dict)
    _dispatched: dict[str, tuple[LimitUse, ...]] = field(default_factory=dict)
    _refused: dict[LimitUse, tuple[int, Duration | None]] = field(default_factory=dict)
    _free: list[_Timed] = field(default_factory=list)
    _over: list[_Timed] = field(default_factory=list)
    _prune_at: Duration = 0

    def tick(self, steady: Duration) -> None:
        """Begin a pass at this steady time."""
        self.now = max(self.now, steady)

    def room(self, rated: RatedUse) -> int:
        """How many runs of this use may be dispatched now."""
        window = self._windows.get(rated.use)
        if window is None:
            return rated.rate.count
        window.per = rated.rate.per
        return rated.rate.count - window.counted(self.now)

    def may_start(self, uses: Iterable[RatedUse]) -> LimitUse | None:
        """None if a run of all these uses may be dispatched now; else the full use, which `take_free` names again."""
        for rated in uses:
            if self.room(rated) <= 0:
                _, planned = self._refused.get(rated.use, (0, None))
                self._refused[rated.use] = (rated.rate.count, planned)
                self._plan(rated.use)
                return rated.use
        return None

    def room_in(self, rated: RatedUse) -> Duration | None:
        """How long after this pass began a full use may have room; None if only a report can tell."""
        window = self._windows.get(rated.use)
        free_at = None if window is None else window.free_at(rated.rate.count)
        return None if free_at is None else max(0, free_at - self.now)

    def take_free(self) -> list[LimitUse]:
        """Take out the refused uses that have room now."""
        free = []
        while self._free and self._free[0][0] <= self.now:
            at, *_, use = heappop(self._free)
            count, planned = self._refused.get(use, (0, None))
            if planned != at:
                continue
            if self._windows[use].counted(self.now) < count:
                del self._refused[use]
                self._changed(use)
                free.append(use)
            else:
                self._plan(use)
        return free

    def next_in(self) -> Duration | None:
        """How long after this pass began a refused use may have room; None if only a report can tell."""
        while self._free and self._refused.get(self._free[0][-1], (0, None))[1] != self._free[0][0]:
            heappop(self._free)
        return max(0, self._free[0][0] - self.now) if self._free else None

    def dispatched(self, run_id: str, uses: Iterable[RatedUse]) -> None:
        """Count the run for these uses until its start is reported or it is given back."""
        known = self._dispatched.get(run_id, ())
        new = [rated for rated in uses if rated.use not in known]
        if not new:
            return
        self._dispatched[run_id] = (*known, *(rated.use for rated in new))
        for rated in new:
            self._window(rated).unreported += 1

    def started(self, run_id: str, uses: Sequence[RatedUse]) -> tuple[LimitUse, ...]:
        """Count a start of the run now, reported or no longer to be waited for; returns the uses that count it."""
        for use in (before := self._dispatched.pop(run_id, ())):
            self._windows[use].unreported -= 1
        for rated in uses:
            self._window(rated)
        counted = tuple(dict.fromkeys((*before, *(rated.use for rated in uses))))
        for use in counted:
            self._windows[use].add(self.now, 1)
            self._changed(use)
        self.stored = self.stored or bool(counted)
        return counted

    def given_back(self, run_id: str) -> None:
        """Count the run no longer: it was not dispatched, or no message of it can start it any more."""
        for use in self._dispatched.pop(run_id, ()):
            self._windows[use].unreported -= 1
            self._changed(use)

    def is_dispatched(self, run_id: str) -> bool:
        """Whether the run is counted and its start not reported."""
        return run_id in self._dispatched

    def restore(self, rated: RatedUse, age: Duration, count: int) -> None:
        """Count starts that an earlier leader committed, oldest first."""
        window = self._window(rated)
        window.add(self.now - max(0, age), count)
        self._changed(rated.use)

    def forget_empty(self) -> None:
        """Forget windows in which nothing is counted any more: keys come and go."""
        while self._over and self._over[0][0] <= self.now:
            *_, use = heappop(self._over)
            window = self._windows[use]
            window.is_watched = False
            if window.counted(self.now) == 0 and use not in self._refused:
                del self._windows[use]
            elif window.buckets:
                self._watch(use, window)

    def prune_in(self, rest: Duration, *, stored: bool) -> None:
        """Prune what an earlier leader stored, also of limits that are gone, once the first dispatches have gone."""
        self.stored = stored
        self._prune_at = self.now + rest

    def prune_due(self, every: Duration) -> bool:
        """Whether stored starts are to be pruned now; the next time is `every` later."""
        if not self.stored or self.now < self._prune_at:
            return False
        self._prune_at = self.now + every
        return True

    def pruned(self, *, full: bool, left: bool) -> None:
        """Prune on at once if there was more; rest if nothing is left, and nothing counts that could be stored."""
        if full:
            self._prune_at = 0
        elif not left and not self._windows:
            self.stored = False

    def _window(self, rated: RatedUse) -> _Window:
        window = self._windows.get(rated.use)
        if window is None:
            window = self._windows[rated.use] = _Window(rated.rate.per)
        window.per = rated.rate.per
        return window

    def _changed(self, use: LimitUse) -> None:
        """Note when the window may be over, and when a refused use may have room."""
        window = self._windows[use]
        if not window.is_watched:
            self._watch(use, window)
        if use in self._refused:
            self._plan(use)

    def _watch(self, use: LimitUse, window: _Window) -> None:
        window.is_watched = True
        heappush(self._over, _timed(window.buckets[-1].last + window.per if window.buckets else self.now, use))

    def _plan(self, use: LimitUse) -> None:
        """Note when a refused use is to be tried again."""
        count, planned = self._refused[use]
        window = self._windows[use]
        at = self.now if window.counted(self.now) < count else window.free_at(count)
        if at != planned and at is not None:
            heappush(self._free, _timed(at, use))
        self._refused[use] = (count, at)
