"""Dispatch of due runs: start deadlines, lateness, the overlap rule, and each queue's publish window.

The window is filled by priority and due time. A run that waits for its job's other runs or for the window stays
`scheduled` in the database. Promises that a run's lateness is judged once, also by the next leader. Never publishes:
the database's answer leads to that.
"""

from typing import Final

from itinerary.protocol.batches import batched
from itinerary.protocol.instants import MILLISECOND, Instant
from scheduler_service.core.leader.beyond_limits import skip_beyond_limit
from scheduler_service.core.leader.commands import Dispatch, DispatchRuns
from scheduler_service.core.leader.deadlines import expire
from scheduler_service.core.leader.freezing import skip_frozen
from scheduler_service.core.leader.frozen import lateness_counts_from
from scheduler_service.core.leader.holding import queue_up, resume_held, skip
from scheduler_service.core.leader.lanes import Lane
from scheduler_service.core.leader.limiting import (
    full_limit,
    hand_over,
    has_worker,
    may_hand_over,
    open_lanes,
    room_in_limit,
    still_waiting,
)
from scheduler_service.core.leader.parts.slots import uses_of
from scheduler_service.core.leader.planning import is_fresh, is_unjudged, miss
from scheduler_service.core.leader.publish_windows import room
from scheduler_service.core.leader.rates import rates_of
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.limits import QUEUE
from scheduler_service.core.model import ActiveRun, Overlap, RunKind
from scheduler_service.core.policies import OVERLAP_WORD, Admission, catches_up, decide_overlap, judge_lateness
from scheduler_service.core.run_state import WAITING, RunState

# A present leader finds a due run sooner than this: only later ones may have been missed.
_PROMPT: Final = 100 * MILLISECOND


def dispatch(state: SchedulerState, step: Step) -> None:
    """Expire and admit due runs, then dispatch as many as each queue's publish window allows."""
    expire(state, step)
    for job_id in state.runs.take_freed():
        state.skipped.close(job_id)
        admit_next(state, step, job_id)
    for run in _in_time(state, step, skip_frozen(state, step, _pop_due(state, step))):
        _admit(state, step, run)
    resume_held(state, step)
    # Shortest queue first: a few runs need not wait for transactions with thousands of another queue's runs.
    open_lanes(state, step)
    waiting = state.dispatches.waiting
    for queue in sorted(waiting, key=lambda queue: len(waiting[queue])):
        _dispatch_queue(state, step, queue)
    state.slots.end_promises()
    if state.planned.cursor >= step.now:
        state.judged.judge(step.now)


def _pop_due(state: SchedulerState, step: Step) -> list[ActiveRun]:
    ripe: dict[str, ActiveRun] = {}
    if state.planned.cursor >= step.now:
        state.due.resume_put_off()
    dispatching, reading = state.dispatches.in_progress, state.reads.in_progress
    for run_id in state.due.passed(step.now):
        run = state.runs.get(run_id)
        if run is None or run.state not in WAITING or run_id in dispatching or run_id in reading:
            continue
        if run.due_at <= step.now:
            ripe[run_id] = run
        else:
            state.due.wait_until(run)
    return sorted(ripe.values(), key=lambda run: (run.due_at, run.run_id))


def _in_time(state: SchedulerState, step: Step, ripe: list[ActiveRun]) -> list[ActiveRun]:
    """Return the runs of `ripe` that remain after the misfire rule has judged the late occurrences."""
    late_jobs: dict[str, list[ActiveRun]] = {
        run.job_id: [] for run in ripe if run.job_id and is_to_be_judged(state, run, step.now)
    }
    if not late_jobs:
        return ripe
    for run in ripe:
        if run.job_id in late_jobs and is_unjudged(state, run):
            late_jobs[run.job_id].append(run)
    if state.planned.cursor < step.now:
        # The index will bring missed occurrences without rows: late rows are judged with those, newer ones after them.
        state.due.put_off(run.run_id for run in ripe if run.job_id in late_jobs)
        return [run for run in ripe if run.job_id not in late_jobs]
    put_off: set[str] = set()
    for job_id, runs in late_jobs.items():
        misfire = state.jobs[job_id].current.misfire
        judgement = judge_lateness(misfire, [lateness_counts_from(state, run) for run in runs], len(runs), step.now)
        for number, run in enumerate(runs):
            if number not in judgement.keep:
                miss(state, step, run, misfire, judgement.reason)
                put_off.add(run.run_id)
    return [run for run in ripe if run.run_id not in put_off]


