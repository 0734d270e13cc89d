"""The leader's step: `iterate(state, messages, now) -> (state, commands)`, deterministic, in a fixed order.

Take a new index and edits, plan, take other messages (lost attempts last), dispatch, redispatch, plan again, check runs
in flight, poll, tidy up. It does no I/O, reads no clock, raises for no message: it counts those that it cannot use.
"""

from collections.abc import Sequence
from typing import assert_never

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.balancing.placements import PlacementFeedback, RebalanceAsked, Survey
from scheduler_service.core.leader import placing, polling, rates, redis_epoch
from scheduler_service.core.leader.admission import judge_load
from scheduler_service.core.leader.commands import Command, Reply, ReplyMetrics
from scheduler_service.core.leader.dispatching import dispatch
from scheduler_service.core.leader.edits import read_calendar_jobs, read_edited, take_calendar_jobs, take_jobs
from scheduler_service.core.leader.holding import controls_read, next_of_queues, recall_held
from scheduler_service.core.leader.in_flight import (
    check_queues,
    check_running,
    claims_taken,
    note_published,
    publish_uncertain,
    resend,
    results_found,
    take_dispatched,
    take_queues,
    take_redispatched,
)
from scheduler_service.core.leader.job_reads import CalendarJobsRead
from scheduler_service.core.leader.job_states import follow_edit
from scheduler_service.core.leader.lane_reads import HeadsRead, LanesRead
from scheduler_service.core.leader.limiting import next_of_limits, recall_hogs
from scheduler_service.core.leader.messages import (
    CancelRun,
    ControlChanged,
    Failed,
    Heartbeat,
    InboxMessage,
    JobChanged,
    Query,
    RetryAsked,
    RunEnqueued,
    RunsMoved,
    Started,
    Succeeded,
)
from scheduler_service.core.leader.past_starts import ClockStepped, StartsPruned
from scheduler_service.core.leader.planning import plan
from scheduler_service.core.leader.poll_state import (
    CancelsRead,
    ControlsConfirmed,
    ControlsRead,
    DueRead,
    ExpiredRead,
    Listened,
    OverdueRead,
)
from scheduler_service.core.leader.publish_windows import recall_outranked
from scheduler_service.core.leader.queries import answer
from scheduler_service.core.leader.rebuilding import take_index, want_rebuild
from scheduler_service.core.leader.recalling import claims_recalled
from scheduler_service.core.leader.reconciling import applied, raise_watermarks, runs_read, watermarks_raised
from scheduler_service.core.leader.reports import heartbeat, report
from scheduler_service.core.leader.results import (
    Applied,
    ClaimsDeferred,
    ClaimsRecalled,
    ClaimsTaken,
    EpochAccepted,
    EpochSeen,
    Feedback,
    InboxRead,
    IndexBuilt,
    JobsRead,
    Published,
    PublishUncertain,
    QueuesSeen,
    ResultsFound,
    RunsCreated,
    RunsDispatched,
    RunsRead,
    RunsRedispatched,
    Shutdown,
    UnplannedJobs,
    WatermarksRaised,
    Woken,
)
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.leader.tidying import clean_up


def iterate(
    state: SchedulerState, messages: Sequence[Feedback], now: Instant, steady: Duration | None = None
) -> tuple[SchedulerState, list[Command]]:
    """Run one pass. It takes ownership of `state`: the caller must not use the object that it passed in again.

    `steady`: this process's steady clock, read after the messages came; None: `now` is steady.
    """
    judge_load(state, now)
    step, state.last_iteration_at = Step(now), now
    state.rates.tick(now if steady is None else steady)
    for message in messages:
        if isinstance(message, IndexBuilt):
            take_index(state, step, message)
        elif isinstance(message, JobsRead):
            # Before any decision about their runs: an edit replaces runs under the same id.
            _jobs_read(state, step, message)
    goes_on = not state.stopping  # a stop comes after what is due in its pass
    if goes_on:
        plan(state, step)
    for message in messages:
        _take(state, step, message)
    for message in messages:
        if isinstance(message, ResultsFound):
            results_found(state, step, message)  # last: an attempt that was reported in this pass is not lost
    if goes_on:
        # After the messages: what they made due need not wait for the next pass.
        dispatch(state, step)
    resend(state, step)
    if not state.stopping:
        read_edited(state, step)
        read_calendar_jobs(state, step)
        plan(state, step)  # planning was deferred while runs were being dispatched
        check_running(state, step)
        check_queues(state, step)
        recall_held(state, step)
        recall_outranked(state, step)
        recall_hogs(state, step)
        raise_watermarks(state, step)
        polling.poll(state, step)
        placing.survey(state, step)
        want_rebuild(state, step)
    if not state.stopping or state.draining:  # draining workers may need an accepted epoch to claim
        redis_epoch.poll(state, step)
    clean_up(state, step)
    return state, step.finish(state)


