"""Runs in flight: republish lost messages, claim withdrawn runs, time out long ones, and detect lost workers.

Promises that time without a report counts only up to the last confirmed inbox read. A failed publish means unknown; a
backlog is never taken for a loss.
"""

from collections import defaultdict
from dataclasses import replace
from typing import Final

from itinerary.protocol.batches import batched
from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.leader import given_up
from scheduler_service.core.leader.changed_runs import now_pending
from scheduler_service.core.leader.commands import (
    Dispatch,
    InspectQueues,
    Publish,
    ReadResults,
    Redispatch,
    StopTasks,
    TakeClaims,
    Transition,
)
from scheduler_service.core.leader.messages import Failed
from scheduler_service.core.leader.publish_windows import queues_seen
from scheduler_service.core.leader.reports import cancel, end, fail, report
from scheduler_service.core.leader.results import (
    ClaimsTaken,
    Published,
    PublishUncertain,
    QueuesSeen,
    ResultsFound,
    RunsRedispatched,
)
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step, keep
from scheduler_service.core.model import ActiveRun, DispatchedRun
from scheduler_service.core.policies import START_WITHIN
from scheduler_service.core.run_state import PENDING, WAITING, Event, RunState
from scheduler_service.core.sendable import send_error

_LIMIT_SLACK: Final = 30 * SECOND
_NEVER: Final[Instant] = 2**62
_NOT_STARTED: Final = WAITING | {RunState.PENDING}


def note_published(state: SchedulerState, published: Published) -> None:
    """Record that the broker accepted these runs; a later write stores the marks."""
    state.publishing.confirmed(published.runs, published.at)
    for sent in published.runs:
        run = state.runs.get(sent.run_id)
        if run is not None and run.state is PENDING and run.attempt == sent.attempt:
            state.unstarted.accepted(sent.run_id, published.at)
            if state.settings.publish_window is None and run.pending_at is not None:
                state.windows.confirmed(run.queue, published.at - run.pending_at)


def publish_uncertain(state: SchedulerState, step: Step, uncertain: PublishUncertain) -> None:
    """Schedule runs whose publish is unconfirmed to be sent again: at once the first time, then after longer pauses."""
    for sent in uncertain.runs:
        state.publishing.unconfirmed(sent.run_id, step.now)


def resend(state: SchedulerState, step: Step) -> None:
    """Redispatch the runs whose publish is still unconfirmed, by queue: a blocked queue does not delay the others."""
    of_queue: dict[str, list[str]] = defaultdict(list)
    for run_id in state.publishing.to_resend(step.now):
        run = state.runs.get(run_id)
        if run is not None:
            of_queue[run.queue].append(run_id)
    for run_ids in of_queue.values():
        redispatch(state, step, run_ids, "unconfirmed")


def redispatch(state: SchedulerState, step: Step, run_ids: list[str], cause: str) -> None:
    """Redispatch pending runs with the same task id and a new seq, which is stored before the publish."""
    dispatches = []
    for run_id in run_ids:
        run = state.runs.get(run_id)
        if run is not None and run.state is RunState.PENDING and run_id not in state.publishing.redispatching:
            state.publishing.begin_redispatch(run_id)
            state.unstarted.unaccepted(run_id)
            state.counts.add("republished", cause)
            dispatches.append(Dispatch(run_id, run.attempt, state.numbers.next()))
    size = state.settings.dispatch_batch
    step.dispatching += [Redispatch(part, cause) for part in batched(dispatches, size)]


def take_dispatched(
    state: SchedulerState, step: Step, dispatched: tuple[DispatchedRun, ...], *, redispatched: bool = False
) -> None:
    """Publish the runs that this leader has committed as `pending`, unless their state has changed meanwhile.

    `redispatched`: they may have started already.
    """
    wanted, below = [], []
    for sent in dispatched:
        run = state.runs.get(sent.run_id)
        if run is None:
            # An edit dropped it from memory during its dispatch. Re-read it before the publish: otherwise a report
            # could arrive for a run that memory does not know.
            step.read(state, sent.run_id)
            continue
        if run.attempt != sent.attempt or run.state not in _NOT_STARTED:
            continue
        keep(state, now_pending(run, sent.seq, step.now), step.now)
        why = send_error(sent)
        if why is None and not redispatched and sent.job_id is not None and sent.job_id not in state.jobs:
            why = f"there is no job {sent.job_id}"
        if why is not None:
            _give_up(state, step, sent.run_id, why, "malformed")
            continue
        if sent.seq < state.epoch.watermark:
            below.append(sent.run_id)
            continue
        wanted.append(sent)
    if wanted:
        state.publishing.begin(wanted)
        step.others.append(Publish(tuple(wanted)))
    redispatch(state, step, below, "generation")


