"""A job's sentence names its calendars: without them it would claim days on which nothing runs."""

from dataclasses import replace

import pytest

from scheduler_service.core.calendars.model import JobCalendars
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.contract.job_words import job_sentence

CRON = {"kind": "cron", "expr": "0 9 * * *"}
NTH = {"kind": "calendar", "every": 1, "unit": "month", "weekdays": ["workday"], "nth": [-1], "at": ["09:00"]}


@pytest.mark.parametrize(
    ("schedule", "calendars", "words"),
    [
        (CRON, None, "At 09:00 (UTC)"),
        (CRON, JobCalendars(exclude=("de", "fr")), "At 09:00 (UTC), except in de and fr"),
        (CRON, JobCalendars(only=("a", "b")), "At 09:00 (UTC), only in a or b"),
        (
            CRON, JobCalendars(exclude=("de",), when_excluded="next_day"),
            "At 09:00 (UTC), except in de, what falls on a closed day runs on the next open one",
        ),
        (
            NTH, JobCalendars(workdays="de"), "Every month on the last working day at 09:00 (UTC), working days by de",
        ),
        (
            {"kind": "any", "of": [CRON, {**CRON, "expr": "0 10 * * *"}]}, JobCalendars(exclude=("de",)),
            "At 09:00 (UTC); or at 10:00 (UTC); all of this except in de",
        ),
        (NTH, None, "Every month on the last working day (Monday to Friday) at 09:00 (UTC)"),
    ],
)  # fmt: skip
def test_calendars_are_named_in_the_sentence(schedule: object, calendars: JobCalendars | None, words: str) -> None:
    job, _ = read_job({"job_id": "a", "task": "t", "schedule": schedule}, created_at=0)
    assert job_sentence(replace(job, calendars=calendars)) == words
