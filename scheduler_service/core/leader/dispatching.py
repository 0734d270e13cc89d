"""Dispatch of due runs: judge lateness once, apply the overlap rule, and keep within each queue's publish window.

A run that waits for its job's other runs or for the window stays `scheduled` in the database.
"""

import heapq
from collections import deque
from typing import Final

from itinerary.protocol.instants import MICROSECOND, MILLISECOND, Instant
from scheduler_service.core.leader.commands import Dispatch, DispatchRuns, Transition
from scheduler_service.core.leader.deadlines import expire
from scheduler_service.core.leader.planning import is_fresh, is_unjudged, miss
from scheduler_service.core.leader.state import SchedulerState, Step
from scheduler_service.core.model import ActiveRun, MissedRange, Overlap, RunKind
from scheduler_service.core.policies import OVERLAP_WORD, Admission, catches_up, decide_overlap, judge_lateness
from scheduler_service.core.run_state import WAITING, Event, RunState

# A present leader finds a due run sooner than this: only later ones may have been missed.
_PROMPT: Final = 100 * MILLISECOND


def dispatch(state: SchedulerState, step: Step) -> None:
    """Expire and admit due runs, then dispatch as many as each queue's publish window allows."""
    expire(state, step)
    for job_id in state.runs.take_freed():
        state.skipping.pop(job_id, None)
        admit_next(state, job_id)
    for run in _in_time(state, step, _pop_due(state, step)):
        _admit(state, step, run)
    # Shortest queue first: a few runs need not wait for transactions with thousands of another queue's runs.
    for queue in sorted(state.waiting, key=lambda queue: len(state.waiting[queue])):
        _dispatch_queue(state, step, queue)
    if state.planned.cursor >= step.now:
        # Every run due by now was judged; the rest waits for the window or for its job's other runs.
        state.judged_until = max(state.judged_until, step.now)


def _pop_due(state: SchedulerState, step: Step) -> list[ActiveRun]:
    ripe: dict[str, ActiveRun] = {}
    if state.put_off and state.planned.cursor >= step.now:
        for run_id in state.put_off:
            state.due.append((0, run_id))
        heapq.heapify(state.due)
        state.put_off.clear()
    while state.due and state.due[0][0] <= step.now:
        _, run_id = heapq.heappop(state.due)
        run = state.runs.get(run_id)
        if run is None or run.state not in WAITING or run_id in state.dispatching or run_id in state.reading:
            continue
        if run.due_at <= step.now:
            ripe[run_id] = run
        else:
            state.wait_until(run)
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
        state.put_off.update((run.run_id, None) for run in ripe if run.job_id in late_jobs)
        return [run for run in ripe if run.job_id not in late_jobs]
    put_off: set[str] = set()
    for job_id, runs in late_jobs.items():
        misfire = state.jobs[job_id].current.misfire
        judgement = judge_lateness(misfire, [run.due_at for run in runs], len(runs), step.now)
        for number, run in enumerate(runs):
            if number not in judgement.keep:
                miss(state, step, run, misfire, judgement.reason)
                put_off.add(run.run_id)
    return [run for run in ripe if run.run_id not in put_off]


def is_to_be_judged(state: SchedulerState, run: ActiveRun, now: Instant) -> bool:
    """Whether the misfire rule must still judge this run: it is later than the grace."""
    history = state.jobs.get(run.job_id)
    return history is not None and now - run.due_at > history.current.misfire.grace and is_unjudged(state, run)


def _admit(state: SchedulerState, step: Step, run: ActiveRun) -> None:
    if run.job_id is None or run.state is RunState.RETRYING or state.runs.is_admitted(run.run_id):
        _queue_up(state, run)
        return
    if run.job_id not in state.held and not state.runs.has_live(run.job_id):
        if step.now - run.due_at > _PROMPT:
            _policy(state, step, run)  # marks a catch-up run, so that a newer run waits for it
        _queue_up(state, run)
        return
    if run.run_id in state.held.get(run.job_id, ()):
        return
    policy = _policy(state, step, run)
    if policy is Overlap.ALLOW:  # such a job may have thousands of live runs: do not scan them
        _queue_up(state, run)
        return
    admit_next(state, run.job_id)
    live = state.runs.live_of(run.job_id)
    held = [r for i in state.held.get(run.job_id, ()) if (r := state.runs.get(i)) and r.state is RunState.SCHEDULED]
    match decide_overlap(policy, len(live), len(held), sum(map(_is_catch_up, held))):
        case Admission.GO:
            _queue_up(state, run)
        case Admission.SKIP:
            _doubt(state, step, live)
            reason = f"{OVERLAP_WORD} {policy.value}: {live[0] if live else held[0].run_id} is not final"
            _skip(state, step, run, reason, reason)
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
    """Queue the run behind its job's other runs, ordered by due time even if it was read late."""
    held = state.held.setdefault(run.job_id or "", deque())
    place = len(held)
    while place and (other := state.runs.get(held[place - 1])) and other.due_at > run.due_at:
        place -= 1
    held.insert(place, run.run_id)
    state.waits_since = step.now