def is_to_be_judged(state: SchedulerState, run: ActiveRun, now: Instant) -> bool:
    """Whether the misfire rule must still judge this run: it is later than the grace."""
    history = state.jobs.get(run.job_id)
    if history is None or now - run.due_at <= history.current.misfire.grace:
        return False
    return now - lateness_counts_from(state, run) > history.current.misfire.grace and is_unjudged(state, run)


def _admit(state: SchedulerState, step: Step, run: ActiveRun) -> None:
    if run.job_id is None or run.state is RunState.RETRYING or state.runs.is_admitted(run.run_id):
        _queue_up(state, step, run)
        return
    if not state.held.of(run.job_id) and not state.runs.has_live(run.job_id):
        if step.now - run.due_at > _PROMPT:
            _policy(state, step, run)  # marks a catch-up run, so that a newer run waits for it
        _queue_up(state, step, run)
        return
    if run.run_id in state.held.of(run.job_id):
        return
    policy = _policy(state, step, run)
    if policy is Overlap.ALLOW:  # such a job may have thousands of live runs: do not scan them
        _queue_up(state, step, run)
        return
    admit_next(state, step, run.job_id)
    live = state.runs.live_of(run.job_id)
    held = [r for i in state.held.of(run.job_id) if (r := state.runs.get(i)) and r.state is RunState.SCHEDULED]
    match decide_overlap(policy, len(live), len(held), sum(map(_is_catch_up, held))):
        case Admission.GO:
            _queue_up(state, step, run)
        case Admission.SKIP:
            _doubt(state, step, live)
            reason = f"{OVERLAP_WORD} {policy.value}: {live[0] if live else held[0].run_id} is not final"
            skip(state, step, run, reason, "overlap")
        case Admission.HOLD:
            _doubt(state, step, live)
            _hold(state, step, run)
        case Admission.CANCEL_OTHERS:
            _supersede(state, step, run, live)


def _policy(state: SchedulerState, step: Step, run: ActiveRun) -> Overlap:
    """The overlap rule of the run: its own or its job's. A catch-up run uses queue_all."""
    history = state.jobs.get(run.job_id)
    if run.overlap is not None or history is None:
        return run.overlap or Overlap.SKIP
    job = history.current
    if is_fresh(run) and catches_up(run.due_at, job.misfire, job.overlap, step.now, state.settings.prompt):
        state.runs.put(run._replace(overlap=Overlap.QUEUE_ALL))  # its row was created before it was missed
        return Overlap.QUEUE_ALL
    return job.overlap


def _is_catch_up(run: ActiveRun) -> bool:
    return run.kind is RunKind.OCCURRENCE and run.overlap is Overlap.QUEUE_ALL


def _hold(state: SchedulerState, step: Step, run: ActiveRun) -> None:
    state.held.hold(run, state.runs)
    state.judged.waits(step.now)


def _doubt(state: SchedulerState, step: Step, live: list[str]) -> None:
    """Re-read retrying runs that block others: their cancel message may have been lost."""
    for run_id in live:
        run = state.runs.get(run_id)
        if run is not None and run.state is RunState.RETRYING:
            step.read(state, run_id)


def _queue_up(state: SchedulerState, step: Step, run: ActiveRun) -> None:
    state.runs.admit(run)
    queue_up(state, run, step.now)
    limits = state.controls.limits
    if limits and (run.limits or QUEUE + run.queue in limits):
        skip_beyond_limit(state, step, run)


