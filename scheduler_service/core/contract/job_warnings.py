"""Warnings about a definition beyond its schedule: legal, but perhaps not intended.

Pure; the API, CLI and pages share them.
"""

from typing import Final

from itinerary.protocol.instants import SECOND, Instant, format_duration, parse_instant
from scheduler_service.core.model import Job, Misfire
from scheduler_service.core.schedules.schedule import (
    UNPLACED,
    ClosedSchedule,
    IntervalSchedule,
    Schedule,
    next_after,
    own_schedule,
    upcoming,
)

# The last year that a text can name ends a little later; occurrences beyond it are not shown.
END_OF_TIME: Final = parse_instant("9999-12-30T00:00:00Z")
NEVER: Final = "there will be no run: all its times are past; change the schedule"
KEYED: Final = (
    "fair_key counts only for manual runs that name limits of their own without keys: all others take turns by the "
    "keys of the job's limits"
)
NONE_OPEN: Final = "there will be no run in five years: its times are past, or its calendars leave none of them open"
_JUDGED: Final = 10
# A leader polls once a second when nothing wakes it, and a commit takes its time too.
SHORTEST_GRACE: Final = SECOND


def job_warnings(job: Job, now: Instant) -> tuple[str, ...]:
    """Return the warnings about the job's bounds and policies, as it would be saved or is stored at `now`."""
    found = []
    if not is_to_come(job.schedule, now, job.start_at, job.end_at):
        ended = job.end_at is not None and job.end_at <= now
        never = NONE_OPEN if isinstance(job.schedule, ClosedSchedule) else NEVER
        found.append("there will be no run: end_at is past; change or omit it" if ended else never)
    if job.misfire.grace < SHORTEST_GRACE:
        found.append(_grace_message(job.misfire))
    if job.fair_key is not None and any(limit.key is not None for limit in job.limits):
        found.append(KEYED)
    if _jitter_reaches_over(job, now):
        found.append(
            "jitter may carry a run into a time that its calendars close: they say when runs are planned, and a freeze "
            "when they may go"
        )
    return tuple(found)


def _jitter_reaches_over(job: Job, now: Instant) -> bool:
    schedule = job.schedule
    if not job.jitter or not isinstance(schedule, ClosedSchedule) or (times := schedule.times) is None:
        return False
    coming = upcoming(schedule, now, _JUDGED, start_at=job.start_at, end_at=job.end_at)
    return any(times.throughout(at, at + job.jitter) is not False for at in coming)


def is_to_come(
    schedule: Schedule, now: Instant, start_at: Instant | None = None, end_at: Instant | None = None
) -> bool:
    """Whether any occurrence is after `now` and within the bounds; one that waits for its place counts as coming."""
    own = own_schedule(schedule)
    if isinstance(own, IntervalSchedule) and own.first == UNPLACED:
        return True
    end = END_OF_TIME if end_at is None else min(end_at, END_OF_TIME)
    after = now if start_at is None else max(now, start_at - 1)
    if after >= end:
        return False
    found = next_after(schedule, after)
    return found is not None and found < end


def _grace_message(misfire: Misfire) -> str:
    grace, least = format_duration(misfire.grace), format_duration(SHORTEST_GRACE)
    return (
        f"misfire.grace {grace} is shorter than a leader can hold on every pass: runs that start on time count as "
        f"late, and the policy {misfire.policy.value} decides; give {least} or more"
    )
