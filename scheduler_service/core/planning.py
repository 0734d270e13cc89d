"""From jobs to run rows: which occurrences are made when, version by version.

Owns the cursor's advance. Every occurrence before the cursor has a row or lies in a gap; nothing asks "is it now?".
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from scheduler_service.core.effects import BuildIndex, MakeRuns, Retract, Transition
from scheduler_service.core.expansion import Entry
from scheduler_service.core.feedback import IndexBuilt, JobsRead, Owed
from scheduler_service.core.identity import occurrence_run_id
from scheduler_service.core.instants import HOUR, SECOND, Instant
from scheduler_service.core.model import ActiveRun, Gap, Job, JobHistory, NewRun, RunKind
from scheduler_service.core.policies import judge_lateness
from scheduler_service.core.run_index import build_generation
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.core.schedule import count, jitter_of, occurrences
from scheduler_service.core.state import SchedulerState, Step

_CURSOR_SAVED_EVERY = 10 * SECOND
_CHANGED_BEFORE_REBUILD = 1000


def spans(history: JobHistory, start: Instant, end: Instant) -> Iterator[tuple[Job, Instant, Instant]]:
    """The parts of [start, end) in which each version lets its schedule fire."""
    for index, job in enumerate(history.versions):
        until = history.versions[index + 1].effective_from if index + 1 < len(history.versions) else end
        since = max(start, job.effective_from)
        if job.deleted or (job.paused and job.paused_until is None):
            continue
        if job.paused and job.paused_until is not None:
            since = max(since, job.paused_until)
        if job.start_at is not None:
            since = max(since, job.start_at)
        until = min(until, end) if job.end_at is None else min(until, end, job.end_at)
        if since < until:
            yield job, since, until


def plan(state: SchedulerState, step: Step) -> None:
    """Make the rows of the occurrences up to `pre_schedule_interval` ahead, as far as the index reaches."""
    index = state.index
    if index is None or state.cursor < index.start:
        return
    until = min(step.now + state.settings.pre_schedule_interval, index.end)
    if until <= state.cursor:
        return
    by_job: dict[str, list[tuple[Job, Instant]]] = defaultdict(list)
    found = index.query(state.cursor, until)
    for job_id, at in zip(found.job_ids, found.instants, strict=True):
        history = state.jobs.get(job_id)
        if history is not None and job_id not in state.changed:
            by_job[job_id].append((_version_at(history, at), at))
    for job_id in state.changed:
        history = state.jobs.get(job_id)
        if history is not None:
            by_job[job_id] += _fires(history, state.cursor, until)
    state.cursor = until
    _make(state, step, [pair for pairs in by_job.values() for pair in _judged(state, step, pairs)])


def _version_at(history: JobHistory, at: Instant) -> Job:
    return next(job for job in reversed(history.versions) if job.effective_from <= at)


def _fires(history: JobHistory, start: Instant, end: Instant) -> list[tuple[Job, Instant]]:
    return [
        (job, at) for job, since, until in spans(history, start, end) for at in occurrences(job.schedule, since, until)
    ]


def _judged(state: SchedulerState, step: Step, pairs: list[tuple[Job, Instant]]) -> list[tuple[Job, Instant]]:
    """Of one job's unmade occurrences, those that get a row; the late ones that do not are recorded as a gap."""
    job = pairs[-1][0]
    due = [at + jitter_of(job.job_id, at, job.jitter) for job, at in pairs]
    ripe = [i for i, d in enumerate(due) if d <= step.now]
    if not ripe or step.now - min(due[i] for i in ripe) <= job.misfire.grace:
        return pairs
    rows = _ripe_rows(state, step, job.job_id)
    ripe_due = [run.due_at for run in rows] + [due[i] for i in ripe]
    judgement = judge_lateness(job.misfire, ripe_due, len(ripe_due), step.now)
    kept = set(judgement.keep)
    for number, run in enumerate(rows):
        if number not in kept:
            miss(state, step, run, judgement.reason)
    missed = [pairs[i] for number, i in enumerate(ripe, start=len(rows)) if number not in kept]
    if missed and judgement.reason is not None:
        gap = Gap(job.job_id, missed[0][1], missed[-1][1] + 1, len(missed), judgement.reason)
        step.making.append(MakeRuns((), state.cursor, gaps=(gap,)))
    dropped = {id(pair) for pair in missed}
    return [pair for pair in pairs if id(pair) not in dropped]


