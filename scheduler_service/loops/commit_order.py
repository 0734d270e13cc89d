"""What a move of due runs must come after: moves go ahead of every other write that does not concern them.

Numbers count the other effects that were handed out. The guards of the database hold without it: a move that comes too
early is refused, and tried again only a moment later. Not so with what a job's other runs gave way to it for: if we die
between the two, the next leader would let another of them go.
"""

from collections import deque
from dataclasses import dataclass, field

from itinerary.protocol.identity import job_named_by
from scheduler_service.core.balancing.placements import ReadRebalance
from scheduler_service.core.leader.commands import (
    Apply,
    CreateRuns,
    DispatchRuns,
    ReadJobs,
    ReadRuns,
    RecordStatistics,
    Redispatch,
    StoreCommand,
)
from scheduler_service.core.leader.poll_state import ReadCancels, ReadDue, ReadExpired, ReadOverdue
from scheduler_service.core.run_state import Event

_READS = (ReadRuns, ReadDue, ReadOverdue, ReadExpired, ReadCancels, ReadJobs, ReadRebalance, RecordStatistics)
_GIVES_WAY = (Event.MISS, Event.SKIP, Event.EXPIRE)


@dataclass(slots=True)
class CommitOrder:
    """Which runs and jobs the effects that are not done yet name, and the last of them that all moves wait for."""

    taken: int = 0
    _all_wait_for: int = 0
    _named: dict[str, int] = field(default_factory=dict)
    _unfinished: list[str] = field(default_factory=list)
    _names: deque[tuple[int, list[str]]] = field(default_factory=deque)

    def take(self, command: StoreCommand, done: int) -> None:
        """One more effect is handed out; of those before, the first `done` are done."""
        self.taken += 1
        match command:
            case Apply():
                self._name(_named_by(command))
            case CreateRuns(runs=runs, cursor=None):
                self._unfinished += [run.run_id for run in runs]
            case CreateRuns(set_back=False):
                self._name([*self._unfinished, *_named_by_creating(command)])
                self._unfinished = []
            case _ if not isinstance(command, _READS):
                self._all_wait_for = self.taken
        self._forget(done)

    def before(self, command: DispatchRuns | Redispatch, done: int) -> int:
        """How many effects must be done before this move; the first `done` are."""
        self._forget(done)
        if not self._named:
            return self._all_wait_for
        runs = [one.run_id for one in command.dispatches]
        return max([self._all_wait_for, *(self._named.get(name, 0) for name in (*runs, *map(job_named_by, runs)))])

    def _name(self, names: list[str]) -> None:
        self._named.update(dict.fromkeys(names, self.taken))
        self._names.append((self.taken, names))

    def _forget(self, done: int) -> None:
        while self._names and self._names[0][0] <= done:
            number, names = self._names.popleft()
            for name in names:
                if self._named.get(name) == number:
                    del self._named[name]


def _named_by_creating(command: CreateRuns) -> list[str]:
    """Its rows, and the jobs whose occurrences it takes back, plans anew or records as missed."""
    jobs = {retract.job_id for retract in command.retracts} | {job_id for job_id, _ in command.planned}
    return [
        *(run.run_id for run in command.runs),
        *(missed_range.job_id for missed_range in command.missed_ranges),
        *jobs,
    ]


def _named_by(command: Apply) -> list[str]:
    return [
        *(change.run_id for change in command.transitions),
        *(job_named_by(change.run_id) for change in command.transitions if change.event in _GIVES_WAY),
        *(mark.run_id for mark in command.published),
        *command.cancels,
    ]
