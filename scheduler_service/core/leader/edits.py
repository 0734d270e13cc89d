"""Edits of jobs: read them in batches, update memory and plan the new versions up to the cursor.

Promises that an edit is marked as planned in the transaction of its rows; several share one, small enough for a
dispatch to wait for. Never judges lateness.
"""

from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.compact_history import with_planned
from scheduler_service.core.leader.commands import Retract
from scheduler_service.core.leader.job_reads import CalendarJobsRead, ReadCalendarJobs, ReadJobs
from scheduler_service.core.leader.planning import create_occurrences, fires, is_fresh, judged
from scheduler_service.core.leader.results import JobsRead
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun, Job, JobHistory, MissedRange

MOST_ROWS: Final = 250
_PAGE: Final = 1_000


def read_edited(state: SchedulerState, step: Step) -> None:
    """Request the next batch of jobs that may have changed."""
    if batch := state.edits.take(step.now):
        step.others.append(ReadJobs(batch, state.planned.cursor))


def read_calendar_jobs(state: SchedulerState, step: Step) -> None:
    """Request the next page of jobs that use an edited calendar."""
    if (page := state.calendars.take()) is not None:
        step.others.append(ReadCalendarJobs(*page, state.planned.cursor, _PAGE))


def take_calendar_jobs(state: SchedulerState, read: CalendarJobsRead) -> None:
    """Put the jobs of a page into memory; one with another version is read as the edit that it is."""
    for history in read.histories:
        known = state.jobs.get(history.job_id)
        if known is None or _version(known) < _version(history):
            state.edits.note([history.job_id])
        elif _version(known) == _version(history):
            planned = max(known.planned_version, history.planned_version)
            state.jobs.put_calendars(with_planned(history, planned))
    state.calendars.read(read.calendar_id, read.after, read.following)


def take_jobs(state: SchedulerState, step: Step, read: JobsRead) -> list[str]:
    """Apply changed jobs to memory and plan their unplanned versions up to the cursor; returns the changed ids."""
    touched, planned_jobs = [], 0
    edits = _Edits()
    for history in read.histories:
        job_id, version = history.job_id, _version(history)
        known = state.jobs.get(job_id)
        if known is None and history.planned_version == version:  # as most jobs of a takeover: nothing to plan
            touched.append(job_id)
            state.jobs.put(history)
            continue
        if known is not None and _is_no_news(known, history):
            continue
        touched.append(job_id)
        # Memory may have planned a version whose mark has not reached the database yet.
        planned = max(history.planned_version, known.planned_version if known is not None else 0)
        if edits.is_full(min(state.settings.write_batch, MOST_ROWS)) or job_id in edits.planned:
            planned_jobs += edits.create(state, step)
            edits = _Edits()
        _plan_edit(state, step, history, planned, edits)
        state.jobs.put(history if history.planned_version == version else with_planned(history, version))
    planned_jobs += edits.create(state, step)
    state.edits.read(planned_jobs, step.now)
    return touched


@dataclass(slots=True)
class _Edits:
    """Rows and retractions of several edited jobs for one transaction: one for each edit would cost many times more."""

    pairs: list[tuple[Job, Instant]] = field(default_factory=list)
    retracts: list[Retract] = field(default_factory=list)
    missed_ranges: list[MissedRange] = field(default_factory=list)
    planned: dict[str, int] = field(default_factory=dict)

    def is_full(self, most: int) -> bool:
        return len(self.pairs) + len(self.planned) >= most

    def create(self, state: SchedulerState, step: Step) -> int:
        if self.planned:
            planned = tuple(sorted(self.planned.items()))
            create_occurrences(state, step, self.pairs, tuple(self.retracts), tuple(self.missed_ranges), planned)
        return len(self.planned)


def _is_no_news(known: JobHistory, read: JobHistory) -> bool:
    older, same = _version(known) > _version(read), _version(known) == _version(read)
    return older or (same and known.planned_version >= read.planned_version)


def _version(history: JobHistory) -> int:
    """Return the number of the current version; nothing is built for a compact history."""
    return history.alike[-1].version


def _plan_edit(state: SchedulerState, step: Step, history: JobHistory, planned_version: int, edits: _Edits) -> None:
    current = history.current
    fresh = [job for job in history.versions if job.version > planned_version]
    if not fresh:
        return
    retracts = tuple(Retract(job.job_id, job.version, job.effective_from) for job in fresh)
    for run in state.runs.of_job(current.job_id):
        if is_fresh(run) and any(_retracted(run, r) for r in retracts):
            state.runs.drop(run.run_id)
            state.reads.outdate(run.run_id)  # the row being read was retracted
    start = min(job.effective_from for job in fresh)
    pairs = [pair for pair in fires(history, start, state.planned.cursor) if pair[0].version > planned_version]
    kept, missed_ranges = judged(state, step, pairs)
    edits.pairs += kept
    edits.retracts += retracts
    edits.missed_ranges += missed_ranges
    edits.planned[current.job_id] = current.version


def _retracted(run: ActiveRun, retract: Retract) -> bool:
    return (run.job_version or 0) < retract.version and run.scheduled_at >= retract.start