def _ripe_rows(state: SchedulerState, step: Step, job_id: str) -> list[ActiveRun]:
    """Rows of the job that wait unadmitted though their time has come: they are judged with the unmade ones."""
    if step.ripe_rows is None:
        step.ripe_rows = defaultdict(list)
        for run_id in {run_id for due_at, run_id in state.due if due_at <= step.now}:
            run = state.runs.get(run_id)
            if run is not None and run.job_id and is_fresh(run) and not state.runs.is_admitted(run_id):
                step.ripe_rows[run.job_id].append(run)
    return sorted(step.ripe_rows.get(job_id, []), key=lambda run: run.scheduled_at)


def is_fresh(run: ActiveRun) -> bool:
    """A planned occurrence that was never released."""
    return run.state is RunState.SCHEDULED and run.kind is RunKind.OCCURRENCE


def miss(state: SchedulerState, step: Step, run: ActiveRun, reason: str | None) -> None:
    """End a row that is too late to run."""
    state.counts["misfire", "row"] += 1
    change = Transition(run.run_id, run.attempt, Event.MISS, RunState.MISSED, step.now, reason=reason)
    step.transition(state, replace(run, state=RunState.MISSED), change)


def _make(
    state: SchedulerState,
    step: Step,
    pairs: Iterable[tuple[Job, Instant]],
    retracts: tuple[Retract, ...] = (),
    gaps: tuple[Gap, ...] = (),
    planned: tuple[tuple[str, int], ...] = (),
) -> None:
    rows = tuple(new_occurrence(job, at) for job, at in pairs)
    stale = step.now - state.cursor_saved_at > _CURSOR_SAVED_EVERY
    if not (rows or retracts or gaps or planned or stale):
        return
    state.cursor_saved_at = step.now
    step.making.append(MakeRuns(rows, state.cursor, retracts, gaps, planned))
    for row in rows:
        if state.runs.get(row.run_id) is None:
            run = _active(row)
            state.runs.put(run)
            state.wait_until(run)


def new_occurrence(job: Job, at: Instant) -> NewRun:
    """The row of one occurrence, with its definition as of now."""
    return NewRun(
        run_id=occurrence_run_id(job.job_id, at),
        kind=RunKind.OCCURRENCE,
        task=job.task,
        scheduled_at=at,
        due_at=at + jitter_of(job.job_id, at, job.jitter),
        job_id=job.job_id,
        job_version=job.version,
        args=job.args,
        kwargs=job.kwargs,
        queue=job.queue,
        priority=job.priority,
        retry=job.retry,
        timeout=job.timeout,
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
    )


def take_jobs(state: SchedulerState, step: Step, read: JobsRead) -> list[str]:
    """Take over changed jobs and plan their unplanned versions up to the cursor; returns the changed ids."""
    touched = []
    for history in read.histories:
        known = state.jobs.get(history.job_id)
        if known is not None and known.current.version > history.current.version:
            continue
        if known is not None and known.current == history.current and known.planned_version == history.planned_version:
            continue
        touched.append(history.job_id)
        state.revision += 1
        state.changed[history.job_id] = state.revision
        _plan_edit(state, step, history)
        state.jobs[history.job_id] = replace(history, planned_version=history.current.version)
    return touched


def _plan_edit(state: SchedulerState, step: Step, history: JobHistory) -> None:
    current = history.current
    fresh = [job for job in history.versions if job.version > history.planned_version]
    if not fresh:
        return
    retracts = tuple(Retract(job.job_id, job.version, job.effective_from) for job in fresh)
    for run in state.runs:
        if run.job_id == current.job_id and is_fresh(run) and any(_retracted(run, r) for r in retracts):
            state.runs.drop(run.run_id)
    start = min(job.effective_from for job in fresh)
    pairs = [pair for pair in _fires(history, start, state.cursor) if pair[0].version > history.planned_version]
    kept = _judged(state, step, pairs) if pairs else []
    _make(state, step, kept, retracts, planned=((current.job_id, current.version),))


def _retracted(run: ActiveRun, retract: Retract) -> bool:
    return (run.job_version or 0) < retract.version and run.scheduled_at >= retract.start


def want_rebuild(state: SchedulerState, step: Step) -> None:
    """Ask for a new index when the old one is due, used up, or too many jobs were changed since."""
    if state.building:
        return
    last = state.last_rebuild_at
    overdue = last is None or step.now - last >= state.settings.index_rebuild_interval
    used_up = state.index is not None and state.index.end <= step.now + state.settings.pre_schedule_interval
    if overdue or used_up or len(state.changed) > _CHANGED_BEFORE_REBUILD:
        state.building = True
        end = max(state.cursor, step.now) + state.settings.lookahead_window
        jobs = tuple(state.jobs.values())
        step.others.append(BuildIndex(jobs, state.cursor, step.now, end, state.revision))


