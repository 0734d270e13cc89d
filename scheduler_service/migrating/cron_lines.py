"""A job's schedule as a cron line of five fields, for the formats that know no other. Pure.

Promises: a line is given only with how its times differ from the job's own, which is nothing where they are equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import DAY, HOUR, SECOND, Instant, format_instant
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.cron import ALIASES
from scheduler_service.core.schedules.cron_fields import FIVE, MINUTE, FieldKind, read_field, values_text
from scheduler_service.core.schedules.cron_fields import HOUR as HOURS
from scheduler_service.core.schedules.schedule import (
    Schedule,
    in_own_dialect,
    occurrences,
    parse_schedule,
    upcoming,
    zone_of,
)
from scheduler_service.core.schedules.zones import changes_between, offset_at

_PERIODS: Final = (HOUR, DAY)
_AHEAD: Final = 400 * DAY
_AROUND: Final = 26 * HOUR
_SEEN: Final = 400
_EVERY_DAY: Final = "* * *"


class CannotSay(Exception):
    """The format has no word for this job; the text says why."""


@dataclass(frozen=True, slots=True)
class CronLine:
    """Five fields in a zone; `both_days` where two restricted day fields are joined by *and*."""

    expr: str
    timezone: str
    both_days: bool

    @property
    def has_both_days(self) -> bool:
        """Whether both day fields are restricted, so that the way of joining them means something."""
        fields = self.expr.split()
        return "*" not in (fields[2], fields[4])


def cron_line(job: Job, now: Instant) -> CronLine:
    """The line that means the job's schedule; CannotSay where there is none."""
    spec, zone = job.schedule_spec, zone_of(job.schedule)
    match spec["kind"]:
        case "cron":
            return CronLine(_plain(spec), zone, spec.get("day_match") == "and")
        case "hourly":
            return CronLine(f"{spec['minute']} * {_EVERY_DAY}", zone, False)
        case "interval":
            return CronLine(f"{_of_interval(job, zone, now)} {_EVERY_DAY}", zone, False)
        case "calendar":
            return CronLine(_of_calendar(spec), zone, False)
        case kind:
            raise CannotSay(f"a schedule of kind {kind} is no cron line")


def time_differences(job: Job, line: CronLine, rules: Mapping[str, str], now: Instant) -> list[str]:
    """How the line's times under another's `rules` differ from the job's in the next 400 days."""
    day_match = "and" if line.both_days else "or"
    spec = {"kind": "cron", "expr": line.expr, "timezone": line.timezone, "day_match": day_match, **rules}
    return schedule_differences(job, spec, line.expr, now)


