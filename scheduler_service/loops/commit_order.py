"""The writes that a dispatch of due runs must wait for; dispatches overtake all writes that do not concern their runs.

Owns the numbering of the commands taken so far. The database's guards make it safe to dispatch too early: the dispatch
is refused and retried a moment later. The exception: skips and misses caused by this run must be committed first. If we
crash in between, the next leader could dispatch one of the skipped runs as well.
"""

from collections import deque
from dataclasses import dataclass, field

from itinerary.protocol.identity import job_named_by
from scheduler_service.core.balancing.placements import ReadRebalance
from scheduler_service.core.leader.commands import (
    Apply,
    CreateRuns,
    DispatchRuns,
    ReadRuns,
    Redispatch,
    StoreCommand,
)
from scheduler_service.core.leader.job_reads import ReadCalendarJobs, ReadJobs
from scheduler_service.core.leader.lane_reads import ReadHeads, ReadLanes
from scheduler_service.core.leader.past_starts import PruneStarts, ShiftStarts
from scheduler_service.core.leader.poll_state import ReadCancels, ReadControls, ReadDue, ReadExpired, ReadOverdue
from scheduler_service.core.run_state import Event

_CONCERN_NO_RUN = (
    ReadRuns, ReadDue, ReadOverdue, ReadExpired, ReadCancels, ReadControls, ReadLanes, ReadHeads, ReadJobs,
    ReadCalendarJobs, ReadRebalance, PruneStarts, ShiftStarts,
)  # fmt: skip
_GIVES_WAY = (Event.MISS, Event.SKIP, Event.EXPIRE)


@dataclass(slots=True)
class CommitOrder:
    """The runs and jobs that unfinished commands name, and the last of those commands that all dispatches wait for."""

    taken: int = 0
    _all_wait_for: int = 0
    _every_queue: int = 0
    _of_queue: dict[str, int] = field(default_factory=dict)
    _named: dict[str, int] = field(default_factory=dict)
    _unfinished: list[str] = field(default_factory=list)
    _names: deque[tuple[int, list[str]]] = field(default_factory=deque)

    def take(self, command: StoreCommand, done: int) -> None:
        """Number one more command; the first `done` of the earlier ones are done."""
        self.taken += 1
        match command:
            case Apply():
                self._name(_named_by(command))
                self._of_queue.update(dict.fromkeys((order.queue for order in command.then), self.taken))
            case CreateRuns(runs=runs, cursor=None):
                self._unfinished += [run.run_id for run in runs]
            case CreateRuns(set_back=False):
                self._name([*self._unfinished, *_named_by_creating(command)])
                self._unfinished = []
            case _ if not isinstance(command, _CONCERN_NO_RUN):
                self._all_wait_for = self.taken
        self._forget(done)

    def before(self, command: DispatchRuns | Redispatch, done: int) -> int:
        """The number of commands that must be done before this dispatch; the first `done` are.

        A dispatch waits for those of its queue before it, and Redispatch, which may hold many queues, for those of all.
        """
        self._forget(done)
        self._of_queue = {queue: number for queue, number in self._of_queue.items() if number > done}
        number = max(self._all_wait_for, self._every_queue, self._named_last(command))
        if isinstance(command, Redispatch):
            self._every_queue = max([number, *self._of_queue.values()])
            return self._every_queue
        number = max(number, self._of_queue.get(command.queue, 0))
        if number > done:
            self._of_queue[command.queue] = number
        return number

    def _named_last(self, command: DispatchRuns | Redispatch) -> int:
        if not self._named:
            return 0
        runs = [one.run_id for one in command.dispatches]
        return max((self._named.get(name, 0) for name in (*runs, *map(job_named_by, runs))), default=0)

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
    """The runs that the command creates, and the jobs whose occurrences it retracts, plans or records as missed."""
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