def take_redispatched(state: SchedulerState, step: Step, answer: RunsRedispatched) -> None:
    """Publish the runs that have a new number; read those that the database refused to give one."""
    state.publishing.redispatch_answered(run.run_id for run in answer.dispatched)
    state.publishing.redispatch_answered(answer.refused)
    take_dispatched(state, step, answer.dispatched, redispatched=True)
    for run_id in answer.refused:
        step.read(state, run_id)


def check_queues(state: SchedulerState, step: Step) -> None:
    """Query the queues of runs that the broker accepted long ago and no worker has received, and of those that wait."""
    if not state.unstarted.check_due(step.now):
        return
    state.unstarted.forget_unlisted(step.now)
    queues = {run.queue for run_id in state.unstarted.published if (run := _overdue(state, step, run_id)) is not None}
    if state.settings.publish_window is None:
        queues.update(state.dispatches.waiting)
    if queues:
        step.others.append(InspectQueues(tuple(sorted(queues))))


def _overdue(state: SchedulerState, step: Step, run_id: str) -> ActiveRun | None:
    run = state.runs.get(run_id)
    if run is None or run.state is not RunState.PENDING:
        return None
    unstarted = state.unstarted
    patience = state.settings.redispatch_after << min(unstarted.times_redispatched(run_id), 6)
    is_received = unstarted.is_received(run_id, step.now)
    return None if is_received or step.now - unstarted.published[run_id] < patience else run


def take_queues(state: SchedulerState, step: Step, seen: QueuesSeen) -> None:
    """Redispatch runs that waited long and whose message is gone: their queue is empty or past it.

    The evidence must hold for longer than a worker takes to report a message as received: one just popped is not gone.
    """
    queues_seen(state, seen, step.now)
    again: list[str] = []
    spent: list[str] = []
    for run_id in state.unstarted.published:
        run = _overdue(state, step, run_id)
        if run is None or not _has_left_its_queue(state, run, seen):
            state.unstarted.trust(run_id)
        elif state.unstarted.suspect(run_id, step.now):
            is_spent = state.unstarted.times_redispatched(run_id) >= state.settings.max_redispatch
            (spent if is_spent else again).append(run_id)
    for run_id in again:
        state.unstarted.redispatched(run_id)
    redispatch(state, step, again, "not_received")
    take_claims(state, step, spent, "unroutable: no worker took it, however often it was sent")


def _has_left_its_queue(state: SchedulerState, run: ActiveRun, seen: QueuesSeen) -> bool:
    length, head = seen.heads.get(run.queue, (1, None))
    unstarted = state.unstarted
    overtaken = head is not None and unstarted.is_overtaken(run.seq, by=head)
    return length == 0 or overtaken or unstarted.overtaken_at(run.queue, run.seq) is not None


def take_claims(state: SchedulerState, step: Step, run_ids: list[str], reason: str) -> None:
    """Try to win the claims of pending runs; once the leader holds a claim, no worker can start the run."""
    wanted = []
    for run_id in run_ids:
        run = state.runs.get(run_id)
        if run is not None and state.withdrawals.begin(run_id, reason):
            wanted.append((run_id, run.attempt))
    if wanted:
        step.others.append(TakeClaims(tuple(wanted)))


