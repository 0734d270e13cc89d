"""A job's schedule as one of systemd's calendar events. Pure."""

import re
from collections.abc import Sequence
from typing import Final

from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.cron import ALIASES
from scheduler_service.core.schedules.cron_fields import DAY, KINDS, WEEKDAY, FieldKind, read_field
from scheduler_service.core.schedules.schedule import OnceSchedule, in_own_dialect, zone_of
from scheduler_service.migrating.cron_lines import CannotSay, cron_line

_NAMES: Final = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_FROM_END: Final = re.compile(r"l(?:-(\d+))?", re.ASCII)
_FIRST_YEAR: Final = 1970


def calendar_event(job: Job, now: Instant) -> str:
    """The event that means the job's schedule, with its zone; CannotSay where there is none."""
    if isinstance(job.schedule, OnceSchedule):
        if job.schedule.at <= now:
            raise CannotSay(f"its time, {format_instant(job.schedule.at)}, is past")
        if "." in format_instant(job.schedule.at):
            raise CannotSay("its time has a fraction of a second")
        return format_instant(job.schedule.at).replace("T", " ").replace("Z", " UTC")
    expr, joined = _expression(job, now)
    fields = [*ALIASES.get(expr.lower(), expr).lower().split(), "0", "*"]
    fields = fields[:7] if len(fields) != 8 else [*fields[:6], "*"]
    texts = dict(zip(KINDS, fields, strict=True))
    minute, hour, _, month, _, second, year = (_values(kind, text, job.job_id) for kind, text in texts.items())
    day, weekdays = _days(texts[DAY], job.job_id), _weekdays(texts[WEEKDAY], job.job_id)
    if weekdays and day != "-*" and not joined:
        raise CannotSay(f"{expr} runs on either of its days, and a timer only where both match")
    return f"{weekdays}{year}-{month}{day} {hour}:{minute}:{second} {zone_of(job.schedule)}"


def _expression(job: Job, now: Instant) -> tuple[str, bool]:
    """The cron line, of five to seven fields, and whether its days are joined by *and*."""
    spec = job.schedule_spec
    if spec["kind"] == "cron":
        return str(in_own_dialect(spec)["expr"]), spec.get("day_match") == "and"
    return cron_line(job, now).expr, False


def _values(kind: FieldKind, text: str, job_id: str) -> str:
    if kind in (DAY, WEEKDAY):
        return ""
    first = _FIRST_YEAR if kind.low == _FIRST_YEAR else 0
    return _listed(kind, _numbers(kind, text, job_id, first))


def _numbers(kind: FieldKind, text: str, job_id: str, first: int = 0) -> list[int]:
    read = read_field(kind, text, job_id)
    if read.special:
        raise CannotSay(f"{text} is known here alone")
    return [value + first for value in range(kind.high - first + 1) if read.mask >> value & 1]


def _listed(kind: FieldKind, numbers: Sequence[int]) -> str:
    return "*" if len(numbers) == kind.high - kind.low + 1 else ",".join(f"{number:02d}" for number in numbers)


def _days(text: str, job_id: str) -> str:
    """The days of the month with what separates them: `~` counts from the month's end."""
    ends = [_FROM_END.fullmatch(item) for item in text.split(",")]
    if all(ends):
        return "~" + ",".join(f"{int(found[1] or 0) + 1:02d}" for found in ends if found)
    return f"-{_listed(DAY, _numbers(DAY, text, job_id))}"


def _weekdays(text: str, job_id: str) -> str:
    numbers = _numbers(WEEKDAY, text, job_id)
    return "" if len(numbers) == len(_NAMES) else f"{','.join(_NAMES[number] for number in numbers)} "
