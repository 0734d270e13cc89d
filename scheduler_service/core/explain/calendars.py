"""The part of calendars in an explanation: why an occurrence was left out, and for which days a run stands. Pure."""

from datetime import date, timedelta
from typing import Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.calendars.reasons import left_out, moved_from
from scheduler_service.core.explain.explanation import Because, version_row
from scheduler_service.core.explain.facts import Version
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import ClosedSchedule, occurrences

_EPOCH: Final = date(1970, 1, 1)


def left_out_by(holding: Version, at: Instant) -> list[Because]:
    """Return why calendars leave out what the job's own schedule has at this instant; nothing if they do not."""
    schedule = holding.job.schedule
    if not isinstance(schedule, ClosedSchedule) or occurrences(schedule, at, at + 1):
        return []
    if at in schedule.never:
        message = "Its day ran before the calendars were changed, on the day that it had then; each day runs once."
        return [Because(message, version_row(holding))]
    because = []
    for one in left_out(schedule, at, at + 1, 1):
        because.append(Because(f"The job's own schedule has it, but it is {one.because}.", version_row(holding)))
        if one.moved_to is not None:
            because.append(Because(f"Its day moved to {day_text(one.moved_to)}."))
        elif schedule.times is None:
            because.append(Because("There is no open day within 31 days to which it could move, so it is left out."))
    return because


def stands_for(job: Job, at: Instant) -> list[Because]:
    """Return for which other days the run of this instant stands."""
    schedule = job.schedule
    if isinstance(schedule, ClosedSchedule) and at in schedule.also:
        message = (
            "Its day was here before the calendars were changed; where it is now was past by then. Each day runs once."
        )
        return [Because(message)]
    days = moved_from(schedule, at)
    return [Because(f"It stands for {day_text(one.day)}, which is {one.because}.") for one in days]


def day_text(day: int) -> str:
    """Return a day by its weekday and date."""
    return f"{_EPOCH + timedelta(days=day):%A, %Y-%m-%d}"
