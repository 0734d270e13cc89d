"""Calendars applied to histories: cuts at their versions, and days that an edit moves fire once (H42, H43)."""

from dataclasses import replace
from datetime import date, timedelta
from random import Random
from typing import Any

import pytest

from itinerary.protocol.instants import DAY, HOUR, MINUTE, Instant
from scheduler_service.core.calendars.applying import CalendarApplier, with_calendars
from scheduler_service.core.calendars.carrying import REACH
from scheduler_service.core.calendars.model import CalendarVersion, Compiled, JobCalendars, NamedDays, Weekly
from scheduler_service.core.compact_history import CompactHistory
from scheduler_service.core.explain.calendars import left_out_by, stands_for
from scheduler_service.core.explain.facts import Version
from scheduler_service.core.index.expansion import expand_table
from scheduler_service.core.index.job_table import JobTable
from scheduler_service.core.leader.planning import fires
from scheduler_service.core.model import Job, JobHistory
from scheduler_service.core.schedules.schedule import occurrences
from tests.support.calendar_model import EPOCH, is_closed_day, nearest, nth, number, of_month
from tests.support.compact import compact
from tests.support.moments import at, cron, schedule_of, texts

FRIDAY, SATURDAY, SUNDAY, MONDAY = (number(date(2026, 11, 27)) + n for n in range(4))
AT_NINE = cron("0 9 * * *")
BEGIN, END = at("2026-11-01T00:00:00Z"), at("2027-02-01T00:00:00Z")


def days(*numbers: int) -> Compiled:
    return Compiled("UTC", tuple(NamedDays(n, n) for n in numbers))


def version(effective_from: Instant, compiled: Compiled, number: int = 1, name: str = "c") -> CalendarVersion:
    return CalendarVersion(name, number, effective_from, compiled)


def job(schedule: Any = AT_NINE, calendars: JobCalendars | None = None, **more: Any) -> Job:
    return Job(
        "a", "t", schedule, {}, calendars=calendars or JobCalendars(("c",), (), "next_day"),
        created_at=BEGIN, effective_from=BEGIN, **more,
    )  # fmt: skip


def applied(*edits: tuple[str, Compiled], of: Job | None = None) -> JobHistory:
    """The history of a job by the versions of its calendar, each with the text of its time."""
    versions = [version(at(text), compiled, n) for n, (text, compiled) in enumerate(edits, 1)]
    return with_calendars(JobHistory((of or job(),), 1), {"c": versions})


def fired(history: JobHistory, start: str, end: str) -> list[str]:
    """The local times of what fires; planning and index say the same."""
    found = [instant for _, instant in fires(history, at(start), at(end))]
    table = JobTable()
    table.follow((history,), at(start))
    assert expand_table(table.table, at(start), at(end)).times.tolist() == found
    return [text[5:16] for text in texts(found)]


def test_each_version_of_a_calendar_is_a_cut_of_the_same_version_of_the_job() -> None:
    history = applied(("2026-11-01T00:00:00Z", days(FRIDAY)), ("2026-11-27T12:00:30Z", days()))
    assert [(v.version, v.effective_from) for v in history.versions] == [(1, BEGIN), (1, at("2026-11-27T12:00:30Z"))]
    assert history.current.schedule is not AT_NINE
    assert history.planned_version == 1


def test_a_history_without_calendars_stays_the_same_object() -> None:
    history = JobHistory((replace(job(), calendars=None),), 1)
    assert CalendarApplier({}).applied(history) is history


def test_a_compact_history_is_left_as_the_job_is_and_stays_compact() -> None:
    tagged = replace(job(), tags=("x",), args=[1])
    applier = CalendarApplier({"c": [version(BEGIN, days(FRIDAY))]})
    small, whole = applier.applied(compact(tagged, 1)), applier.applied(JobHistory((tagged,), 1))
    assert small == whole
    assert small.schedule is whole.schedule
    assert isinstance(small, CompactHistory)
    assert not isinstance(whole, CompactHistory)


def test_before_its_first_version_a_calendar_is_what_that_says() -> None:
    history = applied(("2026-11-27T08:00:00Z", days(FRIDAY)))
    assert len(history.versions) == 1
    assert fired(history, "2026-11-26T00:00:00Z", "2026-11-29T00:00:00Z") == ["11-26T09:00", "11-28T09:00"]


