"""The invariants of one run: its row against itself, and against the workers' record."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.invariants.history import Execution, ExecutionLog, Finding, Rule, RunFacts, Tolerance
from scheduler_service.core.model import RunKind
from scheduler_service.core.run_state import FINAL, RunState

# A frozen worker may start a claimed attempt after the leader has given it up: the claim was its start.
_GIVEN_UP: Final = frozenset({"lost", "timed_out"})

_MUST_HAVE: Final[dict[RunState, tuple[str, ...]]] = {
    RunState.PENDING: ("pending_at",),
    RunState.RUNNING: ("pending_at", "started_at"),
    RunState.COMPLETED: ("pending_at", "finished_at"),
    RunState.FAILED: ("pending_at", "finished_at"),
    RunState.CANCELLED: ("finished_at", "reason"),
    RunState.SKIPPED: ("finished_at", "reason"),
    RunState.MISSED: ("finished_at", "reason"),
}
_MUST_NOT_HAVE: Final[dict[RunState, tuple[str, ...]]] = {
    RunState.SCHEDULED: ("pending_at", "started_at", "finished_at"),
    RunState.RETRYING: ("pending_at", "started_at", "finished_at"),
    RunState.PENDING: ("started_at", "finished_at"),
    RunState.RUNNING: ("finished_at",),
    RunState.SKIPPED: ("pending_at", "started_at"),
    RunState.MISSED: ("started_at",),  # a run with a start deadline may have been sent
}


def run_findings(run: RunFacts, now: Instant, tolerance: Tolerance) -> Iterator[Finding]:
    """Yield the contradictions within one row."""
    for message in _contradictions(run, tolerance):
        yield Finding(Rule.CONTRADICTION, run.run_id, message)
    for message in _too_early(run, tolerance):
        yield Finding(Rule.EARLY, run.run_id, message)
    allowed = run.max_attempts + run.retries
    if run.attempt > allowed:
        yield Finding(Rule.ATTEMPTS, run.run_id, f"it is at attempt {run.attempt} of at most {allowed}")
    if run.state is RunState.RUNNING and run.timeout is not None and run.started_at is not None:
        until = run.started_at + run.timeout
        if until + tolerance.stuck_after < now:
            yield Finding(Rule.STUCK, run.run_id, f"running, though its time was up at {format_instant(until)}")


def _contradictions(run: RunFacts, tolerance: Tolerance) -> Iterator[str]:
    for name in _MUST_HAVE.get(run.state, ()):
        if getattr(run, name) is None:
            yield f"{run.state} without {name}"
    for name in _MUST_NOT_HAVE.get(run.state, ()):
        if getattr(run, name) is not None:
            yield f"{run.state}, but it has {name}"
    if (run.state is RunState.SCHEDULED and run.attempt != 1) or (run.state is RunState.RETRYING and run.attempt < 2):
        yield f"{run.state} at attempt {run.attempt}"
    ended = [attempt.attempt for attempt in run.attempts if attempt.attempt < run.attempt]
    if ended != list(range(1, run.attempt)):
        yield f"at attempt {run.attempt}, but its ended attempts are {ended}"
    if any(attempt.attempt > run.attempt for attempt in run.attempts):
        yield f"it has a record of an attempt after its present one, {run.attempt}"
    if run.started_at is not None and run.pending_at is None:
        yield "started, but it has no pending_at"
    steps = (run.pending_at, run.started_at, run.finished_at if run.state in FINAL else None)
    known = [at for at in steps if at is not None]
    if any(later < earlier - tolerance.skew for earlier, later in pairwise(known)):
        yield "pending_at, started_at and finished_at are out of order"
    asked = run.cancel_requested_at if run.state is RunState.CANCELLED else None
    if asked is not None and run.finished_at is not None and run.finished_at < asked - tolerance.skew:
        yield f"cancelled at {format_instant(run.finished_at)}, but asked to only at {format_instant(asked)}"


def _too_early(run: RunFacts, tolerance: Tolerance) -> Iterator[str]:
    """Check for an early start: dispatch is dated by the clock of due_at, exactly; the start by the worker's clock."""
    due_at = run.due_at
    if run.pending_at is not None and run.pending_at < due_at:
        yield f"released at {format_instant(run.pending_at)}, due only at {format_instant(due_at)}"
    if run.started_at is not None and run.started_at < due_at - tolerance.skew:
        yield f"started at {format_instant(run.started_at)}, due only at {format_instant(due_at)}"
    if run.kind is not RunKind.OCCURRENCE:
        return
    for attempt in run.attempts:
        if attempt.pending_at is not None and attempt.pending_at < run.scheduled_at - tolerance.skew:
            yield f"attempt {attempt.attempt} was released before the run's time"


def record_findings(
    run: RunFacts, log: ExecutionLog, unseen: set[tuple[str, int]], now: Instant, tolerance: Tolerance
) -> Iterator[Finding]:
    """Yield the contradictions between the row and the workers' record; removes the run's attempts from `unseen`."""
    for number in range(1, run.attempt + 1):
        execution = log.get((run.run_id, number))
        if execution is not None:
            unseen.discard((run.run_id, number))
            for rule, message in _of_attempt(run, number, execution, tolerance):
                yield Finding(rule, run.run_id, f"attempt {number} {message}")
    if run.state is RunState.COMPLETED and run.finished_at is not None and run.finished_at < now - tolerance.skew:
        last = log.get((run.run_id, run.attempt))
        if last is None or not last.starts or not last.ends:
            missing = "start" if last is None or not last.starts else "end"
            yield Finding(Rule.UNPROVEN, run.run_id, f"completed, but no worker recorded the {missing} of it")


def _of_attempt(run: RunFacts, number: int, execution: Execution, tolerance: Tolerance) -> Iterator[tuple[Rule, str]]:
    if len(execution.starts) > 1:
        yield Rule.DOUBLED, f"was started {len(execution.starts)} times"
    if not execution.starts:
        return
    first, last = min(execution.starts), max(execution.starts)
    ended = next((attempt for attempt in run.attempts if attempt.attempt == number < run.attempt), None)
    of = run if ended is None else ended
    if of.pending_at is None:
        yield Rule.UNRELEASED, "was started, but never released"
    elif first < of.pending_at - tolerance.skew:
        yield Rule.UNRELEASED, f"was started at {format_instant(first)}, before its release"
    due_at = run.due_at if ended is None else run.scheduled_at
    if first < due_at - tolerance.skew:
        yield Rule.EARLY, f"was started at {format_instant(first)}, due only at {format_instant(due_at)}"
    if of.reason in _GIVEN_UP or (ended is not None and ended.outcome in _GIVEN_UP):
        return
    if run.state is RunState.CANCELLED and ended is None and run.started_at is None:
        yield Rule.AFTER_END, "was started, though the run was cancelled unstarted"
    elif of.finished_at is not None and last > of.finished_at + tolerance.skew:
        yield Rule.AFTER_END, f"was started at {format_instant(last)}, when it was over"
