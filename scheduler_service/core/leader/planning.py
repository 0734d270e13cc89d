"""Planning: create the rows of coming occurrences, version by version, and advance the cursor.

Promises that each occurrence before the cursor has a row or lies in a missed range. Planning never
depends on being awake at the moment an occurrence falls due.
"""

from collections import defaultdict
from collections.abc import Iterable

from itinerary.protocol.batches import batched
from itinerary.protocol.identity import occurrence_run_id
from itinerary.protocol.instants import Duration, Instant
from itinerary.protocol.limits import lane_of, uses_of
from scheduler_service.core.leader.commands import CreateRuns, Retract, Transition
from scheduler_service.core.leader.frozen import is_to_be_skipped, lateness_counts_from
from scheduler_service.core.leader.frozen_past import FrozenPast, judge_past
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step, keep
from scheduler_service.core.model import ActiveRun, Job, JobHistory, Misfire, MissedRange, NewRun, Overlap, RunKind
from scheduler_service.core.policies import catches_up, judge_lateness
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.core.schedules.jitter import jitter_of
from scheduler_service.core.schedules.schedule import occurrences
from scheduler_service.core.versions import spans

# Create rows for a hundredth of the interval at a time: many in a transaction, with few index queries.
_STRIDES = 100
# Lag by this many strides while dispatching: at a full second many runs fall due, and as many become plannable.
_LAG = 12


def plan(state: SchedulerState, step: Step) -> None:
    """Create the rows of the occurrences up to `pre_schedule_interval` ahead, as far as the index reaches."""
    index = state.index
    reach = index.snapshot
    stride = state.settings.pre_schedule_interval // _STRIDES
    lag = max(_LAG * stride if is_dispatching(state, step.now) else 0, state.load.planning_lag)
    until = min(step.now + state.settings.pre_schedule_interval - lag, reach.end)
    if (bound := state.calendars.bound) is not None:
        until = min(until, bound)
    # Ignore an index that ends in the past: the next build judges all missed occurrences at once.
    if reach.end < step.now or not reach.start <= state.planned.cursor < until:
        return
    if step.now < state.planned.cursor > until - stride:
        return
    by_job: dict[str, list[tuple[Job, Instant]]] = defaultdict(list)
    for job_id, at in index.query(state.planned.cursor, until):
        history = state.jobs.get(job_id)
        if history is not None and job_id not in state.jobs.changed:
            by_job[job_id].append((_version_at(history, at), at))
    for job_id in state.jobs.changed:
        history = state.jobs.get(job_id)
        if history is not None:
            by_job[job_id] += fires(history, state.planned.cursor, until)
    state.planned.advance(until)
    rows: list[tuple[Job, Instant]] = []
    missed_ranges: list[MissedRange] = []
    for pairs in by_job.values():
        kept, missed = judged(state, step, pairs)
        rows += kept
        missed_ranges += missed
    create_occurrences(state, step, rows, missed_ranges=tuple(missed_ranges))


def is_dispatching(state: SchedulerState, now: Instant) -> bool:
    """Whether runs are due now, or are being dispatched or published."""
    return bool(state.dispatches.in_progress or state.publishing.in_progress or state.due.has_passed(now))


def _version_at(history: JobHistory, at: Instant) -> Job:
    if history.current.effective_from <= at:
        return history.current
    return next(job for job in reversed(history.versions) if job.effective_from <= at)


def fires(history: JobHistory, start: Instant, end: Instant) -> list[tuple[Job, Instant]]:
    """The occurrences of [start, end), each with its version of the job."""
    return [
        (job, at) for job, since, until in spans(history, start, end) for at in occurrences(job.schedule, since, until)
    ]


