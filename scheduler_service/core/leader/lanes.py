"""Lanes: runs of one queue that wait in one order, because the same limits hold for them; and the order among lanes.

In a queue that is not fair all runs without limits share one lane. In a fair one, those of a fair key or a job do, and
lanes of equal priority take turns. Promises that each change costs the logarithm of the number of lanes, however many
runs wait. Owns no rule: the caller says which lane is served and which is closed.
"""

import heapq
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from itinerary.protocol.instants import Instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.model import ActiveRun

Waiting: TypeAlias = tuple[int, Instant, str]
Place: TypeAlias = "tuple[int, int, Instant, str, int, Lane]"

_SLACK: Final = 64


@dataclass(slots=True, eq=False)
class Lane:
    """One lane. `place`: its present one in the order in which it stands, None if it stands in none.

    `closed_by`: the limit for which it waits. `passed_over_at`: when its first run was first refused by one.
    `is_watched`: it is looked up when it was passed over for long. `gone`: runs that wait here no longer.
    """

    queue: str
    name: str = ""
    limits: tuple[LimitUse, ...] = ()
    runs: list[Waiting] = field(default_factory=list)
    place: "Place | None" = None
    closed_by: LimitUse | None = None
    passed_over_at: Instant | None = None
    is_watched: bool = False
    gone: set[str] = field(default_factory=set)

    def before(self, run: Waiting, most: int) -> int:
        """How many of its runs go before this one, `most` at most: reads no more than three times as many."""
        found, places = 0, [0]
        while places and found < most:
            place = places.pop()
            if place < len(self.runs) and self.runs[place] < run:  # what follows it in the heap is no smaller
                found += self.runs[place][2] not in self.gone
                places += (2 * place + 1, 2 * place + 2)
        return found


@dataclass(slots=True)
class LaneOrder:
    """Lanes by priority, turn and due time of their first runs. A lane stands in one order at a time."""

    _heap: list[Place] = field(default_factory=list)
    _lanes: int = 0
    _number: int = 0

    def __len__(self) -> int:
        return self._lanes

    def put(self, lane: Lane, turn: int) -> None:
        """Give the lane its place, in exchange for the one that it had here."""
        if lane.place is None:
            self._lanes += 1
        self._number += 1
        priority, due_at, run_id = lane.runs[0]
        lane.place = (priority, turn, due_at, run_id, self._number, lane)
        heapq.heappush(self._heap, lane.place)
        if len(self._heap) > 2 * self._lanes + _SLACK:
            self._heap = [place for place in self._heap if place[-1].place is place]
            heapq.heapify(self._heap)

    def remove(self, lane: Lane) -> None:
        """Take the lane out."""
        lane.place = None
        self._lanes -= 1

    def first(self) -> Lane | None:
        """The lane whose turn it is."""
        while self._heap and self._heap[0][-1].place is not self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0][-1] if self._heap else None


@dataclass(slots=True)
class Turns:
    """The turn of each of those that take turns: after its last one, but not before the present one."""

    _now: int = 0
    _last: dict[Hashable, int] = field(default_factory=dict)
    _most: int = _SLACK

    def of(self, holder: Hashable) -> int:
        """The next turn of the holder."""
        last = self._last.get(holder)
        return self._now if last is None else max(self._now, last + 1)

    def serve(self, holder: Hashable) -> None:
        """Record that the holder had its turn."""
        self._now = self._last[holder] = self.of(holder)
        if len(self._last) > self._most:  # holders come and go
            self._last = {name: turn for name, turn in self._last.items() if turn >= self._now}
            self._most = 2 * len(self._last) + _SLACK


