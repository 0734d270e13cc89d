"""Equal values are read once, and only equal ones."""

import pytest

from scheduler_service.core.errors import BadValue
from scheduler_service.core.fields import read_retry
from scheduler_service.core.job_body import read_job


def test_jobs_that_say_the_same_share_their_schedule_and_policies() -> None:
    body = {"task": "t", "schedule": {"kind": "cron", "expr": "0 2 * * *"}, "retry": {"max_attempts": 3}}
    (one, _), (two, _) = (read_job({**body, "job_id": name}, made_at=0) for name in ("one", "two"))
    assert one.schedule_spec is two.schedule_spec
    assert one.schedule is two.schedule
    assert one.retry is two.retry


def test_a_hashed_line_is_each_job_s_own() -> None:
    body = {"task": "t", "schedule": {"kind": "cron", "expr": "H H * * *"}}
    (one, _), (two, _) = (read_job({**body, "job_id": name}, made_at=0) for name in ("one", "two"))
    assert one.schedule_spec != two.schedule_spec


@pytest.mark.parametrize("attempts", [True, 1.0, "1"])
def test_what_only_compares_equal_is_judged_for_itself(attempts: object) -> None:
    assert read_retry({"max_attempts": 1}, "retry").max_attempts == 1
    with pytest.raises(BadValue, match=r"retry\.max_attempts"):
        read_retry({"max_attempts": attempts}, "retry")
