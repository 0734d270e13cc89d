"""Runs over HTTP: enqueued once, listed stably, cancelled, run again."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import HOUR, SECOND, format_instant
from itinerary.protocol.redaction import MASK
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.core.leader.messages import CancelRun, RunEnqueued
from scheduler_service.core.run_state import RunState
from scheduler_service.sql.database import Database
from tests.support.answering_leader import AnsweringLeader

RUNS = "/api/v1/runs"
FUTURE = "2999-01-01T00:00:00Z"


def test_an_enqueued_run_is_in_the_database_and_told_to_the_leader(
    api: TestClient, stores: Stores, leader: AnsweringLeader
) -> None:
    answer = api.post(RUNS, json={"task": "itinerary.echo", "kwargs": {"a": 1}, "priority": 0})
    assert answer.status_code == 201
    run = answer.json()
    assert answer.headers["location"] == f"{RUNS}/{run['run_id']}"
    assert run["run_id"].startswith("adhoc_")
    assert stores.runs.get(run["run_id"]).state is RunState.SCHEDULED
    leader.wait_for(RunEnqueued((run["run_id"],)))


def test_a_run_has_exactly_the_fields_of_the_contract(api: TestClient) -> None:
    run = api.post(RUNS, json={"task": "t"}).json()
    assert list(run) == [
        "run_id", "job_id", "job_version", "task", "args", "kwargs", "headers", "queue", "priority", "limits",
        "fair_key", "force", "retry_of",
        "scheduled_at", "due_at", "start_by", "end_by", "sla_missed", "state", "attempt", "reason",
        "cancel_requested_at", "pending_at", "published_at", "started_at", "finished_at", "worker", "progress", "term",
        "result", "error", "attempts",
    ]  # fmt: skip
    assert (run["args"], run["kwargs"], run["queue"], run["priority"], run["attempts"]) == ([], {}, "default", 5, [])


def test_a_run_carries_headers_and_gives_them_to_its_retry(api: TestClient, stores: Stores) -> None:
    headers = {"tenant": "north", "nested": {"a": [1, None]}, "api_token": "s3cret"}
    run = api.post(RUNS, json={"task": "t", "headers": headers}).json()
    assert run["headers"] == {**headers, "api_token": MASK}
    assert stores.runs.get(run["run_id"]).headers == headers
    assert api.post(f"{RUNS}/{run['run_id']}/cancel").status_code == 202
    again = api.post(f"{RUNS}/{run['run_id']}/retry").json()
    assert stores.runs.get(again["run_id"]).headers == headers


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"itinerary_run_id": "x"}, "headers.itinerary_run_id"),
        ({"traceparent": "x"}, "headers.traceparent"),
        ({"retries": 3}, "headers.retries"),
        ({"update": 3}, "headers.update"),
        ({"a b": 1}, "headers.a b"),
        ({"": 1}, "headers."),
        ({"shadow": ["x"]}, "headers.shadow"),
        ({"shadow": "x" * 201}, "headers.shadow"),
        ({"a": "x" * 16_384}, "headers"),
        ({"keep_logs": "x" * 16_384}, "headers"),
        (["a"], "headers"),
    ],
)
def test_headers_that_others_send_or_that_are_too_large_are_refused(api: TestClient, headers: Any, field: str) -> None:
    answer = api.post(RUNS, json={"task": "t", "headers": headers})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"] == field.split(".")


def test_a_run_for_later_is_due_then(api: TestClient) -> None:
    run = api.post(RUNS, json={"task": "t", "run_at": "2999-01-01T02:00:00+02:00"}).json()
    assert (run["scheduled_at"], run["due_at"]) == (FUTURE, FUTURE)


def test_a_deadline_after_the_year_9999_is_refused_by_its_field(api: TestClient) -> None:
    last = {"task": "t", "run_at": "9999-12-31T23:59:00Z"}
    refused = api.post(RUNS, json={**last, "start_within": "61s"})
    assert (refused.status_code, [e["loc"] for e in refused.json()["errors"]]) == (422, [["start_within"]])
    batch = api.post(f"{RUNS}/batch", json={"runs": [last, {**last, "start_within": "30d"}]})
    assert [e["loc"] for e in batch.json()["errors"]] == [["runs", "1", "start_within"]]
    assert api.post(RUNS, json={**last, "start_within": "59s"}).status_code == 201


def test_a_run_whose_deadline_is_over_at_the_request_is_refused_and_creates_nothing(
    api: TestClient, leader: AnsweringLeader
) -> None:
    over = {"task": "t", "run_at": "2020-01-01T00:00:00Z", "start_within": "1h"}
    refused = api.post(RUNS, json=over)
    assert (refused.status_code, [e["loc"] for e in refused.json()["errors"]]) == (422, [["run_at"]])
    batch = api.post(f"{RUNS}/batch", json={"runs": [{"task": "t"}, over, {"task": "t"}, over]})
    assert batch.status_code == 422
    assert [e["loc"] for e in batch.json()["errors"]] == [["runs", "1", "run_at"], ["runs", "3", "run_at"]]
    assert api.get(RUNS).json()["items"] == []
    assert api.post(RUNS, json={"task": "t", "run_at": "2020-01-01T00:00:00Z"}).status_code == 201
    lately = format_instant(time.time_ns() // 1000 - 60 * SECOND)
    assert api.post(RUNS, json={**over, "run_at": lately}).status_code == 201


def test_the_same_request_gives_the_same_run_also_after_its_deadline(
    api: TestClient, leader: AnsweringLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns() // 1000
    body = {"task": "t", "run_at": format_instant(now - 2 * HOUR), "start_within": "1h", "idempotency_key": "k"}
    with monkeypatch.context() as two_hours_ago:
        two_hours_ago.setattr(Database, "read_clock", lambda *_: now - 2 * HOUR)
        first = api.post(RUNS, json=body)
    assert first.status_code == 201
    again = api.post(RUNS, json=body)
    assert (again.status_code, again.json()["run_id"]) == (200, first.json()["run_id"])
    batch = {"runs": [body, {"task": "t"}]}
    assert api.post(f"{RUNS}/batch", json=batch).json()["runs"][0]["run_id"] == first.json()["run_id"]


def test_the_same_key_and_body_give_the_same_run_again_and_another_body_is_refused(
    api: TestClient, leader: AnsweringLeader
) -> None:
    body = {"task": "t", "kwargs": {"a": 1, "b": 2}, "idempotency_key": "order-17"}
    first = api.post(RUNS, json=body)
    again = api.post(RUNS, json={"idempotency_key": "order-17", "kwargs": {"b": 2, "a": 1}, "task": "t", "queue": None})
    other = api.post(RUNS, json={**body, "kwargs": {"a": 2}})
    assert [first.status_code, again.status_code, other.status_code] == [201, 200, 409]
    assert first.json() == again.json()
    assert len(api.get(RUNS).json()["items"]) == 1
    leader.wait_for(RunEnqueued((first.json()["run_id"],)))
    assert len(leader.told()) == 1


def test_of_many_who_ask_at_once_with_one_key_one_makes_the_run(api: TestClient) -> None:
    body = {"task": "t", "idempotency_key": "once"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: api.post(RUNS, json=body), range(16)))
    assert sorted(answer.status_code for answer in answers) == [200] * 15 + [201]
    assert len({answer.json()["run_id"] for answer in answers}) == 1


def test_a_batch_comes_back_in_its_order_with_what_was_known_already(api: TestClient, leader: AnsweringLeader) -> None:
    known = api.post(RUNS, json={"task": "k", "idempotency_key": "k"}).json()
    wanted = [{"task": "a"}, {"task": "k", "idempotency_key": "k"}, {"task": "b"}]
    answer = api.post(f"{RUNS}/batch", json={"runs": wanted})
    assert answer.status_code == 201
    runs = answer.json()["runs"]
    assert [run["task"] for run in runs] == ["a", "k", "b"]
    assert runs[1]["run_id"] == known["run_id"]
    leader.wait_for(RunEnqueued((runs[0]["run_id"], runs[2]["run_id"])))


def test_a_batch_is_all_or_nothing(api: TestClient) -> None:
    api.post(RUNS, json={"task": "k", "idempotency_key": "k"})
    bad = api.post(f"{RUNS}/batch", json={"runs": [{"task": "a"}, {"task": "b", "priority": 11}]})
    assert bad.status_code == 422
    assert bad.json()["errors"][0]["loc"] == ["runs", "1", "priority"]
    conflict = api.post(f"{RUNS}/batch", json={"runs": [{"task": "a"}, {"task": "other", "idempotency_key": "k"}]})
    assert conflict.status_code == 409
    assert len(api.get(RUNS).json()["items"]) == 1


def test_one_key_twice_in_a_batch_is_one_run(api: TestClient) -> None:
    twice = [{"task": "a", "idempotency_key": "k"}] * 2
    runs = api.post(f"{RUNS}/batch", json={"runs": twice}).json()["runs"]
    assert runs[0]["run_id"] == runs[1]["run_id"]
    assert len(api.get(RUNS).json()["items"]) == 1


@pytest.mark.parametrize("runs", [[], None, "x", [{"task": "t"}] * 1001, ["x"]])
def test_a_batch_that_is_none_is_refused(api: TestClient, runs: Any) -> None:
    assert api.post(f"{RUNS}/batch", json={"runs": runs}).status_code == 422


def test_a_batch_of_a_thousand_is_taken(api: TestClient) -> None:
    answer = api.post(f"{RUNS}/batch", json={"runs": [{"task": "t", "args": [n]} for n in range(1000)]})
    assert answer.status_code == 201
    assert [run["args"] for run in answer.json()["runs"]] == [[n] for n in range(1000)]


def test_runs_are_listed_newest_first_and_filtered(api: TestClient, job: dict[str, Any]) -> None:
    for hour in (1, 3, 2):
        api.post(RUNS, json={"task": "t", "run_at": f"2999-01-01T0{hour}:00:00Z", "queue": f"q{hour}"})
    api.post("/api/v1/jobs", json=job)
    manual = api.post("/api/v1/jobs/a.job/trigger").json()
    api.post(f"{RUNS}/{manual['run_id']}/cancel")

    def hours(query: str) -> list[str]:
        return [item["scheduled_at"][11:13] for item in api.get(f"{RUNS}?{query}").json()["items"]]

    assert hours("since=2999-01-01T00:00:00Z") == ["03", "02", "01"]
    assert hours("since=2999-01-01T02:00:00Z&until=2999-01-01T03:00:00Z") == ["02"]
    assert hours("queue=q1") == ["01"]
    by_job = api.get(f"{RUNS}?job_id=a.job&state=cancelled&state=failed").json()["items"]
    assert [item["run_id"] for item in by_job] == [manual["run_id"]]
    assert api.get(f"{RUNS}?job_id=a.job&state=completed").json()["items"] == []


def test_every_run_is_seen_once_while_newer_ones_come_in_between_pages(api: TestClient) -> None:
    made = {api.post(RUNS, json={"task": "t", "run_at": FUTURE}).json()["run_id"] for _ in range(10)}
    seen: list[str] = []
    cursor = ""
    while True:
        page = api.get(f"{RUNS}?limit=3{cursor}").json()
        seen += [item["run_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
        api.post(RUNS, json={"task": "t", "run_at": "2999-06-01T00:00:00Z"})
    assert len(seen) == 10
    assert set(seen) == made


def test_a_cancelled_run_that_waits_is_cancelled_at_once_and_stays_so(api: TestClient, leader: AnsweringLeader) -> None:
    run_id = api.post(RUNS, json={"task": "t", "run_at": FUTURE}).json()["run_id"]
    first = api.post(f"{RUNS}/{run_id}/cancel")
    again = api.post(f"{RUNS}/{run_id}/cancel")
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["state"] == again.json()["state"] == "cancelled"
    leader.wait_for(CancelRun(run_id))


def test_a_final_run_is_run_again_as_a_new_run_that_names_it(
    api: TestClient, job: dict[str, Any], leader: AnsweringLeader
) -> None:
    api.post("/api/v1/jobs", json={**job, "kwargs": {"a": 1}, "timeout": "5m"})
    old = api.post("/api/v1/jobs/a.job/trigger", json={"kwargs": {"b": 2}}).json()
    assert api.post(f"{RUNS}/{old['run_id']}/retry").status_code == 409
    api.post(f"{RUNS}/{old['run_id']}/cancel")
    answer = api.post(f"{RUNS}/{old['run_id']}/retry")
    assert answer.status_code == 201
    new = answer.json()
    assert new["run_id"] != old["run_id"]
    assert (new["retry_of"], new["kwargs"], new["job_id"]) == (old["run_id"], {"a": 1, "b": 2}, "a.job")
    assert (new["state"], new["attempt"]) == ("scheduled", 1)
    leader.wait_for(RunEnqueued((new["run_id"],)))


@pytest.mark.parametrize("name", ["nobody", "a%00b", "%ED%A0%80", "'; DROP TABLE runs", "x" * 400])
@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", "/cancel"), ("POST", "/retry")])
def test_a_run_that_cannot_be_is_not_found(api: TestClient, name: str, method: str, path: str) -> None:
    assert api.request(method, f"{RUNS}/{name}{path}").status_code == 404


def bad_runs() -> dict[str, dict[str, Any]]:
    good = {"task": "t"}
    return {
        "task": {},
        "args": {**good, "args": {}},
        "kwargs": {**good, "kwargs": []},
        "run_at": {**good, "run_at": "tomorrow"},
        "queue": {**good, "queue": "a b"},
        "priority": {**good, "priority": True},
        "timeout": {**good, "timeout": "0s"},
        "retry.max_attempts": {**good, "retry": {"max_attempts": 0}},
        "idempotency_key": {**good, "idempotency_key": ""},
        "speed": {**good, "speed": 1},
    }


@pytest.mark.parametrize("field", bad_runs())
def test_a_bad_value_names_its_field_and_what_is_allowed(api: TestClient, field: str) -> None:
    answer = api.post(RUNS, json=bad_runs()[field])
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert ".".join(error["loc"]) == field
    assert "; " in error["msg"] or error["msg"] == f"{field}: this field is required"


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "state=lost", "since=now", "cursor=%00", "cursor=zzz"]
)
def test_a_bad_filter_is_refused(api: TestClient, query: str) -> None:
    answer = api.get(f"{RUNS}?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["msg"].startswith(f"{query.partition('=')[0]}: ")


def test_arguments_over_256_kib_are_too_large_everywhere(api: TestClient, job: dict[str, Any]) -> None:
    api.post("/api/v1/jobs", json=job)
    large = {"kwargs": {"a": "x" * 262_144}}
    answers = [
        api.post(RUNS, json={"task": "t", **large}),
        api.post(f"{RUNS}/batch", json={"runs": [{"task": "t"}, {"task": "t", **large}]}),
        api.post("/api/v1/jobs", json={**job, "job_id": "b", **large}),
        api.put("/api/v1/jobs/a.job", json={**job, **large}),
        api.patch("/api/v1/jobs/a.job", json=large),
        api.post("/api/v1/jobs/a.job/trigger", json=large),
    ]
    assert [answer.status_code for answer in answers] == [413] * 6
    assert "262144" in answers[1].json()["errors"][0]["msg"]
    assert api.get(RUNS).json()["items"] == []


def test_arguments_of_nearly_256_kib_are_kept(api: TestClient) -> None:
    answer = api.post(RUNS, json={"task": "t", "args": ["ü" * 131_000]})
    assert answer.status_code == 201
    assert api.get(answer.headers["location"]).json()["args"] == ["ü" * 131_000]


def test_what_was_accepted_is_kept_to_the_letter(api: TestClient) -> None:
    kwargs = {
        "text": "späti 🚲 \u202e",
        "n": 2**63 - 1,
        "f": 1e-7,
        "null": None,
        "deep": [[[{"": []}]]],
        "code": "\\u0000",
    }
    run_id = api.post(RUNS, json={"task": "t", "kwargs": kwargs}).json()["run_id"]
    assert api.get(f"{RUNS}/{run_id}").json()["kwargs"] == kwargs
