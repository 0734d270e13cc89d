"""A run in memory after each of its usual changes: as `_replace` gives it, in half of the time. Pure."""

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import PENDING, RUNNING, RunState

_STATE, _SEQ, _PENDING_AT, _STARTED_AT, _WORKER = map(
    ActiveRun._fields.index, ("state", "seq", "pending_at", "started_at", "worker")
)


def now_in(run: ActiveRun, state: RunState) -> ActiveRun:
    """The run in another state."""
    return ActiveRun._make((*run[:_STATE], state, *run[_STATE + 1 :]))


def now_pending(run: ActiveRun, seq: int, at: Instant) -> ActiveRun:
    """The run whose dispatch is committed."""
    between, after = run[_STATE + 1 : _SEQ], run[_PENDING_AT + 1 :]
    return ActiveRun._make((*run[:_STATE], PENDING, *between, seq, at, *after))


def now_running(run: ActiveRun, started_at: Instant, worker: str) -> ActiveRun:
    """The run that a worker has started."""
    between, after = run[_STATE + 1 : _STARTED_AT], run[_WORKER + 1 :]
    return ActiveRun._make((*run[:_STATE], RUNNING, *between, started_at, worker, *after))
