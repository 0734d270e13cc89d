"""Whether jobs may name their calendars: by what a job alone decides, and by what the calendars have. Pure.

The store asks for the second in the transaction that saves the job.
"""

from collections.abc import Iterator, Mapping, Sequence

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.run_request import MOST_ERRORS
from scheduler_service.core.calendars.closing import none_to_come
from scheduler_service.core.calendars.model import Compiled, JobCalendars
from scheduler_service.core.calendars.workdays import counts_workdays
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.kinds import Schedule, WallSchedule, zone_of


def calendars_named(job: Job | None) -> JobCalendars | None:
    """The calendars that a current job names; None for one that is deleted, or not there."""
    return None if job is None or job.deleted else job.calendars


def counts_days(calendars: JobCalendars, calendar_id: str) -> bool:
    """Whether the job moves or counts days by this calendar, so that it needs whole days of its zone."""
    moves = calendars.when_excluded != "skip" and calendar_id in (*calendars.exclude, *calendars.only)
    return moves or calendar_id == calendars.workdays


def misfits(calendars: JobCalendars, schedule: Schedule, field: str = "calendars") -> list[BadValue]:
    """Return an error for each part that this schedule cannot have."""
    found = []
    if calendars.when_excluded != "skip" and not isinstance(schedule, WallSchedule):
        rule = "only wall times move: use skip, or a schedule of kind cron, hourly or calendar"
        found.append(BadValue(f"{field}.when_excluded", calendars.when_excluded, rule))
    if calendars.workdays is not None and not counts_workdays(schedule):
        rule = "only W of a cron line, and nth with weekdays workday, count by free days; leave it out"
        found.append(BadValue(f"{field}.workdays", calendars.workdays, rule))
    return found


def refuse_calendars(saved: Sequence[tuple[str, Job]], known: Mapping[str, Compiled]) -> None:
    """Raise BadValues for the calendars of jobs that are saved, each job with its place in the request."""
    found = [(place, error) for place, job in saved for error in _errors(job, known)]
    if found:
        raise BadValues([error.under(place) if place else error for place, error in found[:MOST_ERRORS]])


def refuse_closed(saved: Sequence[tuple[str, Job, Job | None]], known: Mapping[str, Compiled]) -> None:
    """Raise BadValues for jobs to which their calendars leave nothing in five years; one as it was is not judged.

    Each comes with its place in the request and its version before. The calendars were judged by `refuse_calendars`.
    """
    found = [
        error.under(place) if place else error
        for place, job, before in saved
        if not _as_it_was(job, before) and (error := none_to_come(job, known, job.effective_from)) is not None
    ]
    if found:
        raise BadValues(found[:MOST_ERRORS])


def _as_it_was(job: Job, before: Job | None) -> bool:
    def times(of: Job) -> tuple[object, ...]:
        return of.deleted, of.schedule_spec, of.calendars, of.start_at, of.end_at

    return before is not None and times(before) == times(job)


def _errors(job: Job, known: Mapping[str, Compiled]) -> Iterator[BadValue]:
    calendars = calendars_named(job)
    for field, calendar_id in () if calendars is None else _named(calendars):
        compiled = known.get(calendar_id)
        if compiled is None:
            rule = f"no calendar has this id; create it with `itinerary calendars set {calendar_id} --rule ...`"
            yield BadValue(f"calendars.{field}", calendar_id, rule)
        elif calendars is not None and counts_days(calendars, calendar_id):
            yield from _day_errors(job, field, calendar_id, compiled)


def _named(calendars: JobCalendars) -> Iterator[tuple[str, str]]:
    for name, ids in (("exclude", calendars.exclude), ("only", calendars.only)):
        yield from ((f"{name}.{place}", calendar_id) for place, calendar_id in enumerate(ids))
    if calendars.workdays is not None:
        yield "workdays", calendars.workdays


def _day_errors(job: Job, field: str, calendar_id: str, compiled: Compiled) -> Iterator[BadValue]:
    zone = zone_of(job.schedule)
    if not compiled.whole_days:
        rule = "days are moved and counted by whole days; put the times of day of this calendar into another one"
        yield BadValue(f"calendars.{field}", calendar_id, rule)
    if zone != compiled.timezone:
        rule = f"days are moved and counted in one zone; the schedule is in {zone}: give it {compiled.timezone}"
        yield BadValue(f"calendars.{field}", calendar_id, rule)
