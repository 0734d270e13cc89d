"""When a job runs next, as its page and its list say it. Pure."""

from itinerary.protocol.instants import Instant
from scheduler_service.core.contract.job_warnings import END_OF_TIME
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.preview import Occurrence, preview
from scheduler_service.core.schedules.schedule import Schedule


def next_runs_of(job: Job, now: Instant, count: int) -> list[Instant]:
    """The job's next run times after `now`; none while it is paused indefinitely."""
    if job.paused and job.paused_until is None:
        return []
    after = max(now, job.paused_until - 1) if job.paused and job.paused_until is not None else now
    return [occurrence.at for occurrence in occurrences_of(job.schedule, after, count, job.start_at, job.end_at)]


def occurrences_of(
    schedule: Schedule, after: Instant, count: int, start_at: Instant | None, end_at: Instant | None
) -> list[Occurrence]:
    """The next occurrences strictly after an instant, within the bounds."""
    end = END_OF_TIME if end_at is None else min(end_at, END_OF_TIME)
    return [] if after >= end else preview(schedule, after, count, start_at=start_at, end_at=end)
