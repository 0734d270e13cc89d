"""Inbox entries: what is understood, and what is set aside with its reason."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.protocol.errors import MalformedEntry
from itinerary.protocol.instants import parse_instant
from itinerary.protocol.progress import Progress
from itinerary.protocol.wire import entry
from scheduler_service.core.leader.messages import (
    CancelRun,
    Failed,
    Heartbeat,
    JobChanged,
    Query,
    RetryAsked,
    RunEnqueued,
    Started,
    Succeeded,
    decode,
)

AT = parse_instant("2026-11-27T10:00:00Z")
KINDS = ["started", "succeeded", "failed", "retry", "heartbeat", "job_changed", "cancel_run", "run_enqueued", "query"]
TASK = {"task_id": "billing.close_2026-11-27T10:00:00Z~2", "worker": "celery@host"}


def test_each_report_of_a_worker_is_understood() -> None:
    run = "billing.close_2026-11-27T10:00:00Z"
    assert decode(entry("started", AT, TASK)) == Started(run, 2, "celery@host", AT)
    assert decode(entry("succeeded", AT, {**TASK, "result": {"any": [1]}})) == Succeeded(
        run, 2, "celery@host", AT, None, {"any": [1]}
    )
    failed = decode(entry("failed", AT, {**TASK, "error": {"type": "ValueError", "message": "no", "traceback": "T"}}))
    assert isinstance(failed, Failed)
    assert failed.error == {"type": "ValueError", "message": "no", "traceback": "T"}
    retry = decode(entry("retry", AT, {**TASK, "due_at": "2026-11-27T10:01:00Z", "args": [1], "kwargs": {}}))
    assert isinstance(retry, RetryAsked)
    assert retry.due_at == parse_instant("2026-11-27T10:01:00Z")
    beat = decode(
        entry("heartbeat", AT, {"worker": "w", "running": ["a~1"], "received": [], "concurrency": 4, "queues": ["q"]})
    )
    assert beat == Heartbeat("w", AT, (("a", 1),), (), 4, ("q",))


BEAT = {"worker": "w", "running": ["a~1", "b~2"], "concurrency": 4}


def test_a_heartbeat_tells_how_far_what_it_lists_has_come() -> None:
    beat = decode(entry("heartbeat", AT, {**BEAT, "progress": [[1, 412, 1000, "rows"], [0, 0.5, None, ""]]}))
    assert isinstance(beat, Heartbeat)
    assert beat.progress == ((1, Progress(412, 1000, "rows")), (0, Progress(0.5)))


@pytest.mark.parametrize(
    "said",
    [None, "half", {"0": 1}, [7], [[]], [[2, 1, 2, ""]], [[-1, 1, 2, ""]], [[True, 1, 2, ""]], [[0, "1", 2, ""]],
     [[0, -1, 2, ""]], [[0, 1, 2, "x" * 21]], [[0, 1, 2]], [[0, 2**60, None, ""]]],
)  # fmt: skip
def test_progress_that_is_not_understood_is_left_out_of_a_heartbeat_that_counts(said: object) -> None:
    """A later release may say it otherwise; and what runs is alive whatever it says."""
    beat = decode(entry("heartbeat", AT, {**BEAT, "progress": said}))
    assert isinstance(beat, Heartbeat)
    assert (beat.running, beat.progress) == ((("a", 1), ("b", 2)), ())


def test_of_progress_with_more_fields_those_that_are_known_are_read() -> None:
    beat = decode(entry("heartbeat", AT, {**BEAT, "progress": [[0, 1, 2, "rows", "new"]]}))
    assert isinstance(beat, Heartbeat)
    assert beat.progress == ((0, Progress(1, 2, "rows")),)


@pytest.mark.parametrize(
    ("said", "leaving"),
    [
        ({"concurrency": 4, "leaving": False}, False),
        ({"concurrency": 0, "leaving": False}, False),
        ({"concurrency": 0, "leaving": True}, True),
        ({"concurrency": 4, "leaving": True}, True),
        # The release before: 0 was its farewell.
        ({"concurrency": 4}, False),
        ({"concurrency": 0}, True),
    ],
)
def test_a_worker_leaves_when_it_says_so(said: dict[str, Any], leaving: bool) -> None:
    beat = decode(entry("heartbeat", AT, {"worker": "w", "running": [], "received": [], "queues": []} | said))
    assert isinstance(beat, Heartbeat)
    assert beat.leaving is leaving


def test_leaving_is_a_truth_value() -> None:
    body = {"worker": "w", "running": [], "received": [], "queues": [], "concurrency": 4, "leaving": 1}
    with pytest.raises(MalformedEntry, match="leaving must be true or false"):
        decode(entry("heartbeat", AT, body))


@pytest.mark.parametrize(("said", "protocol"), [({}, 1), ({"protocol": 1}, 1), ({"protocol": 7}, 7)])
def test_a_worker_of_another_release_is_understood_and_its_protocol_kept(said: dict[str, Any], protocol: int) -> None:
    """Workers that name no protocol speak the first; what a newer one adds is ignored."""
    body = {"worker": "w", "running": ["a~1"], "received": [], "concurrency": 4, "queues": ["q"], "new": {"a": 1}}
    assert decode(entry("heartbeat", AT, body | said)) == Heartbeat(
        "w", AT, (("a", 1),), (), 4, ("q",), protocol=protocol
    )


@pytest.mark.parametrize(("said", "recalls"), [({}, False), ({"recalls": True}, True), ({"recalls": "yes"}, False)])
def test_a_worker_of_the_release_before_knows_no_recalls(said: dict[str, Any], recalls: bool) -> None:
    body = {"worker": "w", "running": [], "received": [], "queues": [], "concurrency": 4}
    beat = decode(entry("heartbeat", AT, body | said))
    assert isinstance(beat, Heartbeat)
    assert beat.recalls is recalls


@pytest.mark.parametrize("protocol", [True, -1, "1", 1.0, None])
def test_a_protocol_is_a_whole_number(protocol: Any) -> None:
    body = {"worker": "w", "running": [], "received": [], "queues": [], "concurrency": 4, "protocol": protocol}
    with pytest.raises(MalformedEntry, match="protocol must be a whole number"):
        decode(entry("heartbeat", AT, body))


def test_each_request_of_the_api_is_understood() -> None:
    assert decode(entry("job_changed", AT, {"job_id": "j", "change": "added"})) == JobChanged("j", "added")
    assert decode(entry("run_enqueued", AT, {"run_ids": ["a", "b"]})) == RunEnqueued(("a", "b"))
    assert decode(entry("query", AT, {"what": "run", "subject": "r", "reply_to": "k"})) == Query("run", "r", "k")


def test_blanks_around_a_body_change_nothing() -> None:
    at, body = "2026-11-27T10:00:00Z", '{"run_id": "a"}'
    for text in (body, f" {body}", f"{body}\n"):
        assert decode({"v": "1", "type": "cancel_run", "at": at, "body": text}) == CancelRun("a")


def test_unknown_keys_of_a_newer_worker_are_ignored() -> None:
    assert isinstance(decode(entry("started", AT, {**TASK, "gpu": True})), Started)


def test_text_that_no_database_takes_is_made_storable() -> None:
    fields = entry("succeeded", AT, {**TASK, "result": "a\x00b"})
    fields["body"] = fields["body"].replace("b", "\\ud800b", 1) if "\\ud800" in fields["body"] else fields["body"]
    message = decode(fields)
    assert isinstance(message, Succeeded)
    assert message.result == "a\ufffdb"
    lone = decode({**fields, "body": json.dumps({**TASK, "result": "x\ud800"})})
    assert isinstance(lone, Succeeded)
    lone.result.encode("utf-8")


def nested(levels: int, inside: Any) -> Any:
    for _ in range(levels):
        inside = [inside]
    return inside


def test_a_deep_result_is_understood_whatever_text_lies_in_it() -> None:
    message = decode(entry("succeeded", AT, {**TASK, "result": nested(800, {"a\x00": "\U0001f600"})}))
    assert isinstance(message, Succeeded)
    innermost = message.result
    while isinstance(innermost, list):
        (innermost,) = innermost
    assert innermost == {"a\ufffd": "\U0001f600"}


@pytest.mark.parametrize("key", ["task_id", "worker", "started_at", "error", "due_at", "running", "result"])
@pytest.mark.parametrize("levels", [200, 500, 900, 980])
def test_however_deep_a_value_is_nobody_meets_more_than_a_malformed_entry(key: str, levels: int) -> None:
    text = "[" * levels + json.dumps("\U0001f600") + "]" * levels
    for kind in KINDS:
        body = {**TASK, "error": {"type": "E", "message": None}, key: "HERE"}
        with suppress(MalformedEntry):
            decode({**entry(kind, AT, {}), "body": json.dumps(body).replace('"HERE"', text)})
    error = json.dumps({**TASK, "error": {"type": "E", "message": "HERE"}}).replace('"HERE"', text)
    with suppress(MalformedEntry):
        decode({**entry("failed", AT, {}), "body": error})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"v": "2"}, "version '2'"),
        ({"v": None}, "version"),
        ({"type": "exploded"}, "type 'exploded'"),
        ({"body": "{"}, "not JSON"),
        ({"body": "[]"}, "not a JSON object"),
        ({"body": '{"task_id": NaN}'}, "NaN"),
        ({"body": "[" * 100_000}, "not JSON"),
        ({"body": json.dumps({"task_id": "no-attempt", "worker": "w"})}, "task_id"),
        ({"body": json.dumps({"task_id": "r~0x1", "worker": "w"})}, "task_id"),
        ({"body": json.dumps({"task_id": "r~1", "worker": ""})}, "worker"),
        ({"body": json.dumps({"task_id": "r~1"})}, "worker"),
        ({"body": "x" * 600_000}, "600000 characters"),
        ({"at": "yesterday"}, "at: "),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_reason(change: dict[str, Any], reason: str) -> None:
    fields = {k: v for k, v in {**entry("started", AT, TASK), **change}.items() if v is not None}
    with pytest.raises(MalformedEntry, match=reason):
        decode(fields)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "task_id",
        "worker",
        "result",
        "error",
        "due_at",
        "running",
        "queues",
        "concurrency",
        "leaving",
        "run_ids",
        "job_id",
        "change",
    ]
)


@given(st.sampled_from(KINDS), st.dictionaries(KEYS, JSON, max_size=6), st.text(max_size=30))
def test_no_entry_raises_anything_but_malformed(kind: str, body: dict[str, Any], at: str) -> None:
    fields = {**entry(kind, AT, {}), "body": json.dumps(body)}
    for one in (fields, {**fields, "at": at}, {**fields, "body": at}):
        with suppress(MalformedEntry):
            decode(one)