def test_cuts_before_the_time_that_anybody_asks_for_are_left_out() -> None:
    edits = [version(BEGIN + n * DAY, days(FRIDAY + n), n) for n in range(40)]
    full, short = (
        CalendarApplier({"c": edits}, since).applied(JobHistory((job(),), 1)) for since in (BEGIN, BEGIN + 38 * DAY)
    )
    assert (len(full.versions), len(short.versions)) == (40, 2)
    assert short.versions[0].effective_from == BEGIN
    for start in range(BEGIN + 38 * DAY, END, 3 * DAY):
        assert [i for _, i in fires(short, start, start + DAY)] == [i for _, i in fires(full, start, start + DAY)]


def test_an_edit_of_the_job_that_is_still_to_be_planned_has_all_cuts_from_its_beginning_on() -> None:
    edits = [version(BEGIN, days(FRIDAY, SATURDAY)), version(at("2026-11-28T00:00:00Z"), days(), 2)]
    edited = JobHistory((job(), replace(job(), version=2, effective_from=at("2026-11-27T08:00:00Z"))), 1)
    read = CalendarApplier({"c": edits}, at("2026-11-28T12:00:00Z")).applied(edited)
    window = at("2026-11-27T08:00:00Z"), at("2026-11-29T00:00:00Z")
    assert [i for _, i in fires(read, *window)] == [i for _, i in fires(with_calendars(edited, {"c": edits}), *window)]


def test_jobs_of_one_schedule_and_calendar_share_one_closed_schedule() -> None:
    applier = CalendarApplier({"c": [version(BEGIN, days(FRIDAY))]})
    calendars = JobCalendars(("c",))
    first, second = (applier.applied(JobHistory((replace(job(calendars=calendars), job_id=name),), 1)) for name in "ab")
    assert first.current.schedule is second.current.schedule


NEXT, PREVIOUS = JobCalendars(("c",), (), "next_day"), JobCalendars(("c",), (), "previous_day")
WEEKDAYS = Weekly(0b1000001)  # the weekend


def test_h42_what_moved_forward_over_an_edit_still_fires_there_once() -> None:
    """v1 moves Saturday to Monday; on Sunday v2 takes the holiday out."""
    on_saturdays = job(cron("0 9 * * 6"), NEXT)
    edits = (("2026-11-01T00:00:00Z", days(SATURDAY, SUNDAY)), ("2026-11-29T12:00:00Z", days(SUNDAY)))
    found = fired(applied(*edits, of=on_saturdays), "2026-11-27T00:00:00Z", "2026-12-06T00:00:00Z")
    assert found == ["11-30T09:00", "12-05T09:00"]


def test_h42_it_fires_once_where_the_day_is_meant_itself_too() -> None:
    edits = (("2026-11-01T00:00:00Z", days(SATURDAY, SUNDAY)), ("2026-11-29T12:00:00Z", days(SUNDAY)))
    found = fired(applied(*edits), "2026-11-27T00:00:00Z", "2026-12-02T00:00:00Z")
    assert found == ["11-27T09:00", "11-30T09:00", "12-01T09:00"]


def test_h42_what_fired_is_not_moved_and_fired_again() -> None:
    """Friday fires at nine; at twelve v2 excludes Friday, and would move it to Monday."""
    on_fridays = job(cron("0 9,15 * * 5"), NEXT)
    edits = (("2026-11-01T00:00:00Z", days(SATURDAY, SUNDAY)), ("2026-11-27T12:00:00Z", days(FRIDAY, SATURDAY, SUNDAY)))
    found = fired(applied(*edits, of=on_fridays), "2026-11-27T00:00:00Z", "2026-12-03T00:00:00Z")
    assert found == ["11-27T09:00", "11-30T15:00"], "nine has fired, fifteen had not"


def test_h42_the_mirror_what_fired_on_the_previous_day_is_not_fired_again() -> None:
    """v1 moves Monday back to Friday, where it fires; on Sunday v2 takes the holiday out."""
    on_mondays = job(cron("0 9 * * 1"), PREVIOUS)
    edits = (("2026-11-01T00:00:00Z", days(SATURDAY, SUNDAY, MONDAY)), ("2026-11-29T12:00:00Z", days(SATURDAY, SUNDAY)))
    found = fired(applied(*edits, of=on_mondays), "2026-11-26T00:00:00Z", "2026-12-08T00:00:00Z")
    assert found == ["11-27T09:00", "12-07T09:00"]


