"""The coming occurrences of a few jobs, for their lanes in the timeline: at most forty of each. Changes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.balancing.slot_counts import share_of
from scheduler_service.core.schedules.stepping import upcoming
from scheduler_service.ports.stores import JobFilter, JobStore

_MOST: Final = 40


def planned_runs(
    jobs: JobStore, names: Iterable[str], after: Instant, until: Instant
) -> Mapping[str, Sequence[Instant]]:
    """Return the occurrences of these jobs in (after, until), as the jobs are now; a job that is gone has none."""
    found = {}
    wanted = tuple(names)
    for job in jobs.list(JobFilter(job_ids=wanted), len(wanted), None).items if wanted else ():
        share = share_of(job)
        if share is not None:
            start, end = max(after + 1, share.start), min(until, share.end)
            times = upcoming(share.schedule, after, _MOST, start_at=start, end_at=end) if start < end else []
            found[job.job_id] = times
    return found
