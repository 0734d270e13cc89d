"""Worker reports applied to runs. Late, duplicate and reordered reports always lead to the same final state.

Promises that a report changes only the present attempt of a run that is not final. Any other one is counted, and an end
is kept with its attempt. Never declares an attempt lost.
"""

from collections.abc import Mapping
from typing import Any, Final, assert_never

from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import DAY, Instant
from scheduler_service.core.leader import given_up
from scheduler_service.core.leader.changed_runs import now_in, now_running
from scheduler_service.core.leader.commands import CANCELLED_RUNNING, LateReport, Transition
from scheduler_service.core.leader.messages import Failed, Heartbeat, Report, RetryAsked, Started, Succeeded
from scheduler_service.core.leader.parts.workers import WorkerView
from scheduler_service.core.leader.rates import note_start
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.policies import after_failure, next_attempt
from scheduler_service.core.run_state import FINAL, IN_FLIGHT, Event, RunState, is_allowed

UNKNOWN_TASK: Final = "unknown_task"
STOPPED: Final = frozenset({"terminated", "revoked"})
"""Reasons with which a worker reports a task that it stopped on request."""
_STOPPED_ITSELF: Final = "itinerary.RunCancelled"
_KIND = {Started: "started", Succeeded: "succeeded", Failed: "failed", RetryAsked: "retry"}


def report(state: SchedulerState, step: Step, message: Report) -> None:
    """Apply one report to its run, or keep it with its attempt if the run is past that attempt."""
    run = state.runs.get(message.run_id)
    if run is None or run.state in FINAL or message.attempt != run.attempt:
        _too_late(
            state,
            step,
            message,
            "unknown" if run is None else "final" if run.state in FINAL else "other_attempt",
        )
        return
    if not isinstance(message, Started) and message.progress is not None:
        state.progress.report(run.run_id, message.progress, step.now)
    match message:
        case Started():
            if message.seq is not None:
                state.unstarted.started(run.queue, message.seq, step.now)
            start(state, step, run, message.worker, message.at)
        case Succeeded():
            _succeed(state, step, run, message)
        case Failed():
            fail(state, step, run, Event.FAIL, message)
        case RetryAsked():
            _retry(state, step, run, message)
        case _:
            assert_never(message)


def _too_late(state: SchedulerState, step: Step, message: Report, cause: str) -> None:
    state.counts.add("ignored", cause)
    if isinstance(message, Started):
        return
    state.slots.is_over(task_id(message.run_id, message.attempt))
    if not step.again:
        error = message.error if isinstance(message, Failed | RetryAsked) else None
        kind = _KIND[type(message)]
        step.late.append(LateReport(message.run_id, message.attempt, kind, message.at, message.worker, error))


def start(state: SchedulerState, step: Step, run: ActiveRun, worker: str, at: Instant) -> None:
    """Record that a worker runs the attempt; a duplicate only renews the time of the last report."""
    state.running.report(run.run_id, step.now)
    if run.state is not RunState.PENDING:
        if run.state is not RunState.RUNNING:
            state.counts.add("ignored", "not_released")
        return
    state.unstarted.trust(run.run_id)
    state.unstarted.let_go(run.run_id)
    if state.settings.publish_window is None:
        state.windows.started(run.queue, step.now)
    state.running.check_at(step.now + state.settings.lost_after, run.run_id)
    change = Transition(
        run.run_id, run.attempt, Event.START, RunState.RUNNING, step.now, started_at=at, worker=worker,
        starts=note_start(state, run),
    )  # fmt: skip
    step.transition(state, now_running(run, at, worker), change)


def _succeed(state: SchedulerState, step: Step, run: ActiveRun, message: Succeeded) -> None:
    if not is_allowed(run.state, Event.SUCCEED):
        state.counts.add("ignored", "not_released")
        return
    change = Transition(
        run.run_id, run.attempt, Event.SUCCEED, RunState.COMPLETED, message.at, reason=message.reason,
        started_at=message.started_at, worker=message.worker, result=message.result,
    )  # fmt: skip
    end(state, step, run, change)


def fail(state: SchedulerState, step: Step, run: ActiveRun, event: Event, message: Failed) -> None:
    """Apply a failed attempt: cancel the run if that was requested, otherwise schedule the next attempt or end it."""
    if not is_allowed(run.state, event):
        state.counts.add("ignored", "not_released")
        return
    if run.cancel_requested:
        cancel(state, step, run, CANCELLED_RUNNING, message)
        return
    to, due_at = after_failure(run, event, step.now)
    if event is Event.LOSE:
        state.counts.add("lost")
    change = Transition(
        run.run_id, run.attempt, event, to, message.at, reason=_with_policy(run, reason_of(run, message)),
        due_at=due_at, started_at=message.started_at, worker=message.worker or None, error=message.error,
    )  # fmt: skip
    end(state, step, run, change)


