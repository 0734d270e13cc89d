"""The parts of time in which each version of a job lets its schedule fire. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import Job, JobHistory


def like(job: Job | JobHistory) -> Job:
    """Return the job, or one like its current version: see `JobHistory.alike`."""
    return job if isinstance(job, Job) else job.alike[-1]


def as_of(job: Job, now: Instant) -> Job:
    """Return the job as it is at `now`: a pause that is over is none."""
    if not job.paused or job.paused_until is None or now < job.paused_until:
        return job
    return replace(job, paused=False, pause_reason=None, paused_until=None, pause_skips=False)


def is_plain(history: JobHistory) -> bool:
    """Whether there is one version, whose schedule fires from its effective time on, without an end."""
    job = history.alike[-1]
    bounded = job.start_at is not None or job.end_at is not None
    return len(history.alike) == 1 and not (job.deleted or job.paused or bounded)


def spans(history: JobHistory, start: Instant, end: Instant) -> list[tuple[Job, Instant, Instant]]:
    """The parts of [start, end) in which each version lets its schedule fire."""
    if not is_plain(history):
        return list(_spans(history, start, end))
    since = max(history.effective_from, start)
    return [(history.current, since, end)] if since < end else []


def _spans(history: JobHistory, start: Instant, end: Instant) -> Iterator[tuple[Job, Instant, Instant]]:
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
