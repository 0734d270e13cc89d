"""What the client takes from a Python program and gives back: values of any type, results with every field."""

import dataclasses
import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, get_type_hints
from uuid import UUID

import pytest
from celery import Celery, chain

from itinerary import Client, NoAnswer
from itinerary.client import results
from itinerary.client.results import Answer, Job, JobPage, Run
from itinerary.client.run_body import run_body
from itinerary.client.waiting import FINAL_STATES
from itinerary.protocol.errors import BadValue, BadValues
from scheduler_service.core.run_state import FINAL
from tests.support.processes import REPOSITORY

SCHEMAS: dict[str, Any] = json.loads((REPOSITORY / "scheduler_service/api/openapi.json").read_text())["components"][
    "schemas"
]
OUTSIDE = {
    "AuditEntry": "AuditOut", "Backfill": "BackfillOut", "Because": "BecauseOut", "Distribution": "DistributionOut",
    "Explanation": "ExplanationOut", "Job": "JobOut", "Plan": "PlanOut", "Queue": "QueueOut",
    "BrowserSession": "SessionOut", "ShareLink": "ShareLinkOut", "Freeze": "FreezeOut", "Limit": "LimitOut",
    "Log": "LogOut", "View": "ViewOut",
    "Calendar": "CalendarOut", "CalendarVersion": "CalendarVersionOut", "ZoneDiff": "ZoneDiffOut",
    "Rate": "RateOut", "Bounds": "BoundsOut", "Run": "RunOut",
    "BulkOperation": "BulkOut", "BulkPlan": "BulkPlanOut", "Rebalance": "RebalanceOut", "RebalancePlan": "PreviewOut",
    "Trends": "TrendsOut", "RunCalendar": "RunCalendarOut",
}  # fmt: skip
KINDS = [kind for name in results.__all__ if dataclasses.fields(kind := getattr(results, name))[1:]]
CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
WEST = timezone(timedelta(hours=-5))
app = Celery("shop", broker="memory://", set_as_current=False)


@app.task(name="shop.add")
def add(x: int, y: int) -> int:
    return x + y


def schema_of(kind: type[Answer]) -> dict[str, Any]:
    """The schema of a result; a monitor's is that of the answers to a read and to a change together."""
    if kind.__name__ != "Monitor":
        found: dict[str, Any] = SCHEMAS[OUTSIDE.get(kind.__name__, kind.__name__)]
        return found
    read, saved = SCHEMAS["MonitorOut"], SCHEMAS["MonitorSaved"]
    always = sorted(set(read["required"]) & set(saved["required"]))
    return {"properties": {**read["properties"], **saved["properties"]}, "required": always}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_result_has_every_field_of_the_document_and_no_other(kind: type[Answer]) -> None:
    schema = schema_of(kind)
    named = {each.metadata.get("json", each.name): each.name for each in dataclasses.fields(kind) if each.init}
    assert set(named) == set(schema["properties"])
    hints = get_type_hints(kind)
    for name, field in schema["properties"].items():
        text = json.dumps(field)
        assert ("datetime" in str(hints[named[name]])) == ('"format": "date-time"' in text), name
        optional = '"null"' in text or name not in schema.get("required", [])
        assert ("None" in str(hints[named[name]]) or hints[named[name]] is Any) == (
            optional or field.keys() <= {"description", "title"}
        ), name


