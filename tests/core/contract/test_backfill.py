"""Backfill on paper: which occurrences of a window run, which do not and why, in which order and under which keys."""

from dataclasses import replace
from typing import Any

import pytest

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import DAY, HOUR, SECOND, Instant, format_instant, parse_instant
from scheduler_service.core.contract.backfill import (
    Known,
    PastRun,
    Window,
    backfill_body,
    backfill_runs,
    occurrences_of,
    plan_backfill,
    read_window,
)
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.model import Job, Overlap, RunKind
from scheduler_service.core.run_state import ACTIVE, FINAL, RunState

MADE = parse_instant("2026-11-01T00:00:00Z")
NOW = parse_instant("2026-11-28T12:00:00Z")
DAILY = {"kind": "cron", "expr": "0 2 * * *"}


def a_job(schedule: dict[str, Any] = DAILY, **fields: Any) -> Job:
    body = {"job_id": "a.job", "task": "t", "schedule": schedule, **fields}
    return replace(read_job(body, created_at=MADE)[0], created_at=MADE)


def window(start: str, end: str) -> Window:
    return Window(parse_instant(start), parse_instant(end))


def texts(times: list[Instant]) -> list[str]:
    return [format_instant(at) for at in times]


@pytest.mark.parametrize(
    ("schedule", "start", "end", "expected"),
    [
        (DAILY, "2026-11-02T02:00:00Z", "2026-11-04T02:00:00Z", ["2026-11-02T02:00:00Z", "2026-11-03T02:00:00Z"]),
        # The night when the clocks go forward: 02:30 is not, and runs once, right after the gap.
        (
            {"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin"},
            "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z",
            ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        ),
        # The night when they go back: 02:30 is twice, and runs in the first pass.
        (
            {"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin"},
            "2026-10-25T00:00:00Z", "2026-10-26T00:00:00Z", ["2026-10-25T00:30:00Z"],
        ),
        (
            {"kind": "hourly", "minute": 30, "timezone": "Europe/Berlin"},
            "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z",
            ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"],
        ),
        (
            {"kind": "interval", "every": "6h", "anchor": "2026-11-01T01:00:00Z"},
            "2026-10-31T00:00:00Z", "2026-11-01T08:00:00Z", ["2026-11-01T01:00:00Z", "2026-11-01T07:00:00Z"],
        ),
        (
            {"kind": "calendar", "every": 1, "unit": "month", "days": [-1], "at": ["05:30"], "start": "2024-01-01"},
            "2024-02-01T00:00:00Z", "2024-04-01T00:00:00Z", ["2024-02-29T05:30:00Z", "2024-03-31T05:30:00Z"],
        ),
        (
            {"kind": "once", "at": "2026-11-02T00:00:00.5Z"},
            "2026-11-02T00:00:00Z", "2026-11-03T00:00:00Z", ["2026-11-02T00:00:00.5Z"],
        ),
        ({"kind": "interval", "every": "1h"}, "2026-10-01T00:00:00Z", "2026-10-02T00:00:00Z", []),
    ],
)  # fmt: skip
def test_a_window_holds_what_the_schedule_names_from_its_start_and_before_its_end(
    schedule: dict[str, Any], start: str, end: str, expected: list[str]
) -> None:
    assert texts(occurrences_of(a_job(schedule), window(start, end))) == expected


def test_the_bounds_of_the_job_hold() -> None:
    bounded = a_job(start_at="2026-11-03T02:00:00Z", end_at="2026-11-05T02:00:00Z")
    found = occurrences_of(bounded, window("2026-11-01T00:00:00Z", "2026-11-09T00:00:00Z"))
    assert texts(found) == ["2026-11-03T02:00:00Z", "2026-11-04T02:00:00Z"]


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("2026-11-01T16:41:00Z", "1,001 occurrences, and 1,000 is the most at once: end it at 2026-11-01T16:40:00Z"),
        ("2026-11-28T00:00:00Z", "holds 38,880 occurrences"),
    ],
)  # fmt: skip
def test_a_window_with_too_many_is_refused_with_their_number_and_an_end_that_would_do(end: str, said: str) -> None:
    minutely = a_job({"kind": "cron", "expr": "* * * * *"})
    with pytest.raises(BadValue, match=said) as refused:
        occurrences_of(minutely, window("2026-11-01T00:00:00Z", end))
    assert refused.value.field == "to"
    assert len(occurrences_of(minutely, window("2026-11-01T00:00:00Z", "2026-11-01T16:40:00Z"))) == 1000


