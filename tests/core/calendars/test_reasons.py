"""Which calendar closes a job, and by which name: what a preview marks and an explanation says."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from itinerary.protocol.instants import DAY, HOUR
from scheduler_service.core.calendars.closing import Applied, closed_by
from scheduler_service.core.calendars.model import Compiled, JobCalendars, NamedDays, NamedSpan, Weekly
from scheduler_service.core.calendars.reasons import LeftOut, Reason, closed_at, left_out, moved_from
from scheduler_service.core.explain.explanation import Verdict
from scheduler_service.core.schedules.schedule import occurrences
from tests.support.calendar_model import is_closed, random_calendar, random_calendars
from tests.support.explained import asked, facts, run, version, words
from tests.support.moments import at, cron

FRIDAY = 20_784  # 2026-11-27
WEEKEND = Compiled("UTC", (NamedDays(FRIDAY, FRIDAY, "Bridge day"),), (), (Weekly(0b1000001, name="Weekend"),))
NIGHT = Compiled("UTC", (), (NamedSpan(at("2026-11-27T09:30:00Z"), at("2026-11-27T10:30:00Z"), "Move"),))
OF = {"free": WEEKEND, "busy": NIGHT}


def test_each_closed_instant_has_a_reason_and_no_open_one() -> None:
    for seed in range(30):
        dice = Random(seed)
        moment = at("2026-11-27T09:00:00Z") + dice.randrange(90 * DAY)
        of = {name: random_calendar(dice, "Europe/Berlin", moment, whole=False) for name in "ab"}
        calendars = random_calendars(dice, ["a", "b"], "skip")
        for instant in range(moment - 3 * DAY, moment + 3 * DAY, 7 * HOUR):
            assert (closed_at(Applied(calendars, of), instant) is not None) is is_closed(calendars, of, instant)


def test_what_is_left_out_is_marked_with_calendar_and_name() -> None:
    start, end = FRIDAY * DAY, (FRIDAY + 1) * DAY
    found = left_out(closed_by(cron("0 9,10,11 * * *"), JobCalendars(("busy",)), OF), start, end, 10)
    assert found == [LeftOut(at("2026-11-27T10:00:00Z"), Reason(("busy",), "Move"))]
    outside = left_out(closed_by(cron("0 9,10,11 * * *"), JobCalendars((), ("busy",)), OF), start, end, 1)
    assert [str(one.because) for one in outside] == ["outside calendar busy"]


def test_what_moves_is_marked_with_the_day_it_moves_to_and_what_it_meets_with_the_days_it_stands_for() -> None:
    schedule = closed_by(cron("0 9 * * *"), JobCalendars(("free",), (), "next_day"), OF)
    found = left_out(schedule, FRIDAY * DAY, (FRIDAY + 4) * DAY, 10)
    assert [(one.at // DAY - FRIDAY, one.because.name, one.moved_to) for one in found] == [
        (0, "Bridge day", FRIDAY + 3), (1, "Weekend", FRIDAY + 3), (2, "Weekend", FRIDAY + 3),
    ]  # fmt: skip
    stands = moved_from(schedule, (FRIDAY + 3) * DAY + 9 * HOUR)
    assert [(one.day - FRIDAY, str(one.because)) for one in stands] == [
        (0, "in calendar free (Bridge day)"), (1, "in calendar free (Weekend)"), (2, "in calendar free (Weekend)"),
    ]  # fmt: skip
    assert moved_from(schedule, (FRIDAY + 4) * DAY + 9 * HOUR) == []


def explained(when: str, calendars: dict[str, Any], of: dict[str, Compiled] = OF, **known: Any) -> tuple[Verdict, str]:
    """The explanation of an occurrence of a job at 9 and 10 each day, by its closed schedule."""
    plain = version(schedule={"kind": "cron", "expr": "0 9,10 * * *"}, calendars=calendars)
    assert plain.job.calendars is not None
    schedule = closed_by(plain.job.schedule, plain.job.calendars, OF)
    holding = replace(plain, job=replace(plain.job, schedule=schedule))
    found = asked(facts(holding, now=at("2026-12-10T00:00:00Z"), **known), at(when))
    return found.verdict, words(found)


MOVED = {"exclude": ["free"], "when_excluded": "next_day"}


def test_an_explanation_names_the_calendar_and_the_day() -> None:
    verdict, text = explained("2026-11-27T10:00:00Z", {"exclude": ["busy"]})
    assert verdict is Verdict.CLOSED
    assert "it is in calendar busy (Move)" in text
    verdict, text = explained("2026-11-28T09:00:00Z", MOVED)
    assert verdict is Verdict.CLOSED
    assert "in calendar free (Weekend)" in text
    assert "Its day moved to Monday, 2026-11-30." in text


def test_the_run_of_a_day_that_others_move_to_says_for_which_it_stands() -> None:
    done = run(scheduled_at=at("2026-11-30T09:00:00Z"))
    _, text = explained("2026-11-30T09:00:00Z", MOVED, run=done)
    assert "It stands for Saturday, 2026-11-28, which is in calendar free (Weekend)." in text


@pytest.mark.parametrize("calendars", [MOVED, {"exclude": ["busy"]}])
def test_what_the_schedule_does_not_name_is_no_matter_of_calendars(calendars: dict[str, Any]) -> None:
    assert explained("2026-11-28T08:00:00Z", calendars)[0] is Verdict.NEVER_DUE


def test_what_moves_moves_to_what_fires() -> None:
    own, calendars = cron("30 9 * * *"), JobCalendars(("free",), (), "previous_day")
    schedule = closed_by(own, calendars, OF)
    start, end = (FRIDAY - 30) * DAY, (FRIDAY + 30) * DAY
    fired = {instant // DAY for instant in occurrences(schedule, start, end)}
    targets = {one.moved_to for one in left_out(schedule, start, end, 1_000)}
    assert targets <= fired
