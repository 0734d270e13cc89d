"""Gaps as pages show them: occurrences that have no run and will have none, folded into one line with the reason."""

from collections.abc import Sequence
from dataclasses import dataclass

from itinerary.protocol.instants import MICROSECOND, Instant
from scheduler_service.api.pages.moments import Moment, moment
from scheduler_service.core.model import Gap


@dataclass(frozen=True, slots=True)
class GapLine:
    """`count` occurrences from `first` to `last`, none of which ran."""

    job_id: str
    count: int
    first: Moment
    last: Moment
    reason: str


def gap_line(gap: Gap, now: Instant) -> GapLine:
    """A gap as seen from `now`; its end is not part of it."""
    return GapLine(gap.job_id, gap.count, moment(gap.start, now), moment(gap.end - MICROSECOND, now), gap.reason)


def gaps_words(gaps: Sequence[Gap]) -> str | None:
    """How many occurrences of how many jobs; None where there are none."""
    count, jobs = sum(gap.count for gap in gaps), len({gap.job_id for gap in gaps})
    if not count:
        return None
    many = f"{count:,} planned runs" if count > 1 else "1 planned run"
    return f"{many} of {jobs:,} {'job' if jobs == 1 else 'jobs'}"
