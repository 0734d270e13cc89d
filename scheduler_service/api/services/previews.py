"""Previews: the next occurrences of a saved job, or of a schedule that is not saved, as JSON. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.field_types import read_object
from itinerary.protocol.identity import check_job_id
from itinerary.protocol.instants import Instant, format_instant, parse_instant
from scheduler_service.core.calendars.closing import Applied, closed_by
from scheduler_service.core.calendars.model import Compiled, JobCalendars
from scheduler_service.core.contract.calendar_json import CALENDARS
from scheduler_service.core.contract.calendar_marks import left_out_body, stands_for
from scheduler_service.core.contract.calendar_uses import misfits, refuse_calendars
from scheduler_service.core.contract.job_warnings import END_OF_TIME, NEVER, NONE_OPEN, is_to_come, job_warnings
from scheduler_service.core.contract.job_words import job_sentence, schedule_sentence
from scheduler_service.core.contract.next_runs import next_runs_of, occurrences_of
from scheduler_service.core.contract.unknown_fields import note
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.closed import FURTHEST
from scheduler_service.core.schedules.preview import Occurrence
from scheduler_service.core.schedules.schedule import (
    UNPLACED,
    ClosedSchedule,
    IntervalSchedule,
    ParsedSchedule,
    Schedule,
    own_schedule,
    parse_schedule,
)

MAX_COUNT: Final = 1000
_KEYS: Final = frozenset({"schedule", "from", "count", "job_id", "calendars"})
Sets = Callable[[Sequence[str]], Mapping[str, Compiled]]
"""The present sets of the calendars with these ids."""


def next_runs(job: Job, now: Instant, count: int = 5) -> list[str]:
    """Return the job's next run times, as texts; none while it is paused indefinitely."""
    return [format_instant(at) for at in next_runs_of(job, now, count)]


def warnings_of(job: Job, now: Instant) -> tuple[str, ...]:
    """Return the warnings about the job."""
    warnings = parse_schedule(job.schedule_spec, job_id=job.job_id, created_at=job.created_at).warnings
    return warnings + _placing_note(job.schedule) + job_warnings(job, now) + note(job)


def job_preview(job: Job, after: Instant, count: int) -> dict[str, Any]:
    """Preview the job's occurrences strictly after an instant, within its bounds, paused or not."""
    parsed = ParsedSchedule(job.schedule, job.schedule_spec, warnings_of(job, after))
    return {**_body(parsed, after, count, job.start_at, job.end_at), "text": job_sentence(job)}


def read_and_preview(body: Mapping[str, Any], now: Instant, sets: Sets) -> dict[str, Any]:
    """Answer `POST /preview`; BadValues with every error."""
    return preview_of(*read_preview(body, now, sets))


def read_preview(body: Mapping[str, Any], now: Instant, sets: Sets) -> tuple[ParsedSchedule, Instant, int]:
    """Return the schedule, as its calendars leave it, and which of its times are asked for."""
    errors = [BadValue(name, body[name], f"known are {', '.join(sorted(_KEYS))}") for name in sorted(set(body) - _KEYS)]
    after, count, job_id = now, 10, ""
    try:
        after = now if body.get("from") is None else parse_instant(body["from"], "from")
        count = 10 if body.get("count") is None else _count(body["count"])
        job_id = "" if body.get("job_id") is None else check_job_id(body["job_id"])
        spec = read_object(body.get("schedule"), "schedule")
        parsed = parse_schedule(spec, job_id=job_id, created_at=min(after, END_OF_TIME))
        if body.get("calendars") is not None:
            calendars = CALENDARS.read(body["calendars"], "calendars")
            parsed = replace(parsed, schedule=_closed(parsed.schedule, calendars, sets(calendars.ids)))
        none_left = NONE_OPEN if isinstance(parsed.schedule, ClosedSchedule) else NEVER
        never = () if is_to_come(parsed.schedule, after) else (none_left,)
        parsed = replace(parsed, warnings=parsed.warnings + _placing_note(parsed.schedule) + never)
    except BadValue as exc:
        raise BadValues([*errors, exc]) from exc
    except BadValues as exc:
        raise BadValues([*errors, *exc.errors]) from exc
    if errors:
        raise BadValues(errors)
    return parsed, after, count


def preview_of(parsed: ParsedSchedule, after: Instant, count: int) -> dict[str, Any]:
    """Return the preview of a schedule that is not saved, as JSON."""
    return _body(parsed, after, count, None, None)


def _closed(schedule: Schedule, calendars: JobCalendars, known: Mapping[str, Compiled]) -> Schedule:
    """Return the schedule as these calendars leave it; BadValues for those that it cannot have."""
    refuse_calendars([("", Job(job_id="", task="", schedule=schedule, schedule_spec={}, calendars=calendars))], known)
    if errors := misfits(calendars, schedule):
        raise BadValues(errors)
    return closed_by(schedule, calendars, known)


def _placing_note(schedule: Schedule) -> tuple[str, ...]:
    own = own_schedule(schedule)
    if isinstance(own, IntervalSchedule) and own.first == UNPLACED:
        return ("it has no times yet: the leader places it shortly after it is saved or resumed",)
    return ()


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
        raise BadValue("count", value, f"give a whole number from 1 to {MAX_COUNT}")
    return value


def _body(
    parsed: ParsedSchedule, after: Instant, count: int, start_at: Instant | None, end_at: Instant | None
) -> dict[str, Any]:
    found = occurrences_of(parsed.schedule, after, count, start_at, end_at)
    return {
        "occurrences": [
            {"at": format_instant(o.at), "local": o.local, "offset": o.offset, "dst": o.dst, "stands_for": stands}
            for o in found
            for stands in [stands_for(parsed.schedule, o.at)]
        ],
        "left_out": [] if after >= END_OF_TIME else _left_out(parsed.schedule, after, found, count, start_at, end_at),
        "text": schedule_sentence(parsed.schedule, _calendars_of(parsed.schedule)),
        "warnings": list(parsed.warnings),
    }


def _calendars_of(schedule: Schedule) -> JobCalendars | None:
    by = schedule.by if isinstance(schedule, ClosedSchedule) else None
    return by.calendars if isinstance(by, Applied) else None


def _left_out(
    schedule: Schedule,
    after: Instant,
    found: Sequence[Occurrence],
    count: int,
    start_at: Instant | None,
    end_at: Instant | None,
) -> list[dict[str, Any]]:
    """Return what calendars leave out between the occurrences found, or in the five years of a search for more."""
    start = after + 1 if start_at is None else max(after + 1, start_at)
    end = found[-1].at if len(found) >= count else min(start + FURTHEST, END_OF_TIME)
    return left_out_body(schedule, start, end if end_at is None else min(end, end_at), count)