def _doubt(state: SchedulerState, step: Step, live: list[str]) -> None:
    """Re-read retrying runs that block others: their cancel message may have been lost."""
    for run_id in live:
        run = state.runs.get(run_id)
        if run is not None and run.state is RunState.RETRYING:
            step.read(state, run_id)


def _queue_up(state: SchedulerState, run: ActiveRun) -> None:
    state.runs.admit(run)
    heapq.heappush(state.waiting.setdefault(run.queue, []), (run.priority, run.due_at, run.run_id))


def _skip(state: SchedulerState, step: Step, run: ActiveRun, reason: str, in_common: str) -> None:
    state.counts["skip", "overlap"] += 1
    coalesce = _coalesce(state, run, in_common)
    change = Transition(
        run.run_id, run.attempt, Event.SKIP, RunState.SKIPPED, step.now, reason=reason, coalesce=coalesce
    )
    step.transition(state, run._replace(state=RunState.SKIPPED), change)


def _coalesce(state: SchedulerState, run: ActiveRun, reason: str) -> MissedRange | None:
    """Return the missed range of a skipped run, or None for the first one with this reason, which keeps its row."""
    if run.job_id is None or not is_fresh(run):
        return None
    at = run.scheduled_at
    known, end = state.skipping.get(run.job_id, ("", 0))
    if known != reason:
        state.skipping[run.job_id] = (reason, 0)
        return None
    if at < end:  # jitter made a later occurrence due first
        return None
    state.skipping[run.job_id] = (reason, at + MICROSECOND)
    return MissedRange(run.job_id, end or at, at + MICROSECOND, 1, reason)


def _supersede(state: SchedulerState, step: Step, run: ActiveRun, live: list[str]) -> None:
    """Apply cancel_running: skip waiting runs and cancel live ones; the newest waits. Catch-up runs keep their turn."""
    held = state.held.setdefault(run.job_id or "", deque())
    for run_id in list(held):
        older = state.runs.get(run_id)
        if older is not None and _is_catch_up(older):
            continue
        held.remove(run_id)
        if older is not None and older.state is RunState.SCHEDULED:
            rule = f"{OVERLAP_WORD} {Overlap.CANCEL_RUNNING}"
            in_common = f"{rule}: newer ones came while {live[0]} was not final"
            _skip(state, step, older, f"{rule}: {run.run_id} came after it", in_common)
    _hold(state, step, run)
    for run_id in live:
        other = state.runs.get(run_id)
        if other is not None and not other.cancel_requested and not _is_catch_up(other):
            step.cancels.append(run_id)
            step.read(state, run_id)


def admit_next(state: SchedulerState, job_id: str) -> None:
    """Admit the next queued run of the job if none of its runs is live."""
    held = state.held.get(job_id)
    while held and not state.runs.has_live(job_id):
        run = state.runs.get(held.popleft())
        if run is not None and run.state is RunState.SCHEDULED:
            _queue_up(state, run)
    if held is not None and not held:
        del state.held[job_id]


def _dispatch_queue(state: SchedulerState, step: Step, queue: str) -> None:
    heap = state.waiting[queue]
    dispatching = state.dispatching_in.get(queue, 0)
    room = state.settings.publish_window - state.runs.pending[queue] - dispatching
    batch: list[Dispatch] = []
    while heap and len(batch) < room:
        for _, _, run_id in _first(heap, room - len(batch)):
            run = state.runs.get(run_id)
            if run is None or run.state not in WAITING or run_id in state.dispatching or run.due_at > step.now:
                continue
            if not state.runs.is_admitted(run_id):  # a pause revoked its admission
                continue
            batch.append(Dispatch(run_id, run.attempt, state.next_seq()))
            state.watermarks.in_flight(queue, run_id, run.attempt, state.seq)
            state.dispatching[run_id] = queue
    if dispatching or batch:
        state.dispatching_in[queue] = dispatching + len(batch)
    size = state.settings.dispatch_batch
    step.dispatching += [DispatchRuns(tuple(batch[i : i + size])) for i in range(0, len(batch), size)]
    if heap:
        state.waits_since = step.now
    else:
        del state.waiting[queue]


def _first(heap: list[tuple[int, Instant, str]], number: int) -> list[tuple[int, Instant, str]]:
    """Remove and return the smallest entries in order; one sort if all are taken."""
    if number < len(heap):
        return [heapq.heappop(heap) for _ in range(number)]
    taken = sorted(heap)
    heap.clear()
    return taken


def dispatch_answered(state: SchedulerState, run_id: str) -> None:
    """Record that the dispatch of this run was answered, whatever the outcome."""
    queue = state.dispatching.pop(run_id, None)
    if queue is not None:
        state.dispatching_in[queue] -= 1
        if not state.dispatching_in[queue]:
            del state.dispatching_in[queue]