def judged(
    state: SchedulerState, step: Step, pairs: list[tuple[Job, Instant]]
) -> tuple[list[tuple[Job, Instant]], list[MissedRange]]:
    """Split one job's occurrences without rows into those that get a row and the missed range of the late others."""
    if not pairs or pairs[0][1] > step.now:
        return pairs, []
    job = pairs[-1][0]
    due = [at + jitter_of(job.job_id, at, job.jitter) for job, at in pairs]
    ripe = [i for i, d in enumerate(due) if d <= step.now]
    if not ripe or step.now - min(due[i] for i in ripe) <= job.misfire.grace:
        return pairs, []
    rows = ripe_rows(state, step, job.job_id)
    if (past := judge_past(state, step.now, job, rows, [pairs[i] for i in ripe], ())) is not None:
        coming = [pair for i, pair in enumerate(pairs) if i not in ripe]
        return [*count_past(state, step, job, past).kept, *coming], past.ranges
    ripe_due = [run.due_at for run in rows] + [due[i] for i in ripe]
    judgement = judge_lateness(job.misfire, ripe_due, len(ripe_due), step.now)
    kept = set(judgement.keep)
    for number, run in enumerate(rows):
        if number not in kept:
            miss(state, step, run, job.misfire, judgement.reason)
    missed = [pairs[i] for number, i in enumerate(ripe, start=len(rows)) if number not in kept]
    if not missed or judgement.reason is None:
        return pairs, []
    count_missed(state, job.misfire, len(missed))
    dropped = {id(pair) for pair in missed}
    missed_range = MissedRange(job.job_id, missed[0][1], missed[-1][1] + 1, len(missed), judgement.reason)
    return [pair for pair in pairs if id(pair) not in dropped], [missed_range]


def ripe_rows(state: SchedulerState, step: Step, job_id: str) -> list[ActiveRun]:
    """The job's due rows that are not admitted yet: the misfire rule judges them with occurrences that have no row."""
    if step.ripe is None:
        step.ripe = defaultdict(list)
        for run_id in state.due.ripe(step.now):
            run = state.runs.get(run_id)
            if run is not None and run.job_id and is_unjudged(state, run) and not is_to_be_skipped(state, run):
                step.ripe[run.job_id].append(run)
    return sorted(step.ripe.get(job_id, []), key=lambda run: run.scheduled_at)


def count_past(state: SchedulerState, step: Step, job: Job, past: FrozenPast) -> FrozenPast:
    """End the late rows of a past that freezes met, and count what became of its occurrences without rows."""
    for run in past.late_rows:
        miss(state, step, run, job.misfire, past.late_reason)
    if past.missed:
        count_missed(state, job.misfire, past.missed)
    if past.skipped:
        state.counts.add("skip", "frozen", past.skipped)
    return past


def is_planned(run: ActiveRun) -> bool:
    """Whether the run is a planned occurrence that waits for its first attempt; it may have been recalled."""
    return run.state is RunState.SCHEDULED and run.kind is RunKind.OCCURRENCE


def is_fresh(run: ActiveRun) -> bool:
    """Whether the run is a planned occurrence that was never dispatched."""
    return is_planned(run) and not run.seq


def count_missed(state: SchedulerState, misfire: Misfire, number: int) -> None:
    """Count occurrences that a job's misfire policy drops, as rows or in a missed range."""
    state.counts.add("misfire", misfire.policy.value, number)


def is_unjudged(state: SchedulerState, run: ActiveRun) -> bool:
    """Whether the run is a planned occurrence whose lateness no leader has judged yet."""
    is_candidate = is_fresh(run) and not state.runs.is_admitted(run.run_id)
    return is_candidate and lateness_counts_from(state, run) > state.judged.until


def miss(state: SchedulerState, step: Step, run: ActiveRun, misfire: Misfire, reason: str | None) -> None:
    """End the row of an occurrence that is too late to run."""
    count_missed(state, misfire, 1)
    change = Transition(run.run_id, run.attempt, Event.MISS, RunState.MISSED, step.now, reason=reason)
    step.transition(state, run._replace(state=RunState.MISSED), change)


