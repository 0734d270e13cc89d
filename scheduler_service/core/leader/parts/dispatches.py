"""Admitted runs that wait for room in their queue's publish window or for a limit, and dispatches without an answer.

A lane that a limit holds back waits with that limit, out of sight of its queue, until the limit has room.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import Instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.lanes import Lane, LaneOrder, QueueLanes, Turns
from scheduler_service.core.model import ActiveRun

_SLACK: Final = 64


@dataclass(slots=True)
class Dispatches:
    """`waiting`: the lanes of each queue. `closed`: those that wait for a limit, by the limit and key.

    `in_progress`: the queues of unanswered dispatches.
    """

    waiting: dict[str, QueueLanes] = field(default_factory=dict)
    closed: dict[LimitUse, LaneOrder] = field(default_factory=dict)
    in_progress: dict[str, str] = field(default_factory=dict)
    of_queue: Counter[str] = field(default_factory=Counter)
    _fair: frozenset[str] = frozenset()
    _turns: dict[LimitUse, Turns] = field(default_factory=dict)
    _watched: list[tuple[Instant, int, Lane]] = field(default_factory=list)
    _most_watched: int = _SLACK
    _number: int = 0

    def queue_up(self, run: ActiveRun) -> None:
        """Let the run wait in its lane."""
        lanes = self.waiting.get(run.queue)
        if lanes is None:
            lanes = self.waiting[run.queue] = QueueLanes(Lane(run.queue), run.queue in self._fair)
        if (closed := lanes.add(run)) is not None and closed.closed_by is not None:
            self._wait_for(closed, closed.closed_by)

    def behind_limits(self) -> frozenset[str]:
        """The runs in lanes that wait for a limit."""
        if not self.closed:
            return frozenset()
        lanes = (lane for lanes in self.waiting.values() for lane in lanes.all() if lane.closed_by is not None)
        return frozenset(run_id for lane in lanes for _, _, run_id in lane.runs)

    def first(self, queue: str, *, with_limits: bool) -> Lane | None:
        """The open lane to be served next, of those with limits only if they may be served at all."""
        lanes = self.waiting.get(queue)
        return None if lanes is None else lanes.first(with_limits=with_limits)

    def take(self, lane: Lane, number: int, *, with_limits: bool) -> list[str]:
        """Take out the most urgent run of an open lane, of the plain lane up to `number`, each once."""
        lanes = self.waiting[lane.queue]
        taken = lanes.take(lane, number, with_limits=with_limits)
        if not lanes:
            del self.waiting[lane.queue]
        return taken

    def serve(self, lane: Lane) -> None:
        """Record that a run of the lane is dispatched: it had its turn in its queue and at its limits."""
        lane.passed_over_at = None
        lanes = self.waiting.get(lane.queue)
        if lanes is not None:
            lanes.serve(lane)
        for use in lane.limits:
            if (turns := self._turns.get(use)) is not None:
                turns.serve(self._holder(lane))

    def close(self, lane: Lane, use: LimitUse, now: Instant) -> None:
        """Let the lane wait for this limit, instead of in its queue or for another limit."""
        if lane.closed_by is None:
            self.waiting[lane.queue].close(lane)
        else:
            self._leave(lane)
        lane.closed_by = use
        if lane.passed_over_at is None:
            lane.passed_over_at = now
        if len(lane.limits) > 1 and not lane.is_watched:
            self._watch(lane, lane.passed_over_at)
        self._wait_for(lane, use)

    def waits_for(self, run: ActiveRun) -> LimitUse | None:
        """The limit that holds the run's lane back, whether the run itself waits here or in the database."""
        lane = self.closed_lane(run)
        return None if lane is None else lane.closed_by

    def before(self, run: ActiveRun, most: int) -> int:
        """How many runs go before this one in its lane, `most` at most."""
        lane = self.lane_of(run)
        return 0 if lane is None else lane.before((run.priority, run.due_at, run.run_id), most)

    def open(self, lane: Lane) -> None:
        """Let the lane that waited for a limit stand in its queue again."""
        self._leave(lane)
        self.waiting[lane.queue].open(lane)

    def discard_first(self, lane: Lane) -> None:
        """Drop the first run of a lane that waits for a limit, since the run waits no more."""
        use = lane.closed_by
        self.open(lane)
        self.take(lane, 1, with_limits=True)
        if use is not None and lane.runs:
            self.waiting[lane.queue].close(lane)
            lane.closed_by = use
            self._wait_for(lane, use)

    def take_passed_over(self, since: Instant) -> Lane | None:
        """Take out the lane of several limits that was passed over first, if that was by then."""
        while self._watched and self._watched[0][0] <= since:
            _, _, lane = heapq.heappop(self._watched)
            lane.is_watched = False
            if lane.closed_by is None or lane.passed_over_at is None:
                continue
            if lane.passed_over_at <= since:
                return lane
            self._watch(lane, lane.passed_over_at)
        return None

    def watch_again(self, lane: Lane, now: Instant) -> None:
        """Count the time for which the lane is passed over from now on."""
        lane.passed_over_at = now
        if lane.closed_by is not None and not lane.is_watched:
            self._watch(lane, now)

    def drop_closed(self, queue: str, wanted: Callable[[str], bool]) -> list[str]:
        """Drop the wanted runs of the queue's lanes that wait for a limit, and return them."""
        dropped: list[str] = []
        lanes = self.waiting.get(queue)
        for lane in () if lanes is None else lanes.all():
            if lane.closed_by is not None:
                found = {run_id for _, _, run_id in lane.runs if wanted(run_id)}
                dropped += found
                if found:
                    self.drop(lane, found)
        return dropped

    def lane_of(self, run: ActiveRun) -> Lane | None:
        """The lane in which the run waits, if any run waits there."""
        lanes = self.waiting.get(run.queue)
        if lanes is None:
            return None
        return lanes.find(run) if run.limits or lanes.is_fair else lanes.plain

    def closed_lane(self, run: ActiveRun) -> Lane | None:
        """The run's lane, if a limit holds that back."""
        lanes = self.waiting.get(run.queue) if run.limits else None
        lane = None if lanes is None else lanes.find(run)
        return None if lane is None or lane.closed_by is None else lane

    def drop(self, lane: Lane, run_ids: Collection[str]) -> None:
        """Let these runs of the lane wait no longer."""
        use, lanes = lane.closed_by, self.waiting[lane.queue]
        if use is None:
            lanes.close(lane)
        else:
            self._leave(lane)
        lanes.drop(lane, run_ids)
        if lane.runs:
            if use is None:
                lanes.open(lane)
            else:
                lane.closed_by = use
                self._wait_for(lane, use)
        if not lanes:
            del self.waiting[lane.queue]

    def leave_out(self, lane: Lane, run_ids: Collection[str]) -> None:
        """Note that these runs of the lane have ended; they are dropped once they are half of it.

        So each costs a step or two, however many others wait in the lane.
        """
        lane.gone.update(run_ids)
        if 2 * len(lane.gone) > len(lane.runs):
            self.drop(lane, lane.gone)
            lane.gone.clear()

    def forget_turns(self, use: LimitUse) -> None:
        """Forget who had turns at a limit that nobody uses or waits for."""
        self._turns.pop(use, None)

    def set_fair(self, fair: frozenset[str], get: Callable[[str], ActiveRun | None]) -> None:
        """Let lanes take turns in these queues only; the runs of queues that change get other lanes."""
        before, self._fair = self._fair, fair
        for queue in sorted(before ^ fair):
            lanes = self.waiting.pop(queue, None)
            run_ids: Iterable[str] = ()
            if lanes is not None:
                run_ids = lanes.run_ids()
                for lane in lanes.all():
                    if lane.closed_by is not None:
                        self._leave(lane)
            for run_id in run_ids:
                if (run := get(run_id)) is not None:
                    self.queue_up(run)

    def begin(self, queue: str, run_ids: Sequence[str]) -> None:
        """Record that the dispatch of these runs was commanded."""
        if run_ids:  # queue names come and go: keep no zero counts
            self.in_progress.update(dict.fromkeys(run_ids, queue))
            self.of_queue[queue] += len(run_ids)

    def answered(self, run_id: str) -> None:
        """Record that the dispatch of this run was answered, whatever the outcome."""
        queue = self.in_progress.pop(run_id, None)
        if queue is not None:
            self.of_queue[queue] -= 1
            if not self.of_queue[queue]:
                del self.of_queue[queue]

    def _watch(self, lane: Lane, at: Instant) -> None:
        lane.is_watched = True
        self._number += 1
        heapq.heappush(self._watched, (at, self._number, lane))
        if len(self._watched) > self._most_watched:  # lanes come and go
            self._watch_closed()

    def _watch_closed(self) -> None:
        """Watch only lanes that wait for a limit; another one is watched again when it is closed."""
        closed = []
        for entry in self._watched:
            lane = entry[-1]
            lane.is_watched = lane.closed_by is not None
            if lane.is_watched:
                closed.append(entry)
        heapq.heapify(closed)
        self._watched, self._most_watched = closed, 2 * len(closed) + _SLACK

    def _wait_for(self, lane: Lane, use: LimitUse) -> None:
        turns = self._turns.setdefault(use, Turns())
        self.closed.setdefault(use, LaneOrder()).put(lane, turns.of(self._holder(lane)))

    def _leave(self, lane: Lane) -> None:
        use, lane.closed_by = lane.closed_by, None
        if use is not None:
            self.closed[use].remove(lane)
            if not self.closed[use]:
                del self.closed[use]

    def _holder(self, lane: Lane) -> Hashable:
        """Who takes turns at a limit: each lane of a fair queue, and a queue that is not fair as one."""
        return (lane.queue, lane.name) if lane.queue in self._fair else lane.queue