def test_each_answer_of_the_document_has_its_result() -> None:
    asked = {
        name
        for name in SCHEMAS
        if name.endswith("In") or name in ("JobPatch", "JobPut", "LimitPatch", "Problem", "FieldError")
    }
    schedules = {"Schedule", "Calendar", "Cron", "Hourly", "Interval", "Once", "Solar", "AnyOf", "Window", "Recurrence"}
    schedules |= {"DateRule", "RangeRule", "HolidaysRule", "WeeklyRule", "WeeklyTimes", "IcsRule", "IcsSource"}
    wrappers = {"BatchOut", "Queues", "Limits", "Workers", "RunState", "Verdict", "JobLimit", "KeyFrom", "LimitUse"}
    wrappers |= {
        "Calendars",
        "CalendarVersions",
        "CalendarJobs",
        "CalendarMonitors",
        "CalendarDays",
        "CalendarFeed",
        "CalendarWithFeeds",
        "JobCalendars",
        "Files",
    }
    wrappers |= {"Monitors", "MonitorListed", "MonitorOut", "MonitorSaved", "MonitorToken", "JobPing"}
    wrappers |= {"Sessions", "ShareLinks", "Views", "ExportFormat"}
    # What pages draw, and what a monitored program sends: the clients have no calls for them.
    wrappers |= {"TimelineOut", "LaneOut", "LanePartOut", "LaneRunOut", "LaneKind", "Detail", "PingAnswer"}
    wrappers |= {"BulkAction", "BulkOn", "BulkState"}
    wrappers |= {"Sessions", "ShareLinks", "Views"}
    wrappers |= {"Freezes", "FreezeStatus", "During", "ScopeAll", "ScopeQueues", "ScopeTags", "ScopeJobs"}
    known = {OUTSIDE.get(kind.__name__, kind.__name__) for kind in KINDS}
    assert set(SCHEMAS) - asked - schedules - wrappers == known - {"Monitor"}


BODY = {
    "run_id": "a", "state": "completed", "due_at": "2026-12-01T12:00:00.25Z", "result": {"x": 1}, "new": "later",
    "error": None, "attempts": [{"attempt": 1, "error": {"type": "E", "message": "m", "traceback": None}}],
}  # fmt: skip


def test_a_result_is_typed_and_still_the_answers_json() -> None:
    run = Run.of(BODY)
    assert run.due_at == datetime(2026, 12, 1, 12, 0, 0, 250_000, UTC)
    assert run.attempts[0].error is not None
    assert run.attempts[0].error.message == "m"
    assert (run.scheduled_at, run.error) == (None, None), "an older server leaves fields out"
    assert (run["due_at"], run["new"], run.get("none"), dict(run)) == (BODY["due_at"], "later", None, BODY)
    assert run == BODY
    assert run == Run.of(dict(BODY))
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.state = "failed"  # type: ignore[misc]
    page = JobPage.of({"items": [{"job_id": "a"}], "next_cursor": None})
    assert (page.items[0].job_id, page["items"], page.total) == ("a", [{"job_id": "a"}], None)
    assert Job.of({"retry": {"max_attempts": 3}}).retry.max_attempts == 3


def test_the_client_waits_for_the_states_that_are_final() -> None:
    assert FINAL_STATES == FINAL


def test_values_of_a_program_become_json() -> None:
    at = datetime(2026, 12, 1, 13, tzinfo=timezone(timedelta(hours=1)))
    given = {"$type": "date", "$value": "2026-12-01"}
    body = run_body(
        add, (at, Decimal("1.10")), {"id": UUID(int=7), "raw": b"\x00", "given": given}, run_at=at, queue=None,
        timeout=timedelta(minutes=5, milliseconds=1), start_within="1h", must_end_within="2h",
    )  # fmt: skip
    assert body == {
        "task": "shop.add",
        "args": [
            {"$type": "datetime", "$value": "2026-12-01T13:00:00+01:00"},
            {"$type": "decimal", "$value": "1.10"},
        ],
        "kwargs": {
            "id": {"$type": "uuid", "$value": "00000000-0000-0000-0000-000000000007"},
            "raw": {"$type": "bytes", "$value": "AA=="},
            "given": {"$type": "date", "$value": "2026-12-01"},
        },
        "run_at": "2026-12-01T12:00:00Z",
        "timeout": "300001ms",
        "start_within": "1h",
        "must_end_within": "2h",
    }


def test_a_signature_brings_its_arguments_and_options() -> None:
    made = add.s(1).set(queue="fast", priority=3, eta=datetime(2026, 12, 1, tzinfo=UTC))
    assert run_body(made, [2], {"z": 3}, priority=9) == {
        "task": "shop.add", "args": [1, 2], "kwargs": {"z": 3}, "queue": "fast", "priority": 9,
        "run_at": "2026-12-01T00:00:00Z",
    }  # fmt: skip
    assert "run_at" in run_body(add.s(1, 2).set(countdown=5), None, None)
    named = add.si(1, 2).set(shadow="sum", headers={"tenant": "a", "region": "b"})
    headers = {"tenant": "a", "region": "b", "shadow": "sum"}
    assert run_body(named, None, None) == {"task": "shop.add", "args": [1, 2], "kwargs": {}, "headers": headers}
    assert run_body(named, (), {}, headers={"tenant": "c"})["headers"] == {**headers, "tenant": "c"}
    with pytest.raises(BadValues) as refusal:
        run_body(named, [3], {"z": 4})
    assert [error.field for error in refusal.value.errors] == ["args.0", "kwargs.z"]