def create_occurrences(
    state: SchedulerState,
    step: Step,
    pairs: Iterable[tuple[Job, Instant]],
    retracts: tuple[Retract, ...] = (),
    missed_ranges: tuple[MissedRange, ...] = (),
    planned: tuple[tuple[str, int], ...] = (),
) -> None:
    rows = tuple(new_occurrence(job, at, step.now, state.settings.prompt) for job, at in pairs)
    for missed_range in missed_ranges:
        # Runs skipped later do not extend a missed range that ends before these occurrences.
        state.skipped.close(missed_range.job_id)
    if not (rows or retracts or missed_ranges or planned or state.planned.is_stale(step.now)):
        return
    state.planned.saved(step.now)
    # An edit is marked as planned in the transaction of its rows.
    control = state.controls.version
    *early, last = [rows] if planned else [*batched(rows, state.settings.write_batch)] or [()]
    step.creating += [CreateRuns(part, None) for part in early]
    step.creating.append(CreateRuns(last, state.planned.cursor, retracts, missed_ranges, planned, control=control))
    for row in rows:
        known = state.runs.get(row.run_id)
        # A skipped run may have been coalesced and is then created again; otherwise the store reports the existing row.
        if known is None or known.state is RunState.SKIPPED:
            run = _active(row)
            keep(state, run, step.now)
            state.due.wait_until(run)


def without_unfinished(step: Step, found: tuple[ActiveRun, ...], cursor: Instant) -> tuple[ActiveRun, ...]:
    """Return the runs without those of an unfinished batch of the last leader, which are retracted and judged again."""
    unfinished = {run.run_id: run for run in found if is_fresh(run) and run.scheduled_at >= cursor}
    newest: dict[str, int] = {}
    for run in unfinished.values():
        job_id = run.job_id or ""
        newest[job_id] = max(newest.get(job_id, 0), run.job_version or 0)
    if newest:
        back = tuple(Retract(job_id, version + 1, cursor) for job_id, version in newest.items())
        step.creating.append(CreateRuns((), cursor, back))
    return tuple(run for run in found if run.run_id not in unfinished or run.cancel_requested)


def new_occurrence(job: Job, at: Instant, now: Instant, prompt: Duration) -> NewRun:
    """Build the row of one occurrence with its current definition; a missed one queues behind its job's other runs."""
    due_at = at + jitter_of(job.job_id, at, job.jitter)
    # Without the argument that a key is taken from, the run does without that limit: no occurrence is lost.
    limits, fair_key = uses_of(job.limits, job.fair_key, job.args, job.kwargs, [])
    return NewRun(
        run_id=occurrence_run_id(job.job_id, at),
        kind=RunKind.OCCURRENCE,
        task=job.task,
        scheduled_at=at,
        due_at=due_at,
        overlap=Overlap.QUEUE_ALL if catches_up(due_at, job.misfire, job.overlap, now, prompt) else None,
        job_id=job.job_id,
        job_version=job.version,
        args=job.args,
        kwargs=job.kwargs,
        queue=job.queue,
        priority=job.priority,
        retry=job.retry,
        timeout=job.timeout,
        start_within=job.start_within,
        must_end_within=job.must_end_within,
        headers=job.run_headers,
        limits=limits,
        lane=lane_of(limits, fair_key),
    )


def _active(row: NewRun) -> ActiveRun:
    return ActiveRun(
        run_id=row.run_id,
        kind=row.kind,
        job_id=row.job_id,
        job_version=row.job_version,
        queue=row.queue,
        priority=row.priority,
        scheduled_at=row.scheduled_at,
        due_at=row.due_at,
        state=RunState.SCHEDULED,
        retry=row.retry,
        timeout=row.timeout,
        overlap=row.overlap,
        start_by=None if row.start_within is None else row.due_at + row.start_within,
        limits=row.limits,
        lane=row.lane,
    )