@pytest.mark.parametrize("schedule", [{"kind": "cron", "expr": "* * * * * *"}, {"kind": "interval", "every": "1s"}])
def test_a_window_of_centuries_is_refused_at_once(schedule: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match="more than 100,000"):
        occurrences_of(a_job(schedule), window("0001-01-01T00:00:00Z", "2030-01-01T00:00:00Z"))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"to": "2026-11-02T00:00:00Z"}, ["from"]),
        ({"from": "2026-11-02T00:00:00Z"}, ["to"]),
        ({"from": "yesterday", "to": 5}, ["from", "to"]),
        ({"from": "2026-11-02T00:00:00Z", "to": "2026-11-02T00:00:00Z"}, ["from"]),
        ({"from": "2026-11-02T00:00:00Z", "to": "2026-11-28T12:00:00.000001Z"}, ["to"]),
        ({"from": "2026-11-02T00:00:00Z", "to": "2026-11-03T00:00:00Z", "overlap": "skip"}, ["overlap"]),
        ({"from": "2026-11-02T00:00:00Z", "to": "2026-11-03T00:00:00Z", "overlap": ["allow"]}, ["overlap"]),
        ({"from": "2026-11-02T00:00:00Z", "to": "2026-11-03T00:00:00Z", "dry_run": "yes"}, ["dry_run"]),
        ({"from": "2026-11-02T00:00:00Z", "to": "2026-11-03T00:00:00Z", "dryrun": True}, ["dryrun"]),
    ],
)
def test_a_request_that_cannot_be_is_refused_by_its_fields(body: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(BadValues) as refused:
        read_window(body, NOW)
    assert [error.field for error in refused.value.errors] == said


def test_what_is_not_said_takes_its_default() -> None:
    read = read_window({"from": "2026-11-02T01:00:00+01:00", "to": "2026-11-28T12:00:00Z"}, NOW)
    assert read == Window(parse_instant("2026-11-02T00:00:00Z"), NOW, Overlap.QUEUE_ALL, dry_run=False)


AT = parse_instant("2026-11-02T02:00:00Z")
ONE_DAY = window("2026-11-02T00:00:00Z", "2026-11-03T00:00:00Z")


def a_run(name: str, state: RunState, at: Instant = AT, retry_of: str | None = None) -> PastRun:
    return PastRun(name, at, state, retry_of)


def planned(known: Known, job: Job | None = None, asked: Window = ONE_DAY) -> dict[str, Any]:
    chosen = job or a_job()
    return backfill_body(
        plan_backfill(chosen, replace(asked, dry_run=True), occurrences_of(chosen, asked), known), (), ()
    )


@pytest.mark.parametrize("state", sorted(FINAL - {RunState.COMPLETED}))
def test_what_ended_without_completing_is_run_again_and_says_so(state: RunState) -> None:
    plan = plan_backfill(a_job(), ONE_DAY, [AT], Known([a_run("first", state)]))
    (made,) = backfill_runs(plan, ["u"])
    assert (made.retry_of, made.scheduled_at) == ("first", AT)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (RunState.COMPLETED, "completed"), (RunState.SCHEDULED, "planned"), (RunState.PENDING, "active"),
        (RunState.RUNNING, "active"), (RunState.RETRYING, "active"),
    ],
)  # fmt: skip
def test_what_completed_or_is_on_its_way_is_left_out_whichever_of_its_runs_that_is(state: RunState, why: str) -> None:
    assert state in ACTIVE | {RunState.COMPLETED}
    failed = a_run("first", RunState.FAILED)
    by_hand = a_run("third", state, AT + DAY, retry_of="second")
    chain = [a_run("second", RunState.FAILED, AT + HOUR, retry_of="first"), by_hand]
    for known in (Known([a_run("first", state)]), Known([failed, a_run("again", state)]), Known([failed], chain)):
        said = planned(known)
        assert (said["occurrences"], said["runs"], said["left_out"][why]) == (1, 0, 1)
        assert sum(said["left_out"].values()) == 1


def test_what_somebody_ran_again_of_another_time_is_nothing_to_this_one() -> None:
    other = a_run("third", RunState.COMPLETED, AT + DAY, retry_of="of another occurrence")
    assert planned(Known([a_run("first", RunState.FAILED)], [other]))["runs"] == 1