@pytest.mark.parametrize(
    ("task", "args", "fields", "message"),
    [
        (chain(add.s(1, 2), add.s(3)), None, {}, "task: 'celery.chain' is not accepted; a chain, group or chord"),
        (add.s(1, 2).set(link="x"), None, {}, "task.options.link: 'x' is not accepted; a run has no such option"),
        (add.s(1, 2).set(shadow=7), None, {}, "headers.shadow: 7 is not accepted; give a text of 1 to 200 characters"),
        (add.s(1, 2).set(headers={"task": 1}), None, {}, "headers.task: 1 is not accepted; give it another name"),
        (add.s(1, 2).set(headers=7, shadow="x"), None, {}, "headers: 7 is not accepted"),
        (add.si(1), [2], {}, "args.0: 2 is not accepted; the signature is immutable (.si()) and takes no more"),
        (add.si(1, 2).set(shadow=""), None, {}, "headers.shadow: '' is not accepted"),
        (17, None, {}, "task: 'int' is not accepted; give a task's name, a Celery task or its signature"),
        ("t", [1, {"a": {1, 2}}], {}, "args.1.a: {1, 2} is not accepted; set has no JSON"),
        ("t", None, {"run_at": datetime(2026, 12, 1)}, "run_at: '2026-12-01T00:00:00' is not accepted"),  # noqa: DTZ001
        ("t", [1, math.nan], {}, "args.1: nan is not accepted; JSON has no such number"),
        ("t", [{(1, 2): 3}], {}, "args.0: (1, 2) is not accepted; a key must be a text"),
        ("t", CIRCLE, {}, "args: '...' is not accepted; a value may nest 100 levels deep"),
        ("t", None, {"run_at": date(2026, 12, 1)}, "run_at: datetime.date(2026, 12, 1) is not accepted"),
        ("t", None, {"run_at": datetime.max.replace(tzinfo=WEST)}, "give an instant of the years 1 to 9999 in UTC"),
        (add.s(1, 2).set(countdown="soon"), None, {}, "task.options.countdown: 'soon' is not accepted"),
    ],
)
def test_what_has_no_json_is_named(task: Any, args: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValues) as refusal:
        run_body(task, args, None, **fields)
    assert message in str(refusal.value)


def test_every_error_is_named_and_in_a_batch_its_run_too() -> None:
    with pytest.raises(BadValues) as refusal:
        run_body("t", [{1}], {"x": math.inf}, run_at=datetime(2026, 12, 1))  # noqa: DTZ001
    assert [error.field for error in refusal.value.errors] == ["args.0", "kwargs.x", "run_at"]
    with Client("http://127.0.0.1:1", retries=0) as client:
        for second, field in (
            ({"task": "t", "args": [{1}]}, "runs.1.args.0"),
            ({"task": None}, "runs.1.task"),
            (7, "runs.1"),
        ):
            with pytest.raises(BadValues) as refusal:
                client.enqueue_batch([{"task": "t"}, second])  # type: ignore[list-item]
            assert [error.field for error in refusal.value.errors] == [field]


def test_what_only_the_encoding_refuses_is_an_error_of_ours_too() -> None:
    with Client("http://127.0.0.1:1", retries=0) as client:
        for odd in ("\ud800", 10**5000):
            with pytest.raises(BadValue, match="give plain JSON"):
                client.enqueue("t", [odd])
        with pytest.raises(BadValue, match="give plain JSON"):
            client.put_job("a", {"every": timedelta(1)})
        with pytest.raises(NoAnswer):  # a result can be sent back as it is
            client.put_job("a", Job.of({"task": "t"}))


def test_pauses_of_retries_are_durations() -> None:
    policy = {"max_attempts": 3, "initial": timedelta(seconds=3), "max": "1h"}
    assert run_body("t", None, None, retry=policy)["retry"] == {"max_attempts": 3, "initial": "3s", "max": "1h"}
