"""The calendars of a job as JSON, and which schedules can have which part of them."""

from typing import Any

import pytest

from itinerary.protocol.errors import BadValues
from scheduler_service.core.calendars.model import JobCalendars
from scheduler_service.core.contract.job_json import definition_of, read_job

CRON = {"kind": "cron", "expr": "0 9 * * *"}
MONTHS = {"kind": "calendar", "unit": "month", "weekdays": ["workday"], "nth": [3, -1]}
INTERVAL = {"kind": "interval", "every": "1h"}


def body(calendars: Any, schedule: dict[str, Any] = CRON) -> dict[str, Any]:
    return {"job_id": "a", "task": "t", "schedule": schedule, "calendars": calendars}


@pytest.mark.parametrize(
    ("calendars", "schedule", "expected"),
    [
        ({"exclude": ["a", "a", "b"]}, INTERVAL, JobCalendars(("a", "b"))),
        ({"only": ["a"], "exclude": [], "when_excluded": None}, CRON, JobCalendars((), ("a",))),
        ({"exclude": ["a"], "when_excluded": "next_day"}, CRON, JobCalendars(("a",), (), "next_day")),
        ({"workdays": "a"}, {"kind": "cron", "expr": "0 9 LW * *"}, JobCalendars(workdays="a")),
        ({"workdays": "a", "exclude": None}, MONTHS, JobCalendars(workdays="a")),
        (None, CRON, None),
    ],
)
def test_what_is_read_is_written_so_that_it_is_read_as_the_same(calendars: Any, schedule: Any, expected: Any) -> None:
    job, _ = read_job(body(calendars, schedule), created_at=0)
    assert job.calendars == expected
    again, third = (read_job(definition_of(job), created_at=0)[0] for _ in range(2))
    assert again.calendars == job.calendars
    assert again.calendars is third.calendars, "a hundred thousand jobs share it"


@pytest.mark.parametrize(
    ("calendars", "schedule", "field"),
    [
        ("holidays", CRON, "calendars"),
        ({}, CRON, "calendars"),
        ({"exclude": [], "only": []}, CRON, "calendars"),
        ({"exclude": "a"}, CRON, "calendars.exclude"),
        ({"exclude": [1]}, CRON, "calendars.exclude.0"),
        ({"exclude": ["a b"]}, CRON, "calendars.exclude.0"),
        ({"exclude": [f"a{n}" for n in range(21)]}, CRON, "calendars.exclude"),
        ({"exclude": ["a"], "only": ["b", "a"]}, CRON, "calendars.only"),
        ({"exclude": ["a"], "when_excluded": "later"}, CRON, "calendars.when_excluded"),
        ({"exclude": ["a"], "when_excluded": ["skip"]}, CRON, "calendars.when_excluded"),
        *(
            ({"exclude": ["a"], "when_excluded": falsy}, CRON, "calendars.when_excluded")
            for falsy in ([], "", 0, False)
        ),
        ({"workdays": "a", "when_excluded": "next_day"}, CRON, "calendars.when_excluded"),
        ({"exclude": ["a"], "when_excluded": "next_day"}, INTERVAL, "calendars.when_excluded"),
        (
            {"exclude": ["a"], "when_excluded": "previous_day"},
            {**INTERVAL, "balanced": True},
            "calendars.when_excluded",
        ),
        ({"workdays": ""}, MONTHS, "calendars.workdays"),
        ({"workdays": "a"}, CRON, "calendars.workdays"),
        ({"workdays": "a"}, INTERVAL, "calendars.workdays"),
        ({"workdays": "a"}, {"kind": "calendar", "unit": "week"}, "calendars.workdays"),
        ({"workdays": "a"}, {"kind": "calendar", "unit": "month", "days": [1]}, "calendars.workdays"),
        ({"workdays": "a"}, {**MONTHS, "weekdays": ["fri"]}, "calendars.workdays"),
        ({"exclude": ["a"], "until": 1}, CRON, "calendars.until"),
    ],
)
def test_a_wrong_value_is_named(calendars: Any, schedule: Any, field: str) -> None:
    with pytest.raises(BadValues) as caught:
        read_job(body(calendars, schedule), created_at=0)
    assert [error.field for error in caught.value.errors] == [field]