def schedule_differences(job: Job, spec: Mapping[str, Any], named: str, now: Instant) -> list[str]:
    """How another schedule's times differ from the job's in the next 400 days, by the changes of its zone's clocks."""
    theirs, timezone = parse_schedule(spec, job_id="", created_at=now).schedule, spec["timezone"]
    changes = [change.at * SECOND for change in changes_between(timezone, now // SECOND, (now + _AHEAD) // SECOND)]
    _check_times(job, theirs, named, changes, now)
    found = []
    for at in changes:
        ours = {*occurrences(job.schedule, at - _AROUND, at + _AROUND)}
        other = {*occurrences(theirs, at - _AROUND, at + _AROUND)}
        if ours != other:
            sides = [("only there", other - ours), ("only here", ours - other)]
            shown = "; ".join(f"{where} at {_shown(times)}" for where, times in sides if times)
            found.append(f"when the clocks of {timezone} change on {format_instant(at)[:10]}: {shown}")
    return found


def _check_times(job: Job, theirs: Schedule, named: str, changes: Sequence[Instant], now: Instant) -> None:
    """CannotSay where the two differ although no clock changes near by."""
    seen = upcoming(job.schedule, now, _SEEN), upcoming(theirs, now, _SEEN)
    ends = min((times[-1] for times in seen if len(times) == _SEEN), default=now + _AHEAD)
    odd = [at for at in {*seen[0]} ^ {*seen[1]} if at <= ends and all(abs(at - each) > _AROUND for each in changes)]
    if odd:
        raise CannotSay(f"nothing there has its times: {named}, the closest, differs at {format_instant(min(odd))}")


def _shown(times: set[Instant]) -> str:
    listed = sorted(times)
    return ", ".join(format_instant(at) for at in listed[:3]) + (", ..." if len(listed) > 3 else "")


def _plain(spec: Mapping[str, Any]) -> str:
    """The fields in digits, which every dialect reads alike."""
    expr = in_own_dialect(spec)["expr"]
    named = f"{spec['expr']} ({expr} here)" if "dialect" in spec else expr
    fields = ALIASES.get(expr.lower(), expr).split()
    if len(fields) != len(FIVE):
        raise CannotSay(f"its line {named} has {len(fields)} fields: seconds and years are known here alone")
    return " ".join(_field(kind, text, named) for kind, text in zip(FIVE, fields, strict=True))


def _field(kind: FieldKind, text: str, line: str) -> str:
    read = read_field(kind, text.lower(), "")
    if read.special:
        raise CannotSay(f"{text} in its line {line} is known here alone")
    if read.mask == kind.full:
        return "*"
    # Whether a field begins with a star decides on the days in cron, and on changes of the clocks.
    is_stepped = kind in (MINUTE, HOURS) and text.startswith("*/") and text[2:].isdigit()
    return text if is_stepped else values_text(kind, read.mask)


def _of_interval(job: Job, zone: str, now: Instant) -> str:
    spec: Any = job.schedule_spec
    every = getattr(job.schedule, "every", 0)
    if spec.get("balanced"):
        raise CannotSay("the scheduler places it, and may move it")
    if spec.get("window"):
        raise CannotSay("it counts anew in each window, and a cron line has none")
    for period in _PERIODS:
        if every and period % every == 0:
            times = upcoming(job.schedule, now, period // every)
            return _product([_local(zone, at) for at in times], whole_hour=period == HOUR)
    raise CannotSay(f"every {spec['every']} is no even part of an hour or a day")


def _local(zone: str, at: Instant) -> int:
    second = at // SECOND
    return (second + offset_at(zone, second)) % 86_400


def _product(times: Sequence[int], *, whole_hour: bool) -> str:
    """Minutes and hours of times of day; CannotSay where they are not every minute at every hour."""
    if any(second % 60 for second in times):
        raise CannotSay("it runs within a minute, and a cron line knows whole minutes")
    minutes = sorted({second // 60 % 60 for second in times})
    hours = [] if whole_hour else sorted({second // 3600 for second in times})
    if not whole_hour and len(minutes) * len(hours) != len({*times}):
        raise CannotSay("its times of day need more than one cron line")
    return f"{_listed(minutes)} {_listed(hours) or '*'}"


def _listed(values: Sequence[int]) -> str:
    return ",".join(str(value) for value in values)


def _of_calendar(spec: Mapping[str, Any]) -> str:
    if spec.get("every", 1) != 1:
        raise CannotSay(f"every {spec['every']} {spec['unit']}s is more than a cron line can count")
    if spec.get("nth"):
        raise CannotSay("it counts weekdays of the month, and a plain cron line cannot")
    times = [_seconds(text) for text in spec["at"]]
    days, weekdays = spec.get("days") or [], spec.get("weekdays") or []
    if any(not isinstance(day, int) or day < 1 for day in days):
        raise CannotSay("a cron line cannot count days from the month's end")
    names = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
    numbers = sorted(names.index(str(day)) for day in weekdays)
    if (spec["unit"] == "month" and not days) or (spec["unit"] == "week" and not weekdays):
        raise CannotSay("its days follow from its start: name them")
    return f"{_product(times, whole_hour=False)} {_listed(sorted(days)) or '*'} * {_listed(numbers) or '*'}"


def _seconds(text: str) -> int:
    parts = [int(part) for part in text.split(":")]
    return parts[0] * 3600 + parts[1] * 60 + (parts[2] if len(parts) > 2 else 0)
