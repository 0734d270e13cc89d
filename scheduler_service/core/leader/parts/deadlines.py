"""Start deadlines of runs waiting in memory, soonest first."""

from dataclasses import dataclass
from typing import Final

from scheduler_service.core.leader.parts.runs import RunTable
from scheduler_service.core.leader.timed_runs import TimedRuns
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import PENDING, RunState

_SCHEDULED: Final = RunState.SCHEDULED
_FEW: Final = 1_000
_SPARE: Final = 4


@dataclass(slots=True)
class Deadlines(TimedRuns):
    """A heap of start deadlines. It may hold duplicates and started runs, so callers check the run they take out."""

    def note(self, run: ActiveRun) -> None:
        """Add the run's deadline, if it has one and has not started."""
        if run.start_by is not None and run.attempt == 1 and (run.state is _SCHEDULED or run.state is PENDING):
            self.check_at(run.start_by, run.run_id)

    def forget_started(self, runs: RunTable) -> None:
        """Rebuild the heap if started runs fill it: most start long before their deadline and must not pile up."""
        if len(self.heap) > _FEW and len(self.heap) > _SPARE * runs.active():
            self.heap = []
            for run in runs:
                self.note(run)
