"""What a move of due runs must come after: moves go ahead of every other write that does not concern them.

Numbers count the other effects that were handed out. The guards of the database hold without it; a move that comes too
early is refused, and tried again only a moment later.
"""

from collections import deque
from dataclasses import dataclass, field

from scheduler_service.core.effects import (
    Apply,
    MakeRuns,
    MoveRuns,
    ReadJobs,
    ReadRuns,
    RecordStatistics,
    StoreEffect,
)
from scheduler_service.core.looks import ReadCancels, ReadDue, ReadOverdue
from scheduler_service.core.placements import ReadRebalance

_READS = (ReadRuns, ReadDue, ReadOverdue, ReadCancels, ReadJobs, ReadRebalance, RecordStatistics)


@dataclass(slots=True)
class MoveOrder:
    """Which runs the effects that are not done yet name, and the last of them that all moves wait for."""

    handed: int = 0
    _all_wait_for: int = 0
    _named: dict[str, int] = field(default_factory=dict)
    _unfinished: list[str] = field(default_factory=list)
    _names: deque[tuple[int, list[str]]] = field(default_factory=deque)

    def hand(self, effect: StoreEffect, done: int) -> None:
        """One more effect is handed out; of those before, the first `done` are done."""
        self.handed += 1
        match effect:
            case Apply(transitions=transitions, cancels=cancels):
                self._name([*(change.run_id for change in transitions), *cancels])
            case MakeRuns(runs=runs, cursor=None):
                self._unfinished += [run.run_id for run in runs]
            case MakeRuns(runs=runs, retracts=(), planned=()):
                self._name([*self._unfinished, *(run.run_id for run in runs)])
                self._unfinished = []
            case _ if not isinstance(effect, _READS):
                self._all_wait_for = self.handed
        self._forget(done)

    def before(self, move: MoveRuns) -> int:
        """How many effects must be done before this move."""
        named = self._named
        return max([self._all_wait_for, *(named.get(one.run_id, 0) for one in move.releases)])

    def _name(self, run_ids: list[str]) -> None:
        self._named.update(dict.fromkeys(run_ids, self.handed))
        self._names.append((self.handed, run_ids))

    def _forget(self, done: int) -> None:
        while self._names and self._names[0][0] <= done:
            number, run_ids = self._names.popleft()
            for run_id in run_ids:
                if self._named.get(run_id) == number:
                    del self._named[run_id]