def test_h42_the_mirror_what_neither_can_fire_is_left_out() -> None:
    """On Sunday v2 excludes Monday and would move it to Friday, which is past."""
    on_mondays = job(cron("0 9 * * 1"), PREVIOUS)
    edits = (("2026-11-01T00:00:00Z", days(SATURDAY, SUNDAY)), ("2026-11-29T12:00:00Z", days(SATURDAY, SUNDAY, MONDAY)))
    found = fired(applied(*edits, of=on_mondays), "2026-11-26T00:00:00Z", "2026-12-08T00:00:00Z")
    assert found == ["12-07T09:00"]


def test_h42_a_newer_version_moves_what_the_older_one_had_moved_further() -> None:
    """v1 moves Saturday to Sunday; on Saturday evening v2 excludes Sunday too."""
    on_saturdays = job(cron("0 9 * * 6"), NEXT)
    edits = (("2026-11-01T00:00:00Z", days(SATURDAY)), ("2026-11-28T20:00:00Z", days(SATURDAY, SUNDAY)))
    assert fired(applied(*edits, of=on_saturdays), "2026-11-27T00:00:00Z", "2026-12-02T00:00:00Z") == ["11-30T09:00"]


def test_h42_a_third_version_knows_what_the_first_one_fired() -> None:
    on_fridays = job(cron("0 9 * * 5"), NEXT)
    shut = days(FRIDAY, SATURDAY, SUNDAY)
    edits = (
        ("2026-11-01T00:00:00Z", days(SATURDAY, SUNDAY)), ("2026-11-27T12:00:00Z", shut),
        ("2026-11-27T15:00:00Z", Compiled("UTC", (*shut.days, NamedDays(MONDAY, MONDAY)))),
    )  # fmt: skip
    assert fired(applied(*edits, of=on_fridays), "2026-11-27T00:00:00Z", "2026-12-03T00:00:00Z") == ["11-27T09:00"]


def test_h42_an_edit_of_the_job_that_keeps_its_schedule_is_no_new_beginning() -> None:
    """Friday fires at nine; at twelve the job gets the calendar that excludes Friday."""
    first = replace(job(cron("0 9 * * 5")), calendars=None)
    second = replace(job(cron("0 9 * * 5"), NEXT), version=2, effective_from=at("2026-11-27T12:00:00Z"))
    versions = {"c": [version(BEGIN, days(FRIDAY))]}
    history = with_calendars(JobHistory((first, second), 2), versions)
    assert fired(history, "2026-11-27T00:00:00Z", "2026-12-03T00:00:00Z") == ["11-27T09:00"]


def test_h43_two_days_on_one_instant_are_one_run() -> None:
    edits = (("2026-11-01T00:00:00Z", days(SATURDAY, SUNDAY)),)
    found = fired(applied(*edits), "2026-11-28T00:00:00Z", "2026-12-01T00:00:00Z")
    assert found == ["11-30T09:00"]


def _plain_day(history: JobCalendars, of: Compiled, day: int) -> int | None:
    """The day that a day moves to, by walking."""
    closed = lambda n: is_closed_day(history, {"c": of}, EPOCH + timedelta(days=n))  # noqa: E731
    step = -1 if history.when_excluded == "previous_day" else 1
    for n in range(32):
        if not closed(day + n * step):
            return day + n * step
    return None


def _model(
    calendars: JobCalendars, edits: list[tuple[Instant, Compiled]], meant: list[int], until: Instant
) -> list[Instant]:
    """Each meant day with its one time of nine o'clock, followed through the edits one after the other."""
    found = set()
    for day in meant:
        own = day * DAY + 9 * HOUR
        fires_at: Instant | None = None
        for place, (start, compiled) in enumerate(edits):
            end = edits[place + 1][0] if place + 1 < len(edits) else until
            moved = _plain_day(calendars, compiled, day)
            alone = None if moved is None else moved * DAY + 9 * HOUR
            if place == 0 or (alone is not None and alone >= start):
                fires_at = alone
            elif fires_at is not None and not (fires_at >= start > own):
                fires_at = None
            if fires_at is not None and fires_at < end:
                if fires_at >= start:
                    found.add(fires_at)
                break
    return sorted(found)


