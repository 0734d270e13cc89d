"""The parts of time in which each version of a job lets its schedule fire. Pure."""

from collections.abc import Iterator

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import Job, JobHistory


def is_plain(history: JobHistory) -> bool:
    """Whether there is one version, whose schedule fires from its effective time on, without an end."""
    job = history.versions[-1]
    bounded = job.start_at is not None or job.end_at is not None
    return len(history.versions) == 1 and not (job.deleted or job.paused or bounded)


def spans(history: JobHistory, start: Instant, end: Instant) -> list[tuple[Job, Instant, Instant]]:
    """The parts of [start, end) in which each version lets its schedule fire."""
    if not is_plain(history):
        return list(_spans(history, start, end))
    job = history.versions[-1]
    since = job.effective_from if job.effective_from > start else start
    return [(job, since, end)] if since < end else []


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
