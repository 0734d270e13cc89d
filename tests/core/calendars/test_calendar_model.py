"""Compiled calendars as they are stored, and what a job says of the calendars it names."""

import json

import pytest

from scheduler_service.core.calendars.model import Compiled, JobCalendars, NamedDays, NamedSpan, Weekly

DAYS = NamedDays(20_812, 20_813, "Christmas")
FULL = Compiled("Europe/Berlin", (DAYS,), (NamedSpan(10, 20, "Move"),), (Weekly(0b1000001, 0, 0, "Weekend"),), 22_000)


def test_a_compiled_calendar_is_read_back_from_its_json_as_the_same_value() -> None:
    for compiled in (FULL, Compiled("UTC")):
        assert Compiled.from_json(json.loads(json.dumps(compiled.to_json()))) == compiled


@pytest.mark.parametrize(
    ("compiled", "whole"),
    [
        (Compiled("UTC"), True),
        (Compiled("UTC", (DAYS,), (), (Weekly(1),)), True),
        (Compiled("UTC", (), (), (Weekly(1, 0, 3600),)), False),
        (FULL, False),
    ],
)
def test_whole_days_are_days_and_whole_weekdays_only(compiled: Compiled, whole: bool) -> None:
    assert compiled.whole_days is whole


def test_a_job_names_each_of_its_calendars_once() -> None:
    assert JobCalendars(("a", "b"), ("c", "a"), "skip", "b").ids == ("a", "b", "c")
    assert JobCalendars().ids == ()