def test_what_a_leader_is_still_to_decide_on_is_left_to_it() -> None:
    two_days = window("2026-11-02T00:00:00Z", "2026-11-04T00:00:00Z")
    said = planned(Known(planned_until=AT + DAY), asked=two_days)
    assert (said["first"], said["left_out"]) == ([format_instant(AT)], {"completed": 0, "active": 0, "planned": 1})


def test_where_history_was_pruned_nobody_knows_what_ran_and_it_is_refused() -> None:
    with pytest.raises(BadValue, match="begin there") as refused:
        planned(Known(pruned_until=AT + SECOND))
    assert refused.value.field == "from"
    assert planned(Known(pruned_until=AT))["runs"] == 1, "nothing of the window was pruned"
    younger = replace(a_job(), created_at=AT + 1)
    assert planned(Known(pruned_until=AT + SECOND), younger)["runs"] == 1, "it had no runs then"


def test_runs_are_made_in_the_order_of_their_times_with_the_jobs_own_definition() -> None:
    month = window("2026-11-02T00:00:00Z", "2026-11-28T00:00:00Z")
    job = a_job(
        args=[1], kwargs={"a": 2}, queue="q", priority=2, retry={"max_attempts": 3}, timeout="5m", overlap="skip"
    )
    plan = plan_backfill(job, month, occurrences_of(job, month), Known())
    made = backfill_runs(plan, [f"{26 - n:04}" for n in range(26)])
    times = [run.scheduled_at for run in made]
    assert times == sorted(times) == occurrences_of(job, month)
    assert [run.run_id for run in made] == sorted(run.run_id for run in made)
    assert [run.idempotency_key for run in sorted(made, key=lambda run: str(run.idempotency_key))] == [
        run.idempotency_key for run in made
    ]
    first = made[0]
    assert (first.kind, first.due_at, first.overlap) == (RunKind.MANUAL, 0, Overlap.QUEUE_ALL)
    assert (first.args, first.kwargs, first.queue, first.priority) == ([1], {"a": 2}, "q", 2)
    assert (first.retry.max_attempts, first.timeout, first.job_version) == (3, 300 * SECOND, job.version)


def test_a_key_is_made_of_what_was_known() -> None:
    """So that who sees the same makes the same, and who sees a failure makes another."""

    def key(*runs: PastRun) -> str | None:
        (made,) = backfill_runs(plan_backfill(a_job(), ONE_DAY, [AT], Known(runs)), ["u"])
        return made.idempotency_key

    failed = [a_run(name, RunState.FAILED) for name in ("one", "two")]
    assert key() == key() == "backfill:2026-11-02T02:00:00Z:a.job"
    assert len({key(), key(*failed[:1]), key(*failed)}) == 3


@pytest.mark.parametrize(
    ("overlap", "said"),
    [
        ("skip", "are skipped:"), ("queue", "are skipped while"), ("queue_all", "wait behind"),
        ("cancel_running", "cancel the one"),
    ],
)  # fmt: skip
def test_what_becomes_of_the_jobs_own_occurrences_meanwhile_is_said(overlap: str, said: str) -> None:
    (warning,) = planned(Known(), a_job(overlap=overlap))["warnings"]
    assert said in warning
    assert planned(Known(), replace(a_job(overlap=overlap), paused=True))["warnings"] == []
    assert planned(Known(), a_job(overlap="allow"))["warnings"] == []


def test_a_window_without_occurrences_says_when_the_first_one_is() -> None:
    empty = window("2026-10-01T00:00:00Z", "2026-10-02T00:00:00Z")
    (warning,) = planned(Known(), a_job({"kind": "interval", "every": "1h"}), empty)["warnings"]
    assert warning.endswith("no occurrence in this window; the first one is 2026-11-01T01:00:00Z")
    (warning,) = planned(Known(), a_job({"kind": "interval", "every": "1h", "balanced": True}), empty)["warnings"]
    assert warning.endswith("no occurrence in this window")


def test_what_somebody_else_made_in_the_same_moment_is_not_counted_as_made() -> None:
    plan = plan_backfill(a_job(), ONE_DAY, [AT], Known())
    said = backfill_body(plan, (), ())
    assert (said["runs"], said["left_out"]) == (0, {"completed": 0, "active": 0, "planned": 1})