def reason_of(run: ActiveRun, message: Failed) -> str | None:
    """The human-readable reason; that of an unknown task names the task and the queue."""
    if message.reason != UNKNOWN_TASK:
        return message.reason
    name = str(message.error.get("message") or "").strip("'\"")
    known = f"no worker on queue {run.queue} knows the task {name}" if name else f"unknown task on queue {run.queue}"
    return f"{known}; is it misspelt, or on another queue?"


def _with_policy(run: ActiveRun, reason: str | None) -> str | None:
    """Add to the reason that the run's stored retry policy could not be read."""
    if not run.retry.unread:
        return reason
    unread = f"its stored retry policy cannot be read: {run.retry.unread[:200]}"
    return f"{reason}; {unread}" if reason else unread


def _retry(state: SchedulerState, step: Step, run: ActiveRun, message: RetryAsked) -> None:
    if not is_allowed(run.state, Event.RETRY):
        state.counts.add("ignored", "not_released")
        return
    if run.cancel_requested:
        cancel(state, step, run, CANCELLED_RUNNING, message)
        return
    due_at = min(message.due_at, step.now + 30 * DAY)
    change = Transition(
        run.run_id, run.attempt, Event.RETRY, RunState.RETRYING, message.at, reason="the task asked to be retried",
        due_at=due_at, started_at=message.started_at, worker=message.worker, error=message.error,
        args=message.args, kwargs=message.kwargs,
    )  # fmt: skip
    end(state, step, run, change)


def cancel(
    state: SchedulerState, step: Step, run: ActiveRun, reason: str, message: Failed | RetryAsked | None = None
) -> None:
    """End the run as cancelled."""
    # A task that was stopped, or stopped itself, as requested ends with an exception that is no error of its own.
    stopped = isinstance(message, Failed) and (
        message.reason in STOPPED or message.error.get("type") == _STOPPED_ITSELF
    )
    error: Mapping[str, Any] | None = message.error if message is not None and not stopped else None
    change = Transition(
        run.run_id, run.attempt, Event.CANCEL, RunState.CANCELLED, message.at if message else step.now, reason=reason,
        started_at=message.started_at if message else None, worker=message.worker if message else None, error=error,
    )  # fmt: skip
    end(state, step, run, change)


def end(state: SchedulerState, step: Step, run: ActiveRun, change: Transition) -> None:
    """Write the end of an attempt, with the last that it showed of its progress, and prepare the next one, if any."""
    shown = state.progress.of(run.run_id)
    if shown is not None:
        change = change._replace(progress=shown.value)
    if change.to is RunState.RETRYING and change.due_at is not None:
        after = next_attempt(run, change.due_at)
        state.attempt_over(run.run_id)
        state.due.wait_until(after)
    else:
        after = now_in(run, change.to)
    if run.state in IN_FLIGHT and change.event not in (Event.LOSE, Event.TIME_OUT):
        # A worker declared lost may be alive: its claim and cancel flag stay until they expire.
        state.watermarks.ended(run.queue, run.seq, run.run_id, run.attempt)
    if run.state is RunState.PENDING and state.rates.is_dispatched(run.run_id):
        change = change._replace(starts=note_start(state, run))  # nobody reported its start
    step.transition(state, after, change)


def heartbeat(state: SchedulerState, step: Step, message: Heartbeat) -> None:
    """Apply the list of attempts that a worker runs and holds: it proves that they are alive."""
    for run_id, attempt in message.running:
        run = state.runs.get(run_id)
        if run is not None and run.attempt == attempt and run.state in (RunState.PENDING, RunState.RUNNING):
            start(state, step, run, message.worker, message.at)
    for run_id, attempt in message.received:
        run = state.runs.get(run_id)
        if run is None or run.attempt != attempt:
            continue
        if run.state is RunState.PENDING:
            state.unstarted.received(run_id, run.queue, step.now)
        elif run.state is RunState.RUNNING and run.worker == message.worker:
            # Another worker may hold a duplicate message for hours, which proves nothing about the one that runs it.
            state.running.report(run_id, step.now)
    for place, value in message.progress:
        run_id, attempt = message.running[place]
        run = state.runs.get(run_id)
        if run is not None and run.attempt == attempt and run.state is RunState.RUNNING:
            state.progress.report(run_id, value, step.now)
    if message.leaving:
        state.unstarted.put_back(state.numbers.last)
    before = state.workers.by_name.get(message.worker)
    running = tuple(run_id for run_id, _ in message.running)
    if message.part and before is not None:
        running = (*before.running, *running)
    view = WorkerView(
        name=message.worker,
        last_seen_at=step.now,
        concurrency=message.concurrency,
        queues=message.queues,
        running=running,
        left=message.leaving,
        epoch=message.epoch,
        behind=step.now - message.at,
        protocol=message.protocol,
        recalls=message.recalls,
        version=message.version,
        since=message.since,
        tasks=message.tasks or (None if before is None else before.tasks),
    )
    state.workers.seen(view)
    given_up.listed(state, step, message)
