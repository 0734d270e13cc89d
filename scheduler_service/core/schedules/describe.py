"""A schedule in plain words, for people.

cron-descriptor describes cron lines of the plainest shapes; all other lines are described from their masks. It takes a
step for a rhythm (`*/61` becomes "every 61 minutes"). It hides the minute behind a range of hours, and drops the
ordinals of a list of `#`.
"""

import re
from collections.abc import Mapping
from typing import Final, assert_never

from cron_descriptor import (  # type: ignore[import-untyped]
    FormatException,
    MissingFieldException,
    Options,
    get_description,
)

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Duration, format_instant
from scheduler_service.core.schedules.closed import ClosedSchedule
from scheduler_service.core.schedules.cron import ALIASES, has_hash
from scheduler_service.core.schedules.days import CalendarDays
from scheduler_service.core.schedules.describe_masks import bits_of, line_text, listed, weekday_text
from scheduler_service.core.schedules.kinds import (
    UNPLACED,
    CalendarSchedule,
    CronSchedule,
    HourlySchedule,
    IntervalSchedule,
    OnceSchedule,
    RuleSchedule,
    Schedule,
    SolarSchedule,
    UnionSchedule,
    WindowSchedule,
)
from scheduler_service.core.schedules.special_days import MONTHS, WEEKDAYS, short_names
from scheduler_service.core.schedules.wall_times import WallTimes
from scheduler_service.core.schedules.zones import DAY_SECONDS, offset_at

