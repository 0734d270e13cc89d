"""A schedule in plain words, for people.

Cron lines are told by cron-descriptor where it tells the truth; it takes a step for a rhythm (`*/61`
becomes "every 61 minutes") and knows no AND of the day fields, so those, and lines with `H`, are told
from the masks instead.
"""

import re
from typing import Final, assert_never

from cron_descriptor import (  # type: ignore[import-untyped]
    FormatException,
    MissingFieldException,
    Options,
    get_description,
)

from scheduler_service.core.cron import ALIASES, has_hash
from scheduler_service.core.days import CalendarDays, DayPattern
from scheduler_service.core.instants import DAY, HOUR, MINUTE, SECOND, Duration, format_instant
from scheduler_service.core.mask_words import line_words, listed, weekday_words
from scheduler_service.core.schedule_kinds import (
    UNPLACED,
    CalendarSchedule,
    CronSchedule,
    HourlySchedule,
    IntervalSchedule,
    OnceSchedule,
    Schedule,
)

_STEP: Final = re.compile(r"(?:\*|(\d+)(?:-(\d+))?)/(\d+)", re.ASCII)
_CYCLES: Final = (60, 24, 0, 0, 0, 60, 0)
_UNITS: Final = ((7 * DAY, "week"), (DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second"))


def describe(schedule: Schedule) -> str:
    """What a schedule means, in a sentence without a full stop, its zone named."""
    match schedule:
        case CronSchedule():
            return f"{_cron(schedule)} ({schedule.wall.zone})"
        case HourlySchedule():
            return f"At {schedule.minute} minutes past every hour ({schedule.wall.zone})"
        case IntervalSchedule():
            return _interval(schedule)
        case CalendarSchedule():
            return f"{_calendar(schedule)} ({schedule.wall.zone})"
        case OnceSchedule():
            return f"Once, at {format_instant(schedule.at)}"
        case _:
            assert_never(schedule)


def _cron(schedule: CronSchedule) -> str:
    text = schedule.expr.lower()
    parts = ALIASES.get(text, text).split()
    days = schedule.wall.days
    assert isinstance(days, DayPattern)
    if not has_hash(text) and _is_told_truly(parts, days):
        try:
            return _descriptor(parts)
        except (FormatException, MissingFieldException, IndexError, ValueError):
            pass
    return line_words(schedule.wall)


def _is_told_truly(parts: list[str], days: DayPattern) -> bool:
    both_days = all(part not in ("*", "?") for part in (parts[2], parts[4]))
    numbered = days.nth or days.last_weekdays
    if (both_days and (not days.either or numbered)) or len(parts) == 7:
        return False
    return all(_rhythmic(part, cycle) for part, cycle in zip(parts, _CYCLES, strict=False))


def _rhythmic(part: str, cycle: int) -> bool:
    """Whether each step in a field goes round its cycle evenly, as the words for it claim."""
    for item in part.split(","):
        found = _STEP.fullmatch(item)
        if "/" in item and (not found or not cycle or found[2] or int(found[1] or 0) >= int(found[3])):
            return False
        if found and (int(found[3]) > cycle or cycle % int(found[3])):
            return False
    return True


def _descriptor(parts: list[str]) -> str:
    minute, hour, day, month, weekday = parts[:5]
    # cron-descriptor writes the last Friday as 5L, and the seconds first.
    weekday = re.sub(r"(^|,)l(\d)", r"\1\2L", weekday)
    line = [*parts[5:6], minute, hour, day.upper(), month, weekday]
    options = Options()
    options.use_24hour_time_format = True
    return str(get_description(" ".join(line), options))


def _interval(schedule: IntervalSchedule) -> str:
    words = f"Every {_length(schedule.every)}"
    if schedule.first == UNPLACED:
        return f"{words}, to be placed by the scheduler"
    words = f"{words}, counted from {format_instant(schedule.first)}"
    return f"{words}, placed by the scheduler" if schedule.balanced else words


def _length(duration: Duration) -> str:
    parts = []
    for size, name in _UNITS:
        number, duration = divmod(duration, size)
        if number:
            parts.append(name if number == 1 else f"{number} {name}s")
    return parts[0] if len(parts) == 1 else " ".join(p if p[0].isdigit() else f"1 {p}" for p in parts)


def _calendar(schedule: CalendarSchedule) -> str:
    days = schedule.wall.days
    assert isinstance(days, CalendarDays)
    rhythm = f"Every {days.unit}" if days.every == 1 else f"Every {days.every} {days.unit}s"
    on = ""
    if days.unit == "week":
        on = f" on {weekday_words(days.weekdays)}"
    if days.unit == "month":
        on = f" on {listed([_month_day(day) for day in days.month_days])}"
    times = listed([_clock(time) for time in schedule.times])
    counted = "" if days.every == 1 else f", counted from {format_instant(days.first * DAY)[:10]}"
    return f"{rhythm}{on} at {times}{counted}"


def _month_day(day: int) -> str:
    if day > 0:
        return f"day {day}"
    return "the last day" if day == -1 else f"day {-day} from the end"


def _clock(time: int) -> str:
    text = f"{time // 3600:02d}:{time // 60 % 60:02d}"
    return text if time % 60 == 0 else f"{text}:{time % 60:02d}"
