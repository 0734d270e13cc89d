"""A job's schedule in a sentence, with what its calendars do to it."""

from scheduler_service.core.calendars.model import JobCalendars
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.closed import own_schedule
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.describe_masks import listed
from scheduler_service.core.schedules.kinds import Schedule, UnionSchedule

_MONDAY_TO_FRIDAY = " (Monday to Friday)"


def job_sentence(job: Job) -> str:
    """Describe when the job runs, without a full stop; calendars are named, not their days."""
    return schedule_sentence(job.schedule, job.calendars)


def schedule_sentence(schedule: Schedule, calendars: JobCalendars | None) -> str:
    """Describe a schedule with what these calendars do to it."""
    own = own_schedule(schedule)
    text = describe(own)
    if calendars is None:
        return text
    # Behind the last of several schedules, the words would be read of it alone.
    joined = "; all of this " if isinstance(own, UnionSchedule) else ", "
    return _with_calendars(text, calendars, joined)


def _with_calendars(text: str, calendars: JobCalendars, joined: str) -> str:
    parts = []
    if calendars.workdays is not None:
        text = text.replace(_MONDAY_TO_FRIDAY, "")
        parts.append(f"working days by {calendars.workdays}")
    if calendars.only:
        parts.append(f"only in {listed(calendars.only, 'or')}")
    if calendars.exclude:
        parts.append(f"except in {listed(calendars.exclude, 'and')}")
    if calendars.when_excluded != "skip" and (calendars.only or calendars.exclude):
        day = calendars.when_excluded.removesuffix("_day")
        parts.append(f"what falls on a closed day runs on the {day} open one")
    return f"{text}{joined}{', '.join(parts)}"