def claims_taken(state: SchedulerState, step: Step, taken: ClaimsTaken) -> None:
    """End each run whose claim the leader won; ask the worker to stop if it holds the claim."""
    stop = []
    for run_id, attempt, won in taken.outcomes:
        reason = state.withdrawals.answered(run_id) or "cancelled before it started"
        run = state.runs.get(run_id)
        if run is None or run.attempt != attempt or run.state not in (RunState.PENDING, RunState.RUNNING):
            continue
        unroutable = reason.startswith("unroutable") and not run.cancel_requested
        expired = reason.startswith(START_WITHIN) and not run.cancel_requested
        if won:
            state.rates.given_back(run_id)  # no worker will start it
        if not won:
            stop += [] if unroutable or expired else [(run_id, attempt)]
        elif expired and run.state is RunState.PENDING:
            change = Transition(run_id, attempt, Event.EXPIRE, RunState.MISSED, step.now, reason=reason)
            end(state, step, run, change)
        elif not unroutable:
            cancel(state, step, run, reason)
        else:
            _give_up(state, step, run_id, reason, "unroutable")
    if stop:
        step.others.append(StopTasks(tuple(stop)))


def _give_up(state: SchedulerState, step: Step, run_id: str, message: str, reason: str) -> None:
    """End a pending run that another attempt would not help."""
    run = state.runs.get(run_id)
    if run is not None:
        spent = run._replace(retry=replace(run.retry, max_attempts=run.attempt))
        fail(state, step, spent, Event.FAIL, _failure(run, step.now, reason.capitalize(), message, reason))


def check_running(state: SchedulerState, step: Step) -> None:
    """Time out running runs that exceeded their limit, and question those without a report for `lost_after`."""
    doubtful = []
    for run_id in state.running.passed(step.now):
        run = state.runs.get(run_id)
        if run is None or run.state is not RunState.RUNNING:
            continue
        if step.now > _time_is_up_at(state, run):
            _time_out(state, step, run)
            continue
        unreported = _unreported_for(state, run, step.now)
        if unreported >= state.settings.lost_after:
            doubtful.append((run_id, run.attempt))
        else:
            state.running.check_at(_next_check(state, run, unreported, step.now), run_id)
    if doubtful:
        step.others.append(ReadResults(tuple(doubtful)))


def _time_is_up_at(state: SchedulerState, run: ActiveRun) -> Instant:
    """The instant at which a running run has exceeded its limit, corrected by the offset of its worker's clock.

    Never, if the worker is unknown: the run is then declared lost anyway.
    """
    worker = state.workers.by_name.get(run.worker or "")
    if run.timeout is None or run.started_at is None or worker is None:
        return _NEVER
    return run.started_at + worker.behind + run.timeout + _LIMIT_SLACK


def _unreported_for(state: SchedulerState, run: ActiveRun, now: Instant) -> Duration:
    return state.unreported_for(state.running.reported_at(run.run_id, now))


def _next_check(state: SchedulerState, run: ActiveRun, unreported: Duration, now: Instant) -> Instant:
    check_at = min(now + state.settings.lost_after - unreported, _time_is_up_at(state, run) + 1)
    return max(check_at, now + SECOND)


def _time_out(state: SchedulerState, step: Step, run: ActiveRun) -> None:
    # The worker enforces the limit; this is for one that cannot: a thread pool, or a task that ignores signals.
    step.others.append(StopTasks(((run.run_id, run.attempt),)))
    reason = "timed out: it ran longer than its timeout"
    fail(state, step, run, Event.TIME_OUT, _failure(run, step.now, "TimedOut", reason, "timed_out"))
    given_up.timed_out(state, step, run)


def results_found(state: SchedulerState, step: Step, found: ResultsFound) -> None:
    """Apply the reports found, or declare the attempt lost; a lost attempt is asked to stop, in case it still runs."""
    for run_id, attempt, left in found.outcomes:
        run = state.runs.get(run_id)
        if run is None or run.attempt != attempt or run.state is not RunState.RUNNING:
            continue
        if left is not None:
            report(state, step, left)
            continue
        unreported = _unreported_for(state, run, step.now)
        if unreported < state.settings.lost_after:
            state.running.check_at(_next_check(state, run, unreported, step.now), run_id)
            continue
        step.others.append(StopTasks(((run_id, attempt),)))
        reason = f"no heartbeat from worker {run.worker} lists it any more"
        fail(state, step, run, Event.LOSE, _failure(run, step.now, "Lost", reason, "lost"))


def _failure(run: ActiveRun, now: Instant, kind: str, message: str, reason: str) -> Failed:
    error = {"type": kind, "message": message, "traceback": None}
    return Failed(run.run_id, run.attempt, run.worker or "", now, None, error, reason)
