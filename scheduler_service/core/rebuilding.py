"""The index and what was owed before it: built from a snapshot in a thread of its own, taken over by the loop.

A rebuild never delays dispatch. Occurrences that fell due while nobody planned are judged by the misfire rule once.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from operator import is_
from typing import Final

from scheduler_service.core.effects import BuildIndex
from scheduler_service.core.feedback import IndexBuilt, Owed
from scheduler_service.core.instants import HOUR, SECOND, Instant
from scheduler_service.core.jitter import jitter_of
from scheduler_service.core.model import Gap, Job, JobHistory
from scheduler_service.core.planning import count_missed, make, miss, ripe_rows, spans
from scheduler_service.core.policies import judge_lateness
from scheduler_service.core.roster import Entry, Roster
from scheduler_service.core.run_index import build_generation
from scheduler_service.core.schedule import count, occurrences
from scheduler_service.core.state import SchedulerState, Step

# Edits do not wait for a rebuild, they are expanded by themselves: it only keeps that work small.
_REST: Final = 5 * SECOND
_FOREVER: Final[Instant] = 2**62


def want_rebuild(state: SchedulerState, step: Step) -> None:
    """Ask for a new index when the old one is due, used up, or jobs were changed since and the builder has rested."""
    if state.building:
        return
    last = state.last_rebuild_at
    overdue = last is None or step.now - last >= state.settings.index_rebuild_interval
    used_up = state.index.generation.end <= step.now + state.settings.pre_schedule_interval
    rested = last is None or step.now - last >= max(_REST, 20 * state.rebuild_took)
    if overdue or used_up or (state.changed and rested):
        state.building = True
        state.rebuild_asked_at = step.now
        end = max(state.cursor, step.now) + state.settings.lookahead_window
        jobs = tuple(state.jobs.values())
        step.others.append(BuildIndex(jobs, state.cursor, step.now, end, state.revision))


class IndexBuilder:
    """Carries out BuildIndex after BuildIndex; long, so it has a thread of its own.

    While no job changes, the roster that was made for one window serves the next ones.
    """

    def __init__(self) -> None:
        self._jobs: tuple[JobHistory, ...] = ()
        self._roster = Roster.of(())
        self._job_ids: tuple[str, ...] = ()
        self._since: Instant = 0

    def build(self, order: BuildIndex) -> IndexBuilt:
        """The index of the order's jobs, and what is owed before it."""
        start = max(order.cursor, order.now)
        if start < self._since or len(order.jobs) != len(self._jobs) or not all(map(is_, order.jobs, self._jobs)):
            self._read(order.jobs, start)
        owed: list[Owed] = []
        if order.cursor < order.now:
            for history in order.jobs:
                owed += _owed(history, order.cursor, order.now)
        generation = build_generation(self._roster, self._job_ids, start, order.end, order.revision)
        failures = tuple((self._job_ids[ordinal], reason) for ordinal, reason in generation.failures)
        return IndexBuilt(generation, order.revision, order.cursor, tuple(owed), failures)

    def _read(self, jobs: tuple[JobHistory, ...], since: Instant) -> None:
        ordered = sorted(jobs, key=lambda history: history.versions[-1].job_id)
        self._roster = Roster.of(
            [
                Entry(ordinal, job.job_id, job.schedule, start, end)
                for ordinal, history in enumerate(ordered)
                for job, start, end in spans(history, since, _FOREVER)
            ]
        )
        self._job_ids = tuple([history.versions[-1].job_id for history in ordered])
        self._jobs, self._since = jobs, since


def _owed(history: JobHistory, start: Instant, end: Instant) -> list[Owed]:
    found = []
    for job, since, until in spans(history, start, end):
        total = count(job.schedule, since, until)
        if total:
            latest = _newest(job, since, until)
            found.append(Owed(job.job_id, job.version, since, until, total, tuple(latest)))
    return found


def _newest(job: Job, start: Instant, end: Instant) -> list[Instant]:
    """The newest occurrences in [start, end): those that are in time, and `max_catch_up` of all at least."""
    in_time = max(start, end - job.misfire.grace - job.jitter)
    width = HOUR
    while True:
        since = max(start, end - width)
        found = occurrences(job.schedule, since, end)
        if (len(found) >= job.misfire.max_catch_up and since <= in_time) or since == start:
            late = bisect_left(found, in_time)
            return found[max(0, min(late, len(found) - job.misfire.max_catch_up)) :]
        width *= 4


def take_index(state: SchedulerState, step: Step, built: IndexBuilt) -> None:
    """Swap in a new index; what was owed before its start is judged and made first."""
    state.building = False
    state.rebuild_took = step.now - state.rebuild_asked_at
    state.last_rebuild_at = step.now
    if state.cursor < built.generation.start:
        if built.cursor != state.cursor:
            state.last_rebuild_at = None
            return
        _make_owed(state, step, built)
    state.index.swap(built.generation)
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
    make(state, step, pairs, gaps=tuple(gaps))


def _judge_owed(
    state: SchedulerState, step: Step, history: JobHistory, parts: Sequence[Owed]
) -> tuple[list[tuple[Job, Instant]], list[Gap]]:
    """One job's past: its rows that came too late and its unmade occurrences, judged together."""
    version = {job.version: job for job in history.versions}
    pairs = [(version[p.version], at) for p in parts if p.version in version for at in p.newest]
    job = history.current
    rows = ripe_rows(state, step, job.job_id)
    due = [run.due_at for run in rows] + [at + jitter_of(j.job_id, at, j.jitter) for j, at in pairs]
    total = len(rows) + sum(p.count for p in parts)
    judgement = judge_lateness(job.misfire, due, total, step.now)
    kept_numbers = set(judgement.keep)
    for number, run in enumerate(rows):
        if number not in kept_numbers:
            miss(state, step, run, job.misfire, judgement.reason)
    kept = [pair for number, pair in enumerate(pairs, start=len(rows)) if number in kept_numbers]
    unmade = sum(p.count for p in parts) - len(kept)
    if not unmade or judgement.reason is None:
        return kept, []
    count_missed(state, job.misfire, unmade)
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
