"""The index and the missed occurrences before it: built from a snapshot in a thread of its own, applied by the loop.

A rebuild never delays dispatch. Occurrences that fell due without a leader are judged by the misfire rule, once.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final

from itinerary.protocol.instants import HOUR, MICROSECOND, SECOND, Duration, Instant
from scheduler_service.core.index.job_table import JobTable
from scheduler_service.core.index.snapshot import build_snapshot
from scheduler_service.core.leader.commands import BuildIndex
from scheduler_service.core.leader.frozen_past import Unlisted, judge_past
from scheduler_service.core.leader.planning import count_missed, count_past, create_occurrences, miss, ripe_rows
from scheduler_service.core.leader.results import IndexBuilt, MissedOccurrences
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import Job, JobHistory, MissedRange
from scheduler_service.core.policies import judge_lateness
from scheduler_service.core.schedules.jitter import jitter_of
from scheduler_service.core.schedules.schedule import Schedule, count, occurrences
from scheduler_service.core.versions import spans

# Edits do not wait for a rebuild: the loop expands changed jobs itself, and a rebuild keeps their number small.
_REST: Final = 5 * SECOND


def want_rebuild(state: SchedulerState, step: Step) -> None:
    """Request a new index if the old one is due or used up, or if jobs changed since and the builder has rested."""
    if state.rebuilds.running:
        return
    last = state.rebuilds.last_at
    interval = state.settings.index_rebuild_interval * (2 if state.load.is_behind else 1)
    overdue = last is None or step.now - last >= interval
    used_up = state.index.snapshot.end <= step.now + state.settings.pre_schedule_interval
    rested = last is None or step.now - last >= max(_REST, 20 * state.rebuilds.took)
    # A version of a calendar begins half a minute after its edit, and the cursor waits for the index.
    hurried = state.calendars.wants_index and (last is None or step.now - last >= state.rebuilds.took)
    if overdue or used_up or hurried or (state.jobs.changed and rested):
        state.rebuilds.ask(step.now)
        cursor, jobs = state.planned.cursor, state.jobs
        end = max(cursor, step.now) + state.settings.lookahead_window
        edges = state.controls.edges_between(cursor, step.now)
        known = state.calendars.known
        step.others.append(BuildIndex(jobs.histories(), cursor, step.now, end, jobs.revision, edges, known))


class IndexBuilder:
    """Carries out one BuildIndex after another, in a thread of its own because a build is long."""

    def __init__(self) -> None:
        self._known = JobTable()

    def build(self, order: BuildIndex) -> IndexBuilt:
        """Build the index of the order's jobs and collect the missed occurrences before it."""
        known, start = self._known, max(order.cursor, order.now)
        known.follow(order.jobs, min(order.cursor, order.now))
        missed = self._missed(order) if order.cursor < order.now else ()
        snapshot = build_snapshot(known.table, known.job_ids, start, order.end, order.revision)
        failures = tuple((known.job_ids[ordinal], reason) for ordinal, reason in snapshot.failures)
        return IndexBuilt(snapshot, order.revision, order.cursor, missed, failures, order.calendars)

    def _missed(self, order: BuildIndex) -> tuple[MissedOccurrences, ...]:
        # Few jobs fire within a short time, and many of those have equal schedules.
        with_missed, past = self._known.firing(order.cursor, order.now), cache(_past)
        return tuple(
            missed
            for history in order.jobs
            if history.job_id in with_missed
            for missed in _missed(history, order.cursor, order.now, order.edges, past)
        )


def _past(schedule: Schedule, start: Instant, end: Instant, in_time: Duration, most: int) -> tuple[int, list[Instant]]:
    """Count the occurrences in [start, end) and list the newest: all within the last `in_time`, and at least `most`."""
    total, since, width = count(schedule, start, end), max(start, end - in_time), HOUR
    while total:
        begin = max(start, end - width)
        found = occurrences(schedule, begin, end)
        if (len(found) >= most and begin <= since) or begin == start:
            late = bisect_left(found, since)
            return total, found[max(0, min(late, len(found) - most)) :]
        width *= 4
    return 0, []