def next_wake(state: SchedulerState, now: Instant) -> Instant:
    """The next time at which the loop must run if no message arrives: the next due time, within `loop_interval`."""
    wake = now + state.settings.loop_interval
    resend = state.publishing.resend.heap
    for planned in (resend,) if state.stopping else (state.due.heap, resend, state.deadlines.heap):
        if planned:
            wake = min(wake, planned[0][0])
    if not state.stopping:
        free_in = state.rates.next_in()
        free_at = None if free_in is None else state.last_iteration_at + free_in
        others = (
            polling.next_poll(state),
            state.edits.next_at(),
            free_at,
            *next_of_queues(state, now),
            next_of_limits(state, now),
        )
        wake = min([wake, *filter(None, others)])
    return max(wake, now)


def _take(state: SchedulerState, step: Step, message: Feedback) -> None:
    if isinstance(message, PlacementFeedback):
        placing.take(state, step, message)
        return
    match message:
        case IndexBuilt() | JobsRead() | ResultsFound():
            pass
        case InboxRead():
            _inbox(state, step, message)
        case Shutdown():
            state.stopping, state.draining = True, message.draining
        case Listened():
            state.inbox.listen(message)
        case Woken():
            polling.woken(state)
        case RunsDispatched():
            _runs_dispatched(state, step, message)
        case RunsRedispatched():
            take_redispatched(state, step, message)
        case Applied():
            applied(state, step, message)
        case RunsCreated():
            state.edits.committed(message.planned, step.now)
            for run_id in message.existing:
                step.read(state, run_id)
        case CalendarJobsRead():
            take_calendar_jobs(state, message)
        case UnplannedJobs():
            state.edits.note(message.job_ids)
        case RunsRead():
            runs_read(state, step, message)
        case DueRead():
            polling.due_read(state, step, message)
        case OverdueRead() | ExpiredRead():
            polling.waiting_read(state, step, message)
        case LanesRead() | HeadsRead():
            polling.lanes_read(state, step, message)
        case CancelsRead():
            polling.cancels_read(state, step, message)
        case ControlsRead() | ControlsConfirmed():
            controls_read(state, step, message)
        case Published():
            note_published(state, message)
        case PublishUncertain():
            publish_uncertain(state, step, message)
        case ClaimsTaken():
            claims_taken(state, step, message)
        case ClaimsRecalled():
            claims_recalled(state, step, message)
        case ClaimsDeferred():
            redis_epoch.claims_deferred(state, message)
        case WatermarksRaised():
            watermarks_raised(state, step, message)
        case EpochSeen():
            redis_epoch.seen(state, step, message)
        case EpochAccepted():
            redis_epoch.accepted(state, step, message)
        case ClockStepped():
            rates.clock_stepped(state, step, message)
        case StartsPruned():
            state.rates.pruned(full=message.full, left=message.left)
        case QueuesSeen():
            take_queues(state, step, message)
        case _:
            assert_never(message)


def _inbox(state: SchedulerState, step: Step, read: InboxRead) -> None:
    redis_epoch.inbox_read(state, step, read)
    for message in read.messages:
        # A request that was read before was answered then; a client without its answer asks again.
        if not (step.again and isinstance(message, Query | RebalanceAsked)):
            _take_message(state, step, message)
    step.again = False


def _take_message(state: SchedulerState, step: Step, message: InboxMessage) -> None:
    match message:
        case Started() | Succeeded() | Failed() | RetryAsked():
            report(state, step, message)
        case Heartbeat():
            heartbeat(state, step, message)
        case JobChanged():
            state.edits.note((message.job_id,))
        case ControlChanged():
            state.controls.want()
        case CancelRun():
            step.read(state, message.run_id)
        case RunEnqueued():
            polling.enqueued(state, step, message.run_ids)
        case RunsMoved():
            polling.moved(state, step, message.run_ids)
        case Query():
            _answer(state, step, message)
        case RebalanceAsked():
            placing.rebalance_asked(state, step, message)
        case _:
            assert_never(message)


def _answer(state: SchedulerState, step: Step, query: Query) -> None:
    if query.what == "metrics":
        step.others.append(ReplyMetrics(query.reply_to))
    elif query.what == "distribution":
        step.others.append(Survey(step.now, query.reply_to))
    else:
        try:
            reply = Reply(query.reply_to, answer(state, query, step.now))
        except Exception as exc:  # noqa: BLE001 - whatever it is, runs do not wait for a question that has no answer
            reply = Reply(query.reply_to, {"failed": True}, exc)
        step.others.append(reply)


def _runs_dispatched(state: SchedulerState, step: Step, answer: RunsDispatched) -> None:
    for run in answer.dispatched:
        state.dispatches.answered(run.run_id)
        state.hand_overs.answered(run.run_id)
    take_dispatched(state, step, answer.dispatched)
    if answer.outdated:
        state.controls.want()
    for run_id in answer.refused:
        state.dispatches.answered(run_id)
        state.hand_overs.answered(run_id)
        state.watermarks.gone(run_id)
        if not answer.outdated:
            state.reads.dispatch_refused(run_id)
        step.read(state, run_id)


def _jobs_read(state: SchedulerState, step: Step, read: JobsRead) -> None:
    touched = take_jobs(state, step, read)
    placing.follow(state, step, touched)
    for job_id in touched:
        follow_edit(state, step, job_id)