def _supersede(state: SchedulerState, step: Step, run: ActiveRun, live: list[str]) -> None:
    """Apply cancel_running: skip waiting runs and cancel live ones; the newest waits. Catch-up runs keep their turn."""
    held = {run_id: state.runs.get(run_id) for run_id in state.held.of(run.job_id)}
    superseded = {run_id: older for run_id, older in held.items() if older is None or not _is_catch_up(older)}
    state.held.drop(run.job_id or "", superseded)
    for older in superseded.values():
        if older is not None and older.state is RunState.SCHEDULED:
            rule = f"{OVERLAP_WORD} {Overlap.CANCEL_RUNNING}"
            in_common = f"{rule}: newer ones came while {live[0]} was not final"
            skip(state, step, older, f"{rule}: {run.run_id} came after it", "overlap", in_common)
    _hold(state, step, run)
    for run_id in live:
        other = state.runs.get(run_id)
        if other is not None and not other.cancel_requested and not _is_catch_up(other):
            step.cancels.append(run_id)
            step.read(state, run_id)


def admit_next(state: SchedulerState, step: Step, job_id: str) -> None:
    """Admit the next queued run of the job if none of its runs is live."""
    while state.held.of(job_id) and not state.runs.has_live(job_id):
        run = state.runs.get(state.held.pop_first(job_id))
        if run is not None and run.state is RunState.SCHEDULED:
            _queue_up(state, step, run)


def _dispatch_queue(state: SchedulerState, step: Step, queue: str) -> None:
    dispatches = state.dispatches
    if state.controls.pause_of(queue, step.now) is not None:
        state.judged.waits(step.now)
        return
    with_limits = dispatches.waiting[queue].has_limited() and has_worker(state, queue)
    if dispatches.first(queue, with_limits=with_limits) is None:  # all waits for limits: do not ask for room
        state.judged.waits(step.now)
        return
    with_ends = may_hand_over(state, queue)
    most = room_in_limit(state, queue, room(state, queue, step.now), with_ends=with_ends)
    if with_ends:
        most = min(most, state.settings.dispatch_batch)  # in one transaction: the first messages go early
    batch: list[Dispatch] = []
    while len(batch) < most and (lane := dispatches.first(queue, with_limits=with_limits)) is not None:
        if lane.limits and (use := full_limit(state, lane, with_ends=with_ends)) is not None:
            state.slots.keep_promise(lane)
            dispatches.close(lane, use, step.now)
            continue
        wanted = dispatches.take(lane, most - len(batch), with_limits=with_limits)
        taken = [run for run_id in wanted if (run := still_waiting(state, step, run_id)) is not None]
        if taken:
            batch += _take_out(state, lane, taken)
    size = state.settings.dispatch_batch
    version, until = state.controls.version, state.controls.next_beginning(step.now)
    parts = [DispatchRuns(part, queue, version, until) for part in batched(batch, size)]
    if with_ends and hand_over(state, queue, (one.run_id for one in batch)):
        step.handing_over += parts
    else:
        step.dispatching += parts
    if batch and state.settings.publish_window is None:
        is_full = dispatches.first(queue, with_limits=with_limits) is not None
        state.windows.refilled(queue, is_full=is_full)
    if queue in dispatches.waiting:
        state.judged.waits(step.now)


def _take_out(state: SchedulerState, lane: Lane, runs: list[ActiveRun]) -> list[Dispatch]:
    """Choose these runs of the lane: they have their numbers and slots from now on."""
    chosen = []
    for run in runs:
        seq = state.numbers.next()
        chosen.append(Dispatch(run.run_id, run.attempt, seq, lane.queue))
        state.watermarks.in_flight(lane.queue, run.run_id, run.attempt, seq)
        if state.controls.limits:
            state.rates.dispatched(run.run_id, rates_of(state, run))
    run_ids = [run.run_id for run in runs]
    state.slots.take(run_ids, uses_of(lane.queue, lane.limits))
    state.slots.keep_promise(lane)
    if state.slots.reserver is lane:
        state.slots.reserve_for(None)
    state.dispatches.serve(lane)
    state.dispatches.begin(lane.queue, run_ids)
    return chosen
