"""Schedules by picking: each choice makes the spec whose times it names, and says which choice is missing."""

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import format_instant, parse_instant
from scheduler_service.api.pages.csrf import Form
from scheduler_service.api.pages.picking import BLANK, LABELS, picked
from scheduler_service.core.schedules.schedule import parse_schedule, upcoming

NOW = parse_instant("2026-11-29T12:00:00Z")  # a Sunday


def form(**choices: str) -> Form:
    return Form(list({**BLANK, **{f"pick.{name}": value for name, value in choices.items()}}.items()))


@pytest.mark.parametrize(
    ("choices", "coming"),
    [
        ({"what": "every", "every": "45"}, ["2026-11-29T12:45:00Z", "2026-11-29T13:30:00Z"]),
        (
            {"what": "within", "every": "90", "from": "14:00", "until": "17:00"},
            ["2026-11-30T14:00:00Z", "2026-11-30T15:30:00Z", "2026-12-01T14:00:00Z"],
        ),
        ({"what": "daily", "at": "09:05"}, ["2026-11-30T09:05:00Z", "2026-12-01T09:05:00Z"]),
        ({"what": "daily", "at": "09:05", "timezone": "Asia/Tokyo"}, ["2026-11-30T00:05:00Z", "2026-12-01T00:05:00Z"]),
        (
            {"what": "weekly", "at": "02:00", "mon": "", "tue": "", "wed": "", "thu": ""},
            ["2026-12-04T02:00:00Z", "2026-12-11T02:00:00Z"],
        ),
        ({"what": "monthly", "day": "31"}, ["2026-12-31T02:00:00Z", "2027-01-31T02:00:00Z", "2027-03-31T02:00:00Z"]),
        ({"what": "monthly", "day": "last"}, ["2026-11-30T02:00:00Z", "2026-12-31T02:00:00Z"]),
        ({"what": "nth", "nth": "2", "weekday": "tue"}, ["2026-12-08T02:00:00Z", "2027-01-12T02:00:00Z"]),
        ({"what": "nth", "nth": "last", "weekday": "sun"}, ["2026-12-27T02:00:00Z", "2027-01-31T02:00:00Z"]),
        ({"what": "business", "at": "18:00"}, ["2026-11-30T18:00:00Z", "2026-12-31T18:00:00Z", "2027-01-29T18:00:00Z"]),
    ],
)
def test_each_choice_makes_the_times_that_it_names(choices: dict[str, str], coming: list[str]) -> None:
    schedule = parse_schedule(picked(form(**choices)), job_id="j", created_at=NOW).schedule
    assert [format_instant(at) for at in upcoming(schedule, NOW, len(coming))] == coming


@pytest.mark.parametrize(
    ("choices", "field"),
    [
        ({"what": "every", "every": "0"}, "every"),
        ({"what": "every", "every": "1441"}, "every"),
        ({"what": "every", "every": "\u0663"}, "every"),
        ({"what": "daily", "at": ""}, "at"),
        ({"what": "daily", "at": "24:00"}, "at"),
        ({"what": "within", "until": "9"}, "until"),
        ({"what": "weekly", **dict.fromkeys(("mon", "tue", "wed", "thu", "fri"), "")}, "weekdays"),
        ({"what": "monthly", "day": "32"}, "day"),
        ({"what": "nth", "nth": "5"}, "nth"),
        ({"what": "nth", "weekday": "x"}, "weekday"),
        ({"what": "yearly"}, "what"),
    ],
)
def test_a_choice_that_is_missing_or_wrong_is_named(choices: dict[str, str], field: str) -> None:
    with pytest.raises(BadValue) as refused:
        picked(form(**choices))
    assert refused.value.field == f"schedule.{field}"
    assert f"pick.{field}" in LABELS
