"""The coming occurrences of a few jobs, for their lanes in the timeline: at most forty of each. Changes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from itinerary.protocol.errors import NotFound
from itinerary.protocol.instants import Instant
from scheduler_service.core.balancing.slot_counts import share_of
from scheduler_service.core.schedules.stepping import upcoming
from scheduler_service.ports.stores import JobStore

_MOST: Final = 40


def planned_runs(
    jobs: JobStore, names: Iterable[str], after: Instant, until: Instant
) -> Mapping[str, Sequence[Instant]]:
    """Return the occurrences of these jobs in (after, until), as the jobs are now; a job that is gone has none."""
    found = {}
    for name in names:
        try:
            share = share_of(jobs.get(name))
        except NotFound:
            continue
        if share is not None:
            start, end = max(after + 1, share.start), min(until, share.end)
            found[name] = upcoming(share.schedule, after, _MOST, start_at=start, end_at=end) if start < end else []
    return found
