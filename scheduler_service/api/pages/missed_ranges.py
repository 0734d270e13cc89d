"""Missed ranges on pages: occurrences that have no run and will have none, shown as one line with the reason."""

from collections.abc import Sequence
from dataclasses import dataclass

from itinerary.protocol.instants import MICROSECOND, Instant
from scheduler_service.api.pages.moments import Moment, moment
from scheduler_service.core.model import MissedRange


@dataclass(frozen=True, slots=True)
class MissedRangeLine:
    """`count` occurrences from `first` to `last`, none of which ran."""

    job_id: str
    count: int
    first: Moment
    last: Moment
    reason: str


def missed_range_line(missed_range: MissedRange, now: Instant) -> MissedRangeLine:
    """Describe a missed range as seen from `now`; its end is exclusive."""
    return MissedRangeLine(
        missed_range.job_id,
        missed_range.count,
        moment(missed_range.start, now),
        moment(missed_range.end - MICROSECOND, now),
        missed_range.reason,
    )


def missed_ranges_text(missed_ranges: Sequence[MissedRange]) -> str | None:
    """Count the occurrences and their jobs; None if there are none."""
    count, jobs = (
        sum(missed_range.count for missed_range in missed_ranges),
        len({missed_range.job_id for missed_range in missed_ranges}),
    )
    if not count:
        return None
    many = f"{count:,} planned runs" if count > 1 else "1 planned run"
    return f"{many} of {jobs:,} {'job' if jobs == 1 else 'jobs'}"
