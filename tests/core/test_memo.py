"""Equal values are read once, and only equal ones."""

import pytest

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import SECOND, parse_instant
from scheduler_service.core import memo
from scheduler_service.core.contract.fields import read_retry
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.schedules.spec_reading import month_start


def test_jobs_that_say_the_same_share_their_schedule_and_policies() -> None:
    body = {"task": "t", "schedule": {"kind": "cron", "expr": "0 2 * * *"}, "retry": {"max_attempts": 3}}
    (one, _), (two, _) = (read_job({**body, "job_id": name}, created_at=0) for name in ("one", "two"))
    assert one.schedule_spec is two.schedule_spec
    assert one.schedule is two.schedule
    assert one.retry is two.retry


def test_a_hashed_line_is_each_job_s_own() -> None:
    body = {"task": "t", "schedule": {"kind": "cron", "expr": "H H * * *"}}
    (one, _), (two, _) = (read_job({**body, "job_id": name}, created_at=0) for name in ("one", "two"))
    assert one.schedule_spec != two.schedule_spec


@pytest.mark.parametrize("attempts", [True, 1.0, "1"])
def test_what_only_compares_equal_is_judged_for_itself(attempts: object) -> None:
    assert read_retry({"max_attempts": 1}, "retry").max_attempts == 1
    with pytest.raises(BadValue, match=r"retry\.max_attempts"):
        read_retry({"max_attempts": attempts}, "retry")


def test_more_than_is_kept_is_still_read_rightly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "_MOST", 2)
    double = memo.shared(lambda value, word: [value, word])
    for _ in range(2):
        assert [double(n, "a") for n in range(5)] == [[n, "a"] for n in range(5)]
    assert double(4, "a") is double(4, "a")
    assert double(4, "b") == [4, "b"]


def test_what_is_refused_is_refused_each_time_it_is_said() -> None:
    for _ in range(2):
        with pytest.raises(BadValue, match=r"retry\.factor"):
            read_retry({"factor": 0}, "retry")


@pytest.mark.parametrize("bad", [{"args": 0}, {"args": ""}, {"kwargs": []}, {"kwargs": False}])
def test_what_is_empty_but_no_argument_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(BadValues, match=next(iter(bad))):
        read_job({"job_id": "a", "task": "t", "schedule": {"kind": "cron", "expr": "0 2 * * *"}, **bad}, created_at=0)


@pytest.mark.parametrize("text", ["a\x00", "\ud800", "x\udfff"])
def test_text_that_no_database_can_keep_is_refused(text: str) -> None:
    body = {"job_id": "a", "task": "t", "schedule": {"kind": "cron", "expr": "0 2 * * *"}}
    for field, value in (("title", text), ("description", text), ("tags", [text])):
        with pytest.raises(BadValues, match=field):
            read_job({**body, field: value}, created_at=0)
    assert read_job({**body, "title": "\ud7ff\ue000\U0001f600"}, created_at=0)[0].title == "\ud7ff\ue000\U0001f600"


@pytest.mark.parametrize(
    ("moment", "month"),
    [
        ("2026-11-01T00:00:00Z", "2026-11-01T00:00:00Z"),
        ("2026-11-30T23:59:59.999999Z", "2026-11-01T00:00:00Z"),
        ("2024-02-29T12:00:00Z", "2024-02-01T00:00:00Z"),
        ("1969-12-31T23:59:59Z", "1969-12-01T00:00:00Z"),
    ],
)
def test_a_month_begins_with_its_first_second(moment: str, month: str) -> None:
    assert month_start(parse_instant(moment)) * SECOND == parse_instant(month)
