"""A job's schedule in a sentence, with what its calendars do to it."""

from scheduler_service.core.calendars.model import JobCalendars
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.closed import own_schedule
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.describe_masks import listed

_MONDAY_TO_FRIDAY = " (Monday to Friday)"


def job_sentence(job: Job) -> str:
    """Describe when the job runs, without a full stop; calendars are named, not their days."""
    text = describe(own_schedule(job.schedule))
    return text if job.calendars is None else _with_calendars(text, job.calendars)


def _with_calendars(text: str, calendars: JobCalendars) -> str:
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
    return ", ".join([text, *parts])
