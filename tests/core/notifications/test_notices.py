"""Which facts somebody is told of, when, and in what words."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, parse_instant
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.model import Job, MissedRange
from scheduler_service.core.notifications.conditions import Pending, Running, ended, late, may_end, overlong
from scheduler_service.core.notifications.notices import (
    TOPICS,
    Named,
    Notice,
    Topic,
    Waiting,
    coalesced,
    ended_notices,
    messages,
    missed_range_notices,
    next_try,
    ready,
    to_report,
)
from scheduler_service.core.notifications.topics import CONDITIONS
from scheduler_service.core.run_state import Event, RunState

NOW = parse_instant("2026-11-28T02:00:00Z")
RUN = Named("r1", "billing.close", "billing.close_month")


def ending(run_id: str = "r1", to: RunState = RunState.FAILED, at: int = NOW, **more: Any) -> Transition:
    return Transition(run_id, 1, Event.MISS if to is RunState.MISSED else Event.FAIL, to, at, **more)


def notice(subject: str = "job", topic: Topic = Topic.RUN_FAILED, number: int = 1, at: int = NOW) -> Notice:
    return Notice(topic, subject, number, at, at, {"job_id": subject, "task": "t", "run_id": f"{subject}_{at}"})


@pytest.mark.parametrize("state", RunState)
def test_only_failed_and_missed_are_told(state: RunState) -> None:
    wanted = state in (RunState.FAILED, RunState.MISSED)
    assert bool(to_report([ending(to=state)], TOPICS)) is wanted
    assert to_report([ending(to=state)], frozenset({Topic.RUN_LATE})) == []


def test_a_notice_says_which_run_failed_and_why_but_not_its_traceback() -> None:
    change = ending(reason="r" * 1000, error={"type": "E", "message": "m" * 1000, "traceback": "secret"})
    (found,) = ended_notices([change], {"r1": RUN})
    assert (found.topic, found.subject, found.count) == (Topic.RUN_FAILED, "billing.close", 1)
    assert found.facts == {
        "job_id": "billing.close", "task": "billing.close_month", "run_id": "r1", "attempt": 1, "reason": "r" * 500,
        "error": {"type": "E", "message": "m" * 500},
    }  # fmt: skip


def test_a_job_and_a_task_of_one_name_are_two_subjects() -> None:
    runs = {"r1": Named("r1", "a", "a"), "r2": Named("r2", None, "a")}
    changes = [ending("r1"), ending("r2")]
    assert {n.subject for n in ended_notices(changes, runs)} == {"a", "task:a"}


def test_notices_of_one_subject_become_one_that_spans_them_and_says_the_last() -> None:
    first, last = notice(at=NOW), notice(at=NOW + 5)
    (one,) = coalesced([first, last])
    assert (one.count, one.first_at, one.last_at, one.facts) == (2, NOW, NOW + 5, last.facts)
    assert [n.subject for n in coalesced([notice("b"), notice("a")])] == ["a", "b"]


def test_a_gap_counts_all_its_occurrences() -> None:
    (found,) = missed_range_notices([MissedRange("job", NOW, NOW + HOUR, 60, "misfire fire_once: later than 30s")])
    assert (found.topic, found.count, found.first_at, found.last_at) == (Topic.RUN_MISSED, 60, NOW, NOW + HOUR)


def test_a_subject_is_quiet_for_its_time_and_a_topic_for_a_minute() -> None:
    waiting = [Waiting(notice("new"), None), Waiting(notice("told"), NOW - HOUR + 1)]
    assert [n.subject for n in ready(waiting, {}, NOW, HOUR)] == ["new"]
    assert [n.subject for n in ready(waiting, {}, NOW + 1, HOUR)] == ["new", "told"]
    just_reported = {Topic.RUN_FAILED: NOW - MINUTE + 1}
    assert ready(waiting, just_reported, NOW, HOUR) == []
    assert len(ready(waiting, just_reported, NOW + 1, HOUR)) == 2
    assert len(ready(waiting, {Topic.RUN_LATE: NOW}, NOW, HOUR)) == 1


def test_what_was_told_by_a_clock_that_ran_ahead_was_never_told() -> None:
    waiting = [Waiting(notice(), NOW + DAY)]
    assert len(ready(waiting, {Topic.RUN_FAILED: NOW + 1}, NOW, HOUR)) == 1
    assert ready(waiting, {Topic.RUN_FAILED: NOW}, NOW, HOUR) == []


def test_what_is_ready_is_one_message_a_topic_the_most_frequent_first() -> None:
    ids = count(1)
    found = [notice("a"), notice("b", number=3), notice("c", Topic.RUN_LATE)]
    failed, late_ones = messages(found, NOW, lambda: f"m{next(ids)}")
    assert (failed.message_id, failed.topic, late_ones.topic) == ("m1", Topic.RUN_FAILED, Topic.RUN_LATE)
    assert failed.body == {
        "type": "run.failed",
        "timestamp": "2026-11-28T02:00:00Z",
        "text": "4 runs failed for good (b, a)",
        "data": {
            "count": 4,
            "items": [
                {
                    "job_id": name, "task": "t", "run_id": f"{name}_{NOW}", "count": number,
                    "first_at": "2026-11-28T02:00:00Z", "last_at": "2026-11-28T02:00:00Z",
                }
                for name, number in (("b", 3), ("a", 1))
            ],
            "more": 0,
        },
    }  # fmt: skip


@pytest.mark.parametrize("topic", sorted(CONDITIONS))
def test_what_is_over_by_the_time_it_is_told_is_told_as_over(topic: Topic) -> None:
    present, past = notice("a", topic), replace(notice("b", topic), over=True)
    now, before, both = (
        messages(these, NOW, lambda: "m")[0].body for these in ((present,), (past,), (present, past))
    )  # fmt: skip
    assert both["text"] == f"{now['text'].removesuffix(' (a)')}; {before['text'].removesuffix(' (b)')} (a, b)"
    assert now["text"].removesuffix(" (a)") != before["text"].removesuffix(" (b)")
    assert [item.get("over") for item in both["data"]["items"]] == [None, True]
    assert both["data"]["count"] == 2


def test_a_message_of_many_subjects_names_fifty_and_counts_the_rest() -> None:
    (message,) = messages([notice(f"job-{n:03}") for n in range(60)], NOW, lambda: "m")
    assert (len(message.body["data"]["items"]), message.body["data"]["more"]) == (50, 10)
    assert message.body["data"]["count"] == len(message.notices) == 60
    assert message.body["text"] == "60 runs failed for good (job-000, job-001, job-002, ...)"


def test_tries_come_ever_later_for_a_day_and_then_no_more() -> None:
    at, pauses = NOW, []
    for attempts in count(1):
        following = next_try(attempts, NOW, at)
        if following is None:
            break
        pauses.append((following - at) // SECOND)
        at = following
    assert pauses[:7] == [10, 30, 90, 270, 810, 2430, 3600]
    assert set(pauses[7:]) == {3600}
    assert DAY - HOUR < at - NOW <= DAY


def test_a_run_is_late_once_it_was_due_for_longer_than_allowed() -> None:
    found = late([Pending(RUN, NOW - MINUTE), Pending(Named("r2", "billing.close", "t"), NOW - HOUR)], NOW, MINUTE)
    assert [(n.subject, n.count, n.facts["run_id"]) for n in found] == [("billing.close", 1, "r2")]


def test_a_run_is_overlong_at_four_fifths_of_its_timeout_or_where_it_has_none_after_the_setting() -> None:
    def is_long(ran: int, timeout: int | None) -> bool:
        return bool(overlong([Running(RUN, NOW - ran, timeout)], NOW, HOUR))

    assert is_long(81 * SECOND, 100 * SECOND)
    assert not is_long(80 * SECOND, 100 * SECOND)
    assert not is_long(2 * HOUR, 3 * HOUR)
    assert is_long(HOUR + 1, None)
    assert not is_long(HOUR, None)


def a_job(**fields: Any) -> Job:
    body = {"job_id": "j", "task": "t", "schedule": {"kind": "interval", "every": "25m"}, **fields}
    return read_job(body, created_at=NOW - DAY)[0]


CRON = {"kind": "cron", "expr": "0 2 * * *"}
ONCE = {"kind": "once", "at": "2026-11-27T12:00:00Z"}


@pytest.mark.parametrize(
    ("fields", "over"),
    [
        ({}, False),
        ({"schedule": CRON}, False),
        ({"end_at": "2026-11-28T02:25:00Z"}, False),
        ({"end_at": "2026-11-28T02:00:00Z"}, True),
        ({"schedule": CRON, "end_at": "2026-11-29T02:00:00Z"}, True),
        ({"schedule": {"kind": "cron", "expr": "0 2 * * * 0 2025"}}, True),
        ({"schedule": {"kind": "cron", "expr": "0 2 * * * 0 2030"}}, False),
        ({"schedule": ONCE}, False),
        ({"schedule": {"kind": "once", "at": "2026-11-26T12:00:00Z"}}, True),
        ({"schedule": {"kind": "once", "at": "2026-12-26T12:00:00Z"}}, False),
        (
            {"schedule": {"kind": "interval", "every": "25m", "balanced": True}, "end_at": "2027-01-01T00:00:00Z"},
            False,
        ),
    ],
)
def test_a_job_has_ended_when_nothing_is_left_of_its_schedule(fields: dict[str, Any], over: bool) -> None:
    job = a_job(**fields)
    found = ended([job], NOW)
    assert [n.subject for n in found] == (["j"] if over else [])
    if over:
        assert ended([replace(job, paused=True)], NOW) == []
        assert may_end({"schedule": job.schedule_spec, "end_at": fields.get("end_at")})


def test_a_job_that_cannot_end_need_not_be_parsed() -> None:
    assert not may_end({"schedule": CRON, "end_at": None})
    assert not may_end({"schedule": {"kind": "interval", "every": "25m"}})