@pytest.mark.parametrize("seed", range(30))
def test_each_day_fires_once_through_random_edits(seed: int) -> None:
    dice = Random(seed)
    calendars = dice.choice((NEXT, PREVIOUS))
    weekly = (Weekly(dice.choice((0, 0b1000001))),)
    edits = [(BEGIN, days())]
    for _ in range(dice.randint(1, 5)):
        moment = edits[-1][0] + dice.randint(1, 20 * 24 * 60) * MINUTE
        shut = [FRIDAY - 26 + n for n in range(90) if dice.random() < dice.choice((0.05, 0.4, 0.9))]
        edits.append((moment, Compiled("UTC", days(*shut).days, (), weekly)))
    own = dice.choice((cron("0 9 * * *"), cron("0 9 * * 1,5"), cron("0 9 13 * *")))
    start = BEGIN + REACH // 2
    meant = [n for n in range(BEGIN // DAY - 40, END // DAY + 40) if (n * DAY + 9 * HOUR) in set_of(own)]
    versions = [version(moment, compiled, n) for n, (moment, compiled) in enumerate(edits, 1)]
    history = with_calendars(JobHistory((job(own, calendars),), 1), {"c": versions})
    expected = [i for i in _model(calendars, edits, meant, END + 40 * DAY) if start <= i < END]
    assert texts(i for _, i in fires(history, start, END)) == texts(expected)


def set_of(schedule: Any) -> set[Instant]:
    return set(occurrences(schedule, BEGIN - 50 * DAY, END + 50 * DAY))


WORKDAYS = JobCalendars(workdays="c")
LAST, FIFTEENTH = cron("0 9 LW * *"), cron("0 9 15W * *")


def workday(*numbers: int) -> Any:
    spec = {"kind": "calendar", "unit": "month", "weekdays": ["workday"], "nth": numbers, "at": ["09:00"]}
    return schedule_of({**spec, "start": "2026-01-01"})


def december(*free: int) -> Compiled:
    return days(*(number(date(2026, 12, day)) for day in free))


@pytest.mark.parametrize(
    ("own", "before", "edited", "after", "expected"),
    [
        (LAST, [31], "30T12:00", [], ["12-30"]),  # ran on the 30th: not again on the 31st
        (LAST, [], "30T12:00", [31], ["12-31"]),  # the 30th is past: where it was
        (LAST, [], "30T08:00", [31], ["12-30"]),
        (LAST, [30, 31], "29T12:00", [31], ["12-29"]),
        (cron("0 9 30,LW * *"), [31], "30T12:00", [], ["12-30"]),
        (cron("0 9 30,LW * *"), [], "30T12:00", [31], ["12-30", "12-31"]),  # two days on one instant, one ran
        (FIFTEENTH, [15], "14T12:00", [], ["12-14"]),
        (FIFTEENTH, [14, 15], "15T12:00", [15], ["12-16"]),
        (cron("0 9 15W,16W * *"), [15], "15T12:00", [16], ["12-14", "12-16"]),
        (cron("0 9 L-3W * *"), [28], "28T12:00", [], ["12-29"]),
        (cron("0 9 LW * 3"), [31], "30T12:00", [], ["12-02", "12-09", "12-16", "12-23", "12-30"]),
        (cron("0 9 LW * 4"), [], "30T12:00", [31], ["12-03", "12-10", "12-17", "12-24", "12-31"]),
        (cron("0 9 LW * 5"), [], "20T12:00", [31], ["12-04", "12-11", "12-18", "12-25", "12-30"]),
        (cron("0 9 15W * 5"), [15], "14T12:00", [], ["12-04", "12-11", "12-14", "12-18", "12-25"]),
        (LAST, [], "20T12:00", list(range(1, 32)), []),  # a month without business days
        (workday(3), [], "03T12:00", [2], ["12-03"]),
        (workday(3), [2], "03T12:00", [], ["12-04"]),
        (workday(-2), [31], "29T12:00", [], ["12-29"]),
    ],
)
def test_a_day_that_business_days_decide_fires_once_over_an_edit(
    own: Any, before: list[int], edited: str, after: list[int], expected: list[str]
) -> None:
    edits = (("2026-11-01T00:00:00Z", december(*before)), (f"2026-12-{edited}:00Z", december(*after)))
    history = applied(*edits, of=job(own, WORKDAYS))
    found = fired(history, "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z")
    assert found == [f"{day}T09:00" for day in expected]


def test_a_business_day_that_is_closed_since_an_edit_is_not_kept_by_it() -> None:
    calendars = JobCalendars(("c",), workdays="c")
    edits = (("2026-11-01T00:00:00Z", december()), ("2026-12-30T12:00:00Z", december(31)))
    assert fired(applied(*edits, of=job(LAST, calendars)), "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z") == []


def test_what_an_edit_left_to_a_business_day_is_explained() -> None:
    def because(before: Compiled, after: Compiled) -> list[str]:
        edits = (("2026-11-01T00:00:00Z", before), ("2026-12-30T12:00:00Z", after))
        last, newest = at("2026-12-31T09:00:00Z"), applied(*edits, of=job(LAST, WORKDAYS)).current
        return [one.message for one in left_out_by(Version(newest, None), last) + stands_for(newest, last)]

    assert because(december(31), december()) == [
        "Its day ran before the calendars were changed, on the day that it had then; each day runs once."
    ]
    assert because(december(), december(31)) == [
        "Its day was here before the calendars were changed; where it is now was past by then. Each day runs once."
    ]


def test_a_job_whose_business_days_are_counted_by_a_calendar_from_now_on_keeps_what_ran() -> None:
    first = replace(job(LAST), calendars=None)
    second = replace(job(LAST, WORKDAYS), version=2, effective_from=at("2027-01-29T12:00:00Z"))
    sundays = Compiled("UTC", (), (), (Weekly(0b0000001),))
    history = with_calendars(JobHistory((first, second), 2), {"c": [version(BEGIN, sundays)]})
    found = fired(history, "2027-01-01T00:00:00Z", "2027-03-01T00:00:00Z")
    assert found == ["01-29T09:00", "02-27T09:00"], "a Friday, then a Saturday"


def _followed(edits: list[tuple[Instant, Compiled]], which: Any, until: Instant) -> list[Instant]:
    """The one time of each month and position, followed through the edits one after the other."""
    found = set()
    for month in (of_month(2026, 10), of_month(2026, 11), of_month(2026, 12), of_month(2027, 1), of_month(2027, 2)):
        fires_at: Instant | None = None
        for place, (start, free) in enumerate(edits):
            end = edits[place + 1][0] if place + 1 < len(edits) else until
            day = next(iter(which(free, month)), None)
            alone = None if day is None else number(day) * DAY + 9 * HOUR
            if place == 0 or alone is None or alone >= start:
                fires_at = alone
            if fires_at is not None and fires_at < end:
                if fires_at >= start:
                    found.add(fires_at)
                break
    return sorted(found)


@pytest.mark.parametrize("seed", range(12))
def test_each_position_of_a_month_fires_once_through_random_edits(seed: int) -> None:
    dice = Random(seed)
    edits = [(BEGIN, days())]
    for _ in range(dice.randint(1, 5)):
        moment = edits[-1][0] + dice.randint(1, 20 * 24 * 60) * MINUTE
        free = [FRIDAY - 66 + n for n in range(160) if dice.random() < dice.choice((0.05, 0.4, 0.9))]
        weekly = dice.choice(((), (Weekly(0b1000001),), (Weekly(0b0111110),)))
        edits.append((moment, Compiled("UTC", days(*free).days, (), weekly)))
    target, before_end, place = dice.randint(1, 31), dice.randint(1, 25), dice.choice((1, 3, 9, -1, -4, -11))
    for own, positions in (
        (cron(f"0 9 {target}W * *"), [lambda free, month: nearest(free, month, min(target, len(month)))]),
        (cron(f"0 9 L-{before_end}W * *"), [lambda free, month: nearest(free, month, len(month) - before_end)]),
        (workday(place, 2), [lambda free, month, n=n: nth(free, month, [n]) for n in (place, 2)]),
    ):  # fmt: skip
        versions = [version(moment, compiled, n) for n, (moment, compiled) in enumerate(edits, 1)]
        history = with_calendars(JobHistory((job(own, WORKDAYS),), 1), {"c": versions})
        found = texts(instant for _, instant in fires(history, BEGIN, END))
        expected = {i for which in positions for i in _followed(edits, which, END + 40 * DAY) if BEGIN <= i < END}
        assert found == texts(sorted(expected))