def _missed(
    history: JobHistory, start: Instant, end: Instant, edges: Sequence[Instant], past: Callable[..., Any] = _past
) -> list[MissedOccurrences]:
    found = []
    for job, first, last in spans(history, start, end):
        misfire = job.misfire
        cuts = [first, *(at for at in edges if first < at < last), last]
        for since, until in pairwise(cuts):
            total, newest = past(job.schedule, since, until, misfire.grace + job.jitter, misfire.max_catch_up)
            if total:
                found.append(MissedOccurrences(job.job_id, job.version, since, until, total, tuple(newest)))
    return found


def take_index(state: SchedulerState, step: Step, built: IndexBuilt) -> None:
    """Swap in a new index; first judge the missed occurrences before its start and create their rows."""
    state.rebuilds.built(step.now)
    if state.planned.cursor < built.snapshot.start:
        bound = state.calendars.first_after(built.calendars)
        if built.cursor != state.planned.cursor or (bound is not None and bound < built.snapshot.start):
            state.rebuilds.was_useless()
            return
        _create_missed(state, step, built)
    state.index.swap(built.snapshot)
    state.jobs.indexed(built.revision)
    state.calendars.indexed(built.calendars)
    state.jobs.forget_old_versions(state.planned.cursor, state.runs)


def _create_missed(state: SchedulerState, step: Step, built: IndexBuilt) -> None:
    pairs: list[tuple[Job, Instant]] = []
    missed_ranges: list[MissedRange] = []
    by_job: dict[str, list[MissedOccurrences]] = defaultdict(list)
    for missed in built.missed:
        if missed.job_id not in state.jobs.changed:
            by_job[missed.job_id].append(missed)
    for job_id in state.jobs.changed:
        if job_id in state.jobs:
            start, end = state.planned.cursor, built.snapshot.start
            by_job[job_id] += _missed(state.jobs[job_id], start, end, state.controls.edges_between(start, end))
    for job_id, parts in by_job.items():
        history = state.jobs.get(job_id)
        if history is not None and parts:
            kept, ranges = _judge_missed(state, step, history, parts)
            pairs += kept
            missed_ranges += ranges
    state.planned.advance(built.snapshot.start)
    create_occurrences(state, step, pairs, missed_ranges=tuple(missed_ranges))


def _judge_missed(
    state: SchedulerState, step: Step, history: JobHistory, parts: Sequence[MissedOccurrences]
) -> tuple[list[tuple[Job, Instant]], list[MissedRange]]:
    """Judge one job's late rows together with its missed occurrences that have no row."""
    version = {job.version: job for job in history.versions}
    pairs = [(version[p.version], at) for p in parts if p.version in version for at in p.newest]
    job = history.current
    rows = ripe_rows(state, step, job.job_id)
    if (past := judge_past(state, step.now, job, rows, pairs, _unlisted(parts))) is not None:
        return count_past(state, step, job, past).kept, past.ranges
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
    missed = [at for number, (_, at) in enumerate(pairs, start=len(rows)) if number not in kept_numbers]
    return kept, [MissedRange(job.job_id, parts[0].start, _missed_until(parts, missed), unmade, judgement.reason)]


def _unlisted(parts: Sequence[MissedOccurrences]) -> list[Unlisted]:
    """The occurrences before the listed ones of each part; a part with any of them lists some."""
    more = ((part, part.count - len(part.newest)) for part in parts)
    return [Unlisted(part.start, part.newest[0], number) for part, number in more if number]


def _missed_until(parts: Sequence[MissedOccurrences], missed: Sequence[Instant]) -> Instant:
    """The end of the missed range: just after its last occurrence, so that no kept occurrence lies in another range."""
    unlisted = [part.newest[0] for part in parts if part.newest and part.count > len(part.newest)]
    return max([*unlisted, *(at + MICROSECOND for at in missed[-1:])], default=parts[-1].end)