_STEP: Final = re.compile(r"\*/([1-9]\d*)", re.ASCII)
_ONE: Final = re.compile(r"\d+", re.ASCII)
_ONE_WEEKDAY: Final = re.compile(r"[0-7]#[1-5]|l[0-7]", re.ASCII)
_ONE_MONTH_DAY: Final = re.compile(r"l|lw|[1-9]\d?w", re.ASCII)
_WEEK: Final = {name: n for n, name in enumerate(WEEKDAYS)}
_MONTHS_OF_A_YEAR: Final = {name: n for n, name in enumerate(MONTHS, 1)}
_MONTH_DAYS: Final[Mapping[str, int]] = {}
_HOURS: Final[Mapping[str, int]] = {}
_ALL_DAYS: Final = 0b111_1111
_UNITS: Final = ((7 * DAY, "week"), (DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second"))


def describe(schedule: Schedule) -> str:
    """Describe a schedule in a sentence without a full stop, its zone named."""
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
        case SolarSchedule():
            return _solar(schedule)
        case WindowSchedule():
            return _window(schedule)
        case RuleSchedule():
            return _rule(schedule)
        case UnionSchedule():
            first, *others = map(describe, schedule.of)
            return "; ".join([first, *(f"or {text[0].lower()}{text[1:]}" for text in others)])
        case ClosedSchedule():
            return describe(schedule.own)
        case _:
            assert_never(schedule)


def _cron(schedule: CronSchedule) -> str:
    text = short_names(schedule.expr.lower())
    parts = ALIASES.get(text, text).split()
    if not has_hash(text) and _is_described_exactly(parts):
        try:
            return _descriptor(parts)
        except (FormatException, MissingFieldException, IndexError, ValueError):
            pass
    return line_text(schedule.wall)


def _is_described_exactly(parts: list[str]) -> bool:
    """Whether the line has one of the few shapes that cron-descriptor describes correctly."""
    minute, hour, day, month, weekday = parts[:5]
    if len(parts) == 7 or (len(parts) == 6 and not _ONE.fullmatch(parts[5])):
        return False
    # Of two day fields, cron-descriptor does not say whether one of them is enough.
    if all(part not in ("*", "?") for part in (day, weekday)):
        return False
    one_minute = _ONE.fullmatch(minute) is not None
    clock = one_minute or minute == "*" or _even(minute, 60)
    # With a second, cron-descriptor names the full hours of a list as if they fired.
    listed = _is_plain(hour, _HOURS, 1) and (len(parts) == 5 or int(parts[5]) == 0)
    hours = hour == "*" or _ONE.fullmatch(hour) or (one_minute and (_even(hour, 24) or listed))
    weekdays = _is_plain(weekday, _WEEK) or _ONE_WEEKDAY.fullmatch(weekday)
    month_days = _is_plain(day, _MONTH_DAYS) or _ONE_MONTH_DAY.fullmatch(day)
    return bool(clock and hours and month_days and weekdays and _is_plain(month, _MONTHS_OF_A_YEAR))


def _even(part: str, cycle: int) -> bool:
    """Whether a step divides its cycle evenly, as the words for it claim."""
    step = _STEP.fullmatch(part)
    return step is not None and cycle % int(step[1]) == 0 and int(step[1]) < cycle


def _is_plain(part: str, names: Mapping[str, int], most_width: int = 400) -> bool:
    """Whether a field is `*`, or a list of single values and of rising ranges in which each value occurs once."""
    if part in ("*", "?"):
        return True
    seen: set[int] = set()
    for item in part.split(","):
        first, _, last = item.partition("-")
        low, high = _value(first, names), _value(last or first, names)
        # cron-descriptor calls a range of one value, or of the whole week, "Monday through Monday".
        if low is None or high is None or low > high or (last and low == high) or high - low >= most_width:
            return False
        values = {number % 7 if names is _WEEK else number for number in range(low, high + 1)}
        if values & seen or (names is _WEEK and high - low > 5):
            return False
        seen |= values
    return True


def _value(text: str, names: Mapping[str, int]) -> int | None:
    return int(text) if text.isdecimal() else names.get(text)


def _descriptor(parts: list[str]) -> str:
    minute, hour, day, month, weekday = parts[:5]
    # cron-descriptor writes the last Friday as 5L, and the seconds first.
    weekday = re.sub(r"(^|,)l(\d)", r"\1\2L", weekday)
    line = [*parts[5:6], minute, hour, day.upper(), month, weekday]
    options = Options()
    options.use_24hour_time_format = True
    return str(get_description(" ".join(line), options))


def _interval(schedule: IntervalSchedule) -> str:
    parts = f"Every {_length(schedule.every)}"
    if schedule.first == UNPLACED:
        return f"{parts}, to be placed by the scheduler"
    parts = f"{parts}, counted from {format_instant(schedule.first)}"
    return f"{parts}, placed by the scheduler" if schedule.balanced else parts


def _window(schedule: WindowSchedule) -> str:
    rhythm = f"Every {_length(schedule.every)} from {_clock(schedule.opens)} until before {_closing(schedule)}"
    begins = f", beginning {_length(schedule.offset)} after it opens" if schedule.offset else ""
    on = "every day" if schedule.weekdays == _ALL_DAYS else f"on {weekday_text(schedule.weekdays)}"
    return f"{rhythm}{begins}, {on} ({schedule.zone})"


def _closing(schedule: WindowSchedule) -> str:
    days, time = divmod(schedule.closes, DAY_SECONDS)
    return f"{_clock(time)} of the next day" if days else _clock(time)


def _solar(schedule: SolarSchedule) -> str:
    first, _, which = schedule.event.partition("_")
    event = f"{which} {first}" if first in ("dawn", "dusk") else schedule.event.replace("_", " ")
    latitude = f"{abs(schedule.latitude):g} {'S' if schedule.latitude < 0 else 'N'}"
    longitude = f"{abs(schedule.longitude):g} {'W' if schedule.longitude < 0 else 'E'}"
    return f"At {event} at {latitude}, {longitude} ({schedule.zone})"


def _rule(schedule: RuleSchedule) -> str:
    count = len(schedule.excluded) + len(schedule.excluded_days)
    without = f", without {count} exception{'s' if count > 1 else ''}" if count else ""
    start = format_instant(schedule.first * SECOND)[:16].replace("T", " ")
    return f"By the rule {schedule.rule} from {start}{without} ({schedule.zone})"


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
        on = f" on {weekday_text(days.weekdays)}"
    if days.unit == "month":
        on = f" on {_nth(days) if days.nth else listed([_month_day(day) for day in days.month_days])}"
    times = listed([_clock(time) for time in schedule.times])
    begins = _begins(schedule.wall, days)
    if days.every > 1:
        return f"{rhythm}{on} at {times}, counted from {begins}"
    return f"{rhythm}{on} at {times}" if schedule.wall.not_before is None else f"{rhythm}{on} at {times}, from {begins}"


def _begins(wall: WallTimes, days: CalendarDays) -> str:
    """The beginning that the user gave, as the zone's clocks show it; else the day of the job's creation."""
    if wall.not_before is None:
        return format_instant(days.first * DAY)[:10]
    second = wall.not_before // SECOND
    text = format_instant((second + offset_at(wall.zone, second)) * SECOND)[:19].replace("T", " ")
    return text.removesuffix(":00").removesuffix(" 00:00")


def _nth(days: CalendarDays) -> str:
    names = (
        ["working day (Monday to Friday)"]
        if days.together
        else [weekday_text(1 << day) for day in bits_of(days.weekdays)]
    )
    return listed([f"the {_ordinal(number)} {name}" for name in names for number in days.nth])


def _ordinal(number: int) -> str:
    if number == -1:
        return "last"
    tens, ones = divmod(abs(number), 10)
    word = f"{abs(number)}{'th' if tens == 1 else {1: 'st', 2: 'nd', 3: 'rd'}.get(ones, 'th')}"
    return word if number > 0 else f"{word} to last"


def _month_day(day: int) -> str:
    if day > 0:
        return f"day {day}"
    return "the last day" if day == -1 else f"day {-day} from the end"


def _clock(time: int) -> str:
    text = f"{time // 3600:02d}:{time // 60 % 60:02d}"
    return text if time % 60 == 0 else f"{text}:{time % 60:02d}"
