"""The runs that the leader knows, with the counts that its rules need. Owned by the loop, never shared."""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.flow import Flow
from scheduler_service.core.leader.requested import RequestedRuns, is_requested
from scheduler_service.core.model import ActiveRun, RunKind
from scheduler_service.core.run_state import FINAL, PENDING, RUNNING, RunState

_OCCURRENCE: Final = RunKind.OCCURRENCE
_LIVE: Final = frozenset({RunState.PENDING, RunState.RUNNING, RunState.RETRYING})


class RunTable:
    """Runs by id, with the numbers that rules need, and the live runs of each job.

    A live run has been admitted (its overlap rule let it pass) and is not final.
    """

    def __init__(self) -> None:
        self._runs: dict[str, ActiveRun] = {}
        self._ended: dict[str, ActiveRun] = {}
        self._of_job: dict[str, dict[str, None]] = {}
        self._live: dict[str, dict[str, None]] = {}
        self._admitted: set[str] = set()
        self._freed: set[str] = set()
        self._ends: deque[tuple[Instant, str]] = deque()
        self.requested = RequestedRuns()
        self.flow = Flow()
        self.pending: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.running_on: Counter[str] = Counter()
        self.states: dict[RunState, int] = dict.fromkeys(RunState, 0)

    def __len__(self) -> int:
        return len(self._runs) + len(self._ended)

    def __iter__(self) -> Iterator[ActiveRun]:
        """Iterate over the runs that are not final."""
        return iter(list(self._runs.values()))

    def get(self, run_id: str) -> ActiveRun | None:
        """The run, or None if it is unknown."""
        return self._runs.get(run_id) or self._ended.get(run_id)

    def put(self, run: ActiveRun) -> None:
        """Store `run` in place of its previous version."""
        run_id, state = run.run_id, run.state
        old = self._runs.get(run_id) or self._ended.get(run_id)
        if old is None:
            self._count(run, 1)
            if run.job_id is not None:
                self._of_job.setdefault(run.job_id, {})[run_id] = None
        elif old.state is not state or old.queue != run.queue or old.worker != run.worker:
            self._count(old, -1)
            self._count(run, 1)
            self.flow.changed(run.queue, old.state, state)
        if state in FINAL:
            self._runs.pop(run_id, None)
            self._ended[run_id] = run
            self._retire(run)
            return
        if old is not None and old.state in FINAL:
            del self._ended[run_id]
        self._runs[run_id] = run
        if state in _LIVE and run_id not in self._admitted:
            self.admit(run)

    def drop(self, run_id: str) -> None:
        """Forget the run."""
        run = self._runs.pop(run_id, None) or self._ended.pop(run_id, None)
        if run is not None:
            self._count(run, -1)
            self._retire(run)
            _remove(self._of_job, run)

    def note_end(self, run_id: str, now: Instant) -> None:
        """Remember when the run became final."""
        self._ends.append((now, run_id))

    def ended_by(self, at: Instant) -> list[str]:
        """Take out the ids of runs that became final by `at`."""
        ended = []
        while self._ends and self._ends[0][0] <= at:
            ended.append(self._ends.popleft()[1])
        return ended

    def admit(self, run: ActiveRun) -> None:
        """Count the run as live for its job from now on."""
        if run.run_id in self._admitted:
            return
        self._admitted.add(run.run_id)
        if run.job_id is not None:
            self._live.setdefault(run.job_id, {})[run.run_id] = None

    def set_back(self, run: ActiveRun) -> None:
        """Stop counting the run as live: the overlap rule must admit it again."""
        self._retire(run)

    def is_admitted(self, run_id: str) -> bool:
        """Whether the run passed its overlap rule."""
        return run_id in self._admitted

    def has_live(self, job_id: str) -> bool:
        """Whether any run of the job is live."""
        return job_id in self._live

    def live_of(self, job_id: str) -> list[str]:
        """Ids of the job's live runs, oldest admission first."""
        return list(self._live.get(job_id, ()))

    def of_job(self, job_id: str) -> list[ActiveRun]:
        """All known runs of the job, final ones too."""
        return [run for run_id in self._of_job.get(job_id, ()) if (run := self.get(run_id)) is not None]

    def number_of_job(self, job_id: str | None) -> int:
        """The number of known runs of the job, final ones too."""
        return len(self._of_job.get(job_id or "", ()))

    def take_freed(self) -> set[str]:
        """Return and reset the jobs whose last live run ended or was forgotten since the last call."""
        freed, self._freed = self._freed, set()
        return freed

    def active(self) -> int:
        """The number of known runs that are not final."""
        return sum(count for state, count in self.states.items() if state not in FINAL)

    def _count(self, run: ActiveRun, step: int) -> None:
        state = run.state
        self.states[state] += step
        if state is PENDING:
            _add(self.pending, run.queue, step)
        elif state is RUNNING:
            _add(self.running, run.queue, step)
            if run.worker is not None:
                _add(self.running_on, run.worker, step)
        elif run.kind is not _OCCURRENCE and is_requested(run):
            self.requested.count(run, step)

    def _retire(self, run: ActiveRun) -> None:
        self._admitted.discard(run.run_id)
        if _remove(self._live, run) and run.job_id is not None:
            self._freed.add(run.job_id)


def _add(counts: Counter[str], name: str, step: int) -> None:
    """Count; names of queues and workers come and go, so no zero is kept."""
    number = counts.get(name, 0) + step
    if number:
        counts[name] = number
    else:
        counts.pop(name, None)


def _remove(by_job: dict[str, dict[str, None]], run: ActiveRun) -> bool:
    """Remove the run and return whether it was the last of its job."""
    ids = by_job.get(run.job_id or "")
    if ids is None:
        return False
    ids.pop(run.run_id, None)
    if not ids:
        del by_job[run.job_id or ""]
    return not ids