def build_index(order: BuildIndex) -> IndexBuilt:
    """Carry out a BuildIndex; pure, but long: it has a thread of its own."""
    start = max(order.cursor, order.now)
    entries, job_ids, job_failures, owed = [], [], [], []
    for ordinal, history in enumerate(sorted(order.jobs, key=lambda h: h.job_id)):
        job_ids.append(history.job_id)
        entries += [
            Entry(ordinal, history.job_id, job.schedule, since, until)
            for job, since, until in spans(history, start, order.end)
        ]
        if order.cursor < order.now:
            owed += _owed(history, order.cursor, order.now)
    generation = build_generation(entries, job_ids, start, order.end, order.revision)
    job_failures += [(job_ids[ordinal], reason) for ordinal, reason in generation.failures]
    return IndexBuilt(generation, order.revision, order.cursor, tuple(owed), tuple(job_failures))


def _owed(history: JobHistory, start: Instant, end: Instant) -> list[Owed]:
    found = []
    for job, since, until in spans(history, start, end):
        total = count(job.schedule, since, until)
        if total:
            latest = _newest(job, since, until)
            found.append(Owed(job.job_id, job.version, since, until, total, tuple(latest)))
    return found


def _newest(job: Job, start: Instant, end: Instant) -> list[Instant]:
    """The newest occurrences in [start, end), `max_catch_up` at most, looked for from the end backwards."""
    width = HOUR
    while True:
        since = max(start, end - width)
        found = occurrences(job.schedule, since, end)
        if len(found) >= job.misfire.max_catch_up or since == start:
            return found[-job.misfire.max_catch_up :]
        width *= 4


def take_index(state: SchedulerState, step: Step, built: IndexBuilt) -> None:
    """Swap in a new index; what was owed before its start is judged and made first."""
    state.building = False
    state.last_rebuild_at = step.now
    if state.cursor < built.generation.start:
        if built.cursor != state.cursor:
            state.last_rebuild_at = None
            return
        _make_owed(state, step, built)
    state.index = built.generation
    state.changed = {job_id: rev for job_id, rev in state.changed.items() if rev > built.revision}
    _forget_old_versions(state)


def _make_owed(state: SchedulerState, step: Step, built: IndexBuilt) -> None:
    pairs: list[tuple[Job, Instant]] = []
    gaps: list[Gap] = []
    by_job: dict[str, list[Owed]] = defaultdict(list)
    for owed in built.owed:
        if owed.job_id not in state.changed:
            by_job[owed.job_id].append(owed)
    for job_id in state.changed:
        if job_id in state.jobs:
            by_job[job_id] += _owed(state.jobs[job_id], state.cursor, built.generation.start)
    for job_id, parts in by_job.items():
        history = state.jobs.get(job_id)
        if history is not None and parts:
            kept, gap = _judge_owed(state, step, history, parts)
            pairs += kept
            gaps += gap
    state.cursor = built.generation.start
    _make(state, step, pairs, gaps=tuple(gaps))


def _judge_owed(
    state: SchedulerState, step: Step, history: JobHistory, parts: Sequence[Owed]
) -> tuple[list[tuple[Job, Instant]], list[Gap]]:
    """One job's past: its rows that came too late and its unmade occurrences, judged together."""
    version = {job.version: job for job in history.versions}
    pairs = [(version[p.version], at) for p in parts if p.version in version for at in p.newest]
    job = history.current
    rows = _ripe_rows(state, step, job.job_id)
    due = [run.due_at for run in rows] + [at + jitter_of(j.job_id, at, j.jitter) for j, at in pairs]
    total = len(rows) + sum(p.count for p in parts)
    judgement = judge_lateness(job.misfire, due, total, step.now)
    kept_numbers = set(judgement.keep)
    for number, run in enumerate(rows):
        if number not in kept_numbers:
            miss(state, step, run, judgement.reason)
    kept = [pair for number, pair in enumerate(pairs, start=len(rows)) if number in kept_numbers]
    unmade = sum(p.count for p in parts) - len(kept)
    if not unmade or judgement.reason is None:
        return kept, []
    return kept, [Gap(job.job_id, parts[0].start, parts[-1].end, unmade, judgement.reason)]


def _forget_old_versions(state: SchedulerState) -> None:
    """Versions that ended before the cursor hold nothing to plan; a deleted job goes altogether."""
    for job_id, history in list(state.jobs.items()):
        if len(history.versions) > 1 and history.current.effective_from <= state.cursor:
            history = JobHistory(history.versions[-1:], history.planned_version)
            state.jobs[job_id] = history
        over = history.current.deleted and history.current.effective_from <= state.cursor
        if over and job_id not in state.changed and not state.runs.live_of(job_id):
            del state.jobs[job_id]
