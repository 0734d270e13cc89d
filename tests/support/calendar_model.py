"""A plain model of calendars: asked for one instant, or one date, at a time; and random calendars around a moment."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from random import Random

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.calendars.model import Compiled, JobCalendars, NamedDays, NamedSpan, Weekly
from scheduler_service.core.schedules.zones import zone as load_zone

EPOCH = date(1970, 1, 1)
OnDay = Callable[[date], bool]


def number(day: date) -> int:
    """The day's number."""
    return (day - EPOCH).days


def contains(compiled: Compiled, at: Instant) -> bool:
    """Whether an instant is in the calendar."""
    wall = datetime.fromtimestamp(at // SECOND, load_zone(compiled.timezone))
    second = wall.hour * 3600 + wall.minute * 60 + wall.second
    return (
        any(d.first <= number(wall.date()) <= d.last for d in compiled.days)
        or any(s.start <= at < s.end for s in compiled.spans)
        or any(_is_open(w, wall.date(), second) for w in compiled.weekly)
    )


def _is_open(rule: Weekly, day: date, second: int) -> bool:
    today, yesterday = (rule.days >> (number(d) + 4) % 7 & 1 for d in (day, day - timedelta(days=1)))
    if rule.end > rule.start:
        return bool(today and rule.start <= second < rule.end)
    return bool((today and rule.start <= second) or (yesterday and second < rule.end))


def has_day(compiled: Compiled, day: date) -> bool:
    """Whether a day is in the calendar as a whole."""
    return any(d.first <= number(day) <= d.last for d in compiled.days) or any(
        w.start == w.end == 0 and w.days >> (number(day) + 4) % 7 & 1 for w in compiled.weekly
    )


def is_closed(calendars: JobCalendars, of: Mapping[str, Compiled], at: Instant) -> bool:
    """Whether a job is closed at an instant."""
    return any(contains(of[one], at) for one in calendars.exclude) or bool(
        calendars.only and not any(contains(of[one], at) for one in calendars.only)
    )


def is_closed_day(calendars: JobCalendars, of: Mapping[str, Compiled], day: date) -> bool:
    """Whether a job is closed on a day."""
    return any(has_day(of[one], day) for one in calendars.exclude) or bool(
        calendars.only and not any(has_day(of[one], day) for one in calendars.only)
    )


def moved(on_day: OnDay, closed: OnDay, back: bool) -> OnDay:
    """The days on which a schedule fires whose closed days move to the next open one, or the previous one."""
    step = timedelta(days=1 if back else -1)

    def fires(day: date) -> bool:
        if closed(day):
            return False
        if on_day(day):
            return True
        for _ in range(31):
            day += step
            if not closed(day):
                return False
            if on_day(day):
                return True
        return False

    return fires


def random_calendar(dice: Random, zone: str, around: Instant, *, whole: bool) -> Compiled:
    """A calendar with something in the days around an instant; `whole`: of whole days only."""
    today = around // (86_400 * SECOND)
    days = [NamedDays(first := today + dice.randint(-40, 40), first + dice.choice((0, 0, 1, 2, 10, 35))) for _ in
            range(dice.randint(0, 6))]  # fmt: skip
    weekly = [Weekly(dice.randrange(1, 128) & dice.randrange(1, 128)) for _ in range(dice.randint(0, 1))]
    spans = []
    if not whole:
        times = [60 * dice.randint(0, 1439) for _ in range(6)]
        weekly += [Weekly(dice.randrange(128), *times[n : n + 2]) for n in range(dice.randint(0, 3))]
        starts = [around + 60 * SECOND * dice.randint(-600, 600) for _ in range(dice.randint(0, 3))]
        spans = [NamedSpan(start, start + SECOND * dice.choice((1, 60, 3600, 90_000))) for start in starts]
    return Compiled(zone, tuple(days), tuple(spans), tuple(weekly))


def random_calendars(dice: Random, names: Sequence[str], when: str) -> JobCalendars:
    """What a job says of these calendars, none of them left out."""
    cut = dice.randint(0, len(names))
    return JobCalendars(tuple(names[:cut]), tuple(names[cut:]), when)  # type: ignore[arg-type]


def is_free(free: Compiled, day: date) -> bool:
    """Whether a day is no business day by a calendar of free days."""
    weekend = not any(w.start == w.end == 0 for w in free.weekly) and day.isoweekday() >= 6
    return weekend or has_day(free, day)


def of_month(year: int, month: int) -> list[date]:
    """The days of a month."""
    first = date(year, month, 1)
    return [day for n in range(31) if (day := first + timedelta(days=n)).month == month]


def nearest(free: Compiled, days: list[date], target: int) -> list[date]:
    """The business day of a month nearest to its day `target`."""
    worked = [day for day in days if not is_free(free, day)]
    return sorted(worked, key=lambda day: (abs(day.day - target), day))[:1] if target >= 1 else []


def nth(free: Compiled, days: list[date], numbers: list[int]) -> list[date]:
    """The business days of a month by their numbers, from its end where those are negative."""
    worked = [day for day in days if not is_free(free, day)]
    return [day for place, day in enumerate(worked) if place + 1 in numbers or place - len(worked) in numbers]
