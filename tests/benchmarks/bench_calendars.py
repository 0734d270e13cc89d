"""The cost of named calendars: expanding and building jobs that 100 calendars close, beside the same jobs without.

A third of the jobs leaves out holidays and weekends, a third moves their days, a third is open in business hours only.
"""

from collections.abc import Iterator
from random import Random
from time import perf_counter
from typing import Final

from itinerary.protocol.instants import DAY, HOUR, MINUTE
from scheduler_service.core.calendars.applying import CalendarApplier
from scheduler_service.core.calendars.model import CalendarVersion, Compiled, JobCalendars, NamedDays, Weekly
from scheduler_service.core.index.expansion import ScheduleTable, expand_table
from scheduler_service.core.index.job_table import JobTable
from scheduler_service.core.model import Job, JobHistory
from scheduler_service.core.schedules.schedule import Schedule
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.time_work import START, best, entries_of, random_lines, schedule_of

MS: Final = 1e3
JOBS: Final = 10_000
CALENDARS: Final = 100
_WEEKEND: Final = Weekly(0b1000001)
_OFFICE: Final = tuple(Weekly(0b0111110, begin * 3600, 17 * 3600) for begin in (8, 9))


def figures(asked: Asked) -> Iterator[Figure]:
    """The ratios that the contract bounds, then what they are made of."""
    yield from _expansion()
    yield from _build(50_000 if asked.quick else 1_000_000)


def _expansion() -> Iterator[Figure]:
    histories = _histories([schedule_of(line) for line in random_lines(JOBS)])
    applied = _applied(histories)
    plain, closed = (ScheduleTable.of(entries_of([h.current.schedule for h in each])) for each in (histories, applied))
    for name, start, window, most in (
        ("1 h", START, HOUR, 1.5),
        ("the hour that opens them", START - 90 * MINUTE, HOUR, 1.5),
        ("1 day", START, DAY, None),
    ):
        without, with_ = (
            best(lambda t=table, s=start, w=window: expand_table(t, s, s + w)) * MS
            for table in (plain, closed)  # type: ignore[misc]
        )
        yield Figure(f"{JOBS:,} jobs with calendars x {name}: times as long", with_ / without, "times", most)
        yield Figure("  with calendars", with_, "ms", peer="without", peer_value=without)


def _build(number: int) -> Iterator[Figure]:
    lines = [schedule_of(line) for line in random_lines(2_000, 5)]
    schedules = [lines[n % len(lines)] for n in range(number)]
    for name, alike in (("", True), (", each schedule with each of them", False)):
        histories = _histories(schedules, alike=alike)
        without = best(lambda jobs=histories: JobTable().follow(jobs, START), 3)  # type: ignore[misc]
        begun = perf_counter()
        closed = _applied(histories)
        applied = perf_counter() - begun
        del histories  # else the collector goes through twice as many objects
        with_ = best(lambda jobs=closed: JobTable().follow(jobs, START), 3)  # type: ignore[misc]
        text = f"table of {number:,} jobs with {CALENDARS} calendars{name}: times as long"
        yield Figure(text, with_ / without, "times", 1.2 if alike else None)
        yield Figure("  with calendars", with_, "s", peer="without", peer_value=without)
        yield Figure("  calendars applied to their histories", applied, "s")


def _histories(schedules: list[Schedule], *, alike: bool = True) -> tuple[JobHistory, ...]:
    """The jobs of these schedules, equal ones with one calendar or each with any."""
    named, dice = [_named(n) for n in range(CALENDARS)], Random(7)
    chosen: dict[int, JobCalendars] = {}
    found = []
    for n, schedule in enumerate(schedules):
        calendars = chosen.setdefault(id(schedule), dice.choice(named)) if alike else dice.choice(named)
        job = Job(f"job{n:07d}", "t", schedule, {}, calendars=calendars, effective_from=START - DAY)
        found.append(JobHistory((job,), 1))
    return tuple(found)


def _named(number: int) -> JobCalendars:
    if number % 3 == 2:
        return JobCalendars((), (f"c{number}",))
    return JobCalendars((f"c{number}",), (), "next_day" if number % 3 else "skip")


def _applied(histories: tuple[JobHistory, ...]) -> tuple[JobHistory, ...]:
    applier = CalendarApplier({f"c{n}": [_version(n)] for n in range(CALENDARS)}, START)
    return tuple(map(applier.applied, histories))


def _version(number: int) -> CalendarVersion:
    dice, today = Random(number), START // DAY
    days = tuple(NamedDays(day, day) for day in sorted(dice.sample(range(today, today + 1_500), 60)))
    weekly = _OFFICE if number % 3 == 2 else (_WEEKEND,)
    return CalendarVersion(f"c{number}", 1, 0, Compiled("UTC", days, (), weekly))