@dataclass(slots=True)
class QueueLanes:
    """The lanes of one queue. `plain`: the lane of the runs without limits, unless the queue `is_fair`."""

    plain: Lane
    is_fair: bool
    _size: int = 0
    _lanes: dict[str, dict[tuple[LimitUse, ...], Lane]] = field(default_factory=dict)
    _free: LaneOrder = field(default_factory=LaneOrder)
    _limited: LaneOrder = field(default_factory=LaneOrder)
    _turns: Turns = field(default_factory=Turns)

    def __len__(self) -> int:
        return self._size

    def all(self) -> list[Lane]:
        """All lanes."""
        return [self.plain, *(lane for alike in self._lanes.values() for lane in alike.values())]

    def run_ids(self) -> list[str]:
        """All that waits here, in no order."""
        return [run_id for lane in self.all() for _, _, run_id in lane.runs]

    def has_limited(self) -> bool:
        """Whether a lane with limits may be served."""
        return len(self._limited) > 0

    def best_priority(self) -> int | None:
        """The priority of the most urgent run that no limit holds back; None if all wait for limits."""
        places = [lane.runs[0][0] for order in (self._free, self._limited) if (lane := order.first()) is not None]
        return min(places, default=None)

    def find(self, run: ActiveRun) -> Lane | None:
        """The lane in which the run waits; None for the plain one, and if none is there."""
        return self._lanes.get(lane_name(run, is_fair=self.is_fair), {}).get(run.limits)

    def add(self, run: ActiveRun) -> Lane | None:
        """Let the run wait in its lane; returns that lane if it is closed and the run became its first."""
        lane = self._lane_of(run)
        waiting = (run.priority, run.due_at, run.run_id)
        heapq.heappush(lane.runs, waiting)
        lane.gone.discard(run.run_id)  # an edit may have created a skipped occurrence anew
        self._size += 1
        if lane.runs[0] is not waiting:
            return None
        if lane.closed_by is not None:
            return lane
        self.open(lane)
        return None

    def open(self, lane: Lane) -> None:
        """Let the lane stand among those that may be served."""
        self._order(lane).put(lane, self._turns.of(lane.name) if self.is_fair else 0)

    def close(self, lane: Lane) -> None:
        """Take an open lane out of those that may be served."""
        self._order(lane).remove(lane)

    def first(self, *, with_limits: bool) -> Lane | None:
        """The lane to be served next, of those with limits only if they may be served at all."""
        free = self._free.first()
        limited = self._limited.first() if with_limits else None
        if free is None or limited is None:
            return free or limited
        return free if free.place < limited.place else limited  # type: ignore[operator]  # both stand in an order

    def take(self, lane: Lane, number: int, *, with_limits: bool) -> list[str]:
        """Take out the lane's most urgent run; of the plain lane up to `number` that are before any other lane's."""
        runs = lane.runs
        if lane is not self.plain:
            taken = [heapq.heappop(runs)]
        elif with_limits and (other := self._limited.first()) is not None:
            taken = [heapq.heappop(runs)]
            before = other.runs[0]
            while runs and len(taken) < number and runs[0] < before:
                taken.append(heapq.heappop(runs))
        elif number < len(runs):
            taken = [heapq.heappop(runs) for _ in range(number)]
        else:  # one sort if all are taken
            taken = sorted(runs)
            runs.clear()
        self._size -= len(taken)
        if runs:
            self.open(lane)
        else:
            self.close(lane)
            self._drop(lane)
        return list(dict.fromkeys(run_id for _, _, run_id in taken))

    def drop(self, lane: Lane, run_ids: Collection[str]) -> None:
        """Take these runs out of a lane that stands in no order here."""
        before = len(lane.runs)
        lane.runs = [waiting for waiting in lane.runs if waiting[2] not in run_ids]
        heapq.heapify(lane.runs)
        self._size -= before - len(lane.runs)
        if not lane.runs:
            self._drop(lane)

    def serve(self, lane: Lane) -> None:
        """Record that the lane had its turn."""
        if self.is_fair:
            self._turns.serve(lane.name)
            if lane.place is not None:
                self.open(lane)

    def _order(self, lane: Lane) -> LaneOrder:
        return self._limited if lane.limits else self._free

    def _lane_of(self, run: ActiveRun) -> Lane:
        if not (run.limits or self.is_fair):
            return self.plain
        name = lane_name(run, is_fair=self.is_fair)
        alike = self._lanes.setdefault(name, {})
        lane = alike.get(run.limits)
        if lane is None:
            lane = alike[run.limits] = Lane(run.queue, name, run.limits)
        return lane

    def _drop(self, lane: Lane) -> None:
        alike = self._lanes.get(lane.name)
        if lane is not self.plain and alike is not None:
            alike.pop(lane.limits, None)
            if not alike:
                del self._lanes[lane.name]


def lane_name(run: ActiveRun, *, is_fair: bool) -> str:
    """The lane of the run in memory: as its row names it, in a fair queue by its job where the row names none.

    In a queue that is not fair only limits part its runs.
    """
    if is_fair:
        return run.lane or ("" if run.job_id is None else f"job:{run.job_id}")
    return run.lane if any(use.key is not None for use in run.limits) else ""
