"""Changes that are conditional or repeatable: If-Match, If-None-Match, Idempotency-Key, on every route or refused."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from scheduler_service.config.settings import Settings
from scheduler_service.sql.database import Database
from tests.api.test_auth import bearer, guarded_settings, token_line
from tests.support.api_calls import DOCUMENT
from tests.support.routes import address_of

JOB = "/api/v1/jobs/a.job"
HOURLY = {"job_id": "a.job", "task": "t", "schedule": {"kind": "hourly", "minute": 0}}
WINDOW = {"from": "2026-11-01T00:00:00Z", "to": "2026-11-01T03:00:00Z"}
CONDITIONS = ("If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Idempotency-Key")
CHANGES = [
    ("put", JOB, HOURLY), ("patch", JOB, {"priority": 1}), ("delete", JOB, None), ("post", f"{JOB}/pause", {}),
    ("post", f"{JOB}/resume", None), ("post", f"{JOB}/trigger", {}), ("post", f"{JOB}/backfill", WINDOW),
]  # fmt: skip


def runs(api: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get("/api/v1/runs").json()["items"]
    return found


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_every_change_of_a_job_is_refused_where_the_version_is_another(
    api: TestClient, method: str, path: str, body: Any
) -> None:
    api.post("/api/v1/jobs", json=HOURLY)
    before = api.get(JOB).json()
    stale = api.request(method, path, json=body, headers={"If-Match": '"99"'})
    assert stale.status_code == 412
    assert stale.json()["type"] == "urn:itinerary:problem:stale-version"
    assert (api.get(JOB).json(), runs(api)) == (before, [])
    for right in ('"1"', "*", '"7", "1"'):
        assert api.request(method, path, json=body, headers={"If-Match": right}).is_success
        if method in ("delete", "patch") or path.endswith(("/pause", "/resume")):
            break


def test_put_with_if_none_match_only_creates(api: TestClient) -> None:
    new = {"If-None-Match": "*"}
    assert api.put(JOB, json=HOURLY, headers=new).status_code == 201
    other = api.put(JOB, json={**HOURLY, "priority": 1}, headers=new)
    assert other.status_code == 412
    assert api.get(JOB).json()["priority"] == 5
    assert api.put(JOB, json={**HOURLY, "priority": 1}, headers={"If-None-Match": '"1"'}).status_code == 412
    assert api.put(JOB, json={**HOURLY, "priority": 1}, headers={"If-None-Match": '"2"'}).status_code == 200
    assert api.put(JOB, json=HOURLY, headers={"If-None-Match": "nonsense"}).status_code == 422
    api.delete(JOB)
    assert api.put(JOB, json=HOURLY, headers=new).status_code == 201, "a deleted job may be created again"


def test_no_route_ignores_such_a_header(api: TestClient) -> None:
    refused = 0
    for path, calls in DOCUMENT["paths"].items():
        for method, call in calls.items():
            taken = {p["name"] for p in call.get("parameters", ()) if p["in"] == "header"}
            for name in CONDITIONS if method != "get" else ():
                if name not in taken:
                    answer = api.request(method, address_of(path), headers={name: '"x"'}, json={})
                    assert answer.status_code == 422, (method, path, name)
                    assert answer.json()["errors"][0]["loc"] == [name]
                    refused += 1
    assert refused > 50


def twice(api: TestClient, path: str, body: Any, headers: dict[str, str], second: Any = None) -> tuple[Any, Any]:
    first = api.post(path, json=body, headers=headers)
    assert first.is_success, first.text
    return first, api.post(path, json=body if second is None else second, headers=headers)


@pytest.mark.slow
@pytest.mark.parametrize("header", ["order-17", '"order-17"'])
@pytest.mark.parametrize(
    ("path", "body", "other"),
    [
        ("/api/v1/runs", {"task": "t"}, {"task": "u"}),
        (f"{JOB}/trigger", {"kwargs": {"a": 1}}, {"kwargs": {"a": 2}}),
        ("/api/v1/runs/batch", {"runs": [{"task": "t"}, {"task": "t"}]}, {"runs": [{"task": "t"}]}),
        (f"{JOB}/backfill", WINDOW, {**WINDOW, "overlap": "allow"}),
    ],
)
def test_the_same_key_and_request_do_no_more_than_one(
    api: TestClient, path: str, body: Any, other: Any, header: str
) -> None:
    api.post("/api/v1/jobs", json=HOURLY)
    first, again = twice(api, path, body, {"Idempotency-Key": header})
    made = runs(api)
    known = first.json().get("run_id") or first.json().get("run_ids") or first.json()["runs"]
    assert known == (again.json().get("run_id") or again.json().get("run_ids") or again.json()["runs"])
    as_field = api.post(path, json={**body, "idempotency_key": "order-17"})
    assert as_field.is_success
    assert runs(api) == made
    refused = api.post(path, json=other, headers={"Idempotency-Key": header})
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:itinerary:problem:key-reused"
    differing = api.post(path, json={**body, "idempotency_key": "another"}, headers={"Idempotency-Key": header})
    assert differing.status_code == 422
    assert differing.json()["errors"][0]["loc"] == ["idempotency_key"]
    assert runs(api) == made


def test_a_retry_with_a_key_is_made_once(api: TestClient) -> None:
    run_id = api.post("/api/v1/runs", json={"task": "t", "run_at": "2999-01-01T00:00:00Z"}).json()["run_id"]
    other_id = api.post("/api/v1/runs", json={"task": "t", "run_at": "2999-01-01T00:00:00Z"}).json()["run_id"]
    for one in (run_id, other_id):
        api.post(f"/api/v1/runs/{one}/cancel")
    key = {"Idempotency-Key": "again"}
    answers = [api.post(f"/api/v1/runs/{run_id}/retry", headers=key).json()["run_id"] for _ in range(2)]
    assert answers[0] == answers[1]
    assert api.post(f"/api/v1/runs/{other_id}/retry", headers=key).status_code == 409
    assert len(runs(api)) == 3
    without = [api.post(f"/api/v1/runs/{run_id}/retry").json()["run_id"] for _ in range(2)]
    assert without[0] != without[1]


def test_a_backfill_with_a_key_names_its_runs_though_they_ended_in_vain(api: TestClient) -> None:
    api.post("/api/v1/jobs", json=HOURLY)
    key = {"Idempotency-Key": "repair"}
    first = api.post(f"{JOB}/backfill", json=WINDOW, headers=key)
    assert (first.status_code, len(first.json()["run_ids"])) == (202, 3)
    for run_id in first.json()["run_ids"]:
        api.post(f"/api/v1/runs/{run_id}/cancel")
    repeated = api.post(f"{JOB}/backfill", json=WINDOW, headers=key)
    assert repeated.json()["run_ids"] == first.json()["run_ids"]
    assert len(runs(api)) == 3
    assert len(api.post(f"{JOB}/backfill", json=WINDOW).json()["run_ids"]) == 3, "without it they are made again"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"run_at": "2999-12-30T00:00:00Z"}, {"run_at": "2999-12-30T01:00:00+01:00"}),
        ({"run_at": "2999-12-30T00:00:00Z"}, {"run_at": "2999-12-30T00:00:00.000z"}),
        ({"timeout": "90s"}, {"timeout": "PT1M30S"}),
        ({"retry": {"initial": "60s"}}, {"retry": {"initial": "1m"}}),
        ({"queue": None}, {}),
    ],
)
def test_the_same_request_written_otherwise_is_the_same(api: TestClient, one: Any, other: Any) -> None:
    key = {"Idempotency-Key": "k"}
    first, again = twice(api, "/api/v1/runs", {"task": "t", **one}, key, {"task": "t", **other})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["run_id"] == again.json()["run_id"]


def test_keys_belong_to_the_token(client_of: Callable[[Settings], TestClient], settings: Settings) -> None:
    lines = [token_line("a", "operator", "a"), token_line("b", "operator", "b"), token_line("v", "viewer", "v")]
    tokens = Settings(api_tokens=lines).api_tokens  # type: ignore[arg-type]  # texts are read
    api = client_of(settings.model_copy(update={"api_tokens": tokens}))
    body = {"task": "t", "idempotency_key": "order-1"}
    made = [api.post("/api/v1/runs", json=body, headers=bearer(name)) for name in ("a", "b", "a", "b")]
    assert [answer.status_code for answer in made] == [201, 201, 200, 200]
    assert made[0].json()["run_id"] == made[2].json()["run_id"] != made[1].json()["run_id"]
    conflict = api.post("/api/v1/runs", json={**body, "task": "u"}, headers=bearer("a"))
    assert "'order-1'" in conflict.json()["detail"]
    assert len(api.get("/api/v1/runs", headers=bearer("v")).json()["items"]) == 2
    audit = api.get("/api/v1/audit", headers=bearer("a")).json()["items"]
    assert {entry["after"]["idempotency_key"] for entry in audit} == {"order-1"}


def test_keys_of_the_release_before_still_match_for_the_same_caller(
    client_of: Callable[[Settings], TestClient], settings: Settings
) -> None:
    api = client_of(guarded_settings(settings))
    body = {"task": "t", "run_at": "2999-12-30T01:00:00+01:00", "idempotency_key": "old"}
    first = api.post("/api/v1/runs", json=body, headers=bearer("operator")).json()["run_id"]
    batch = {"runs": [{**body, "idempotency_key": f"old-{n}"} for n in range(2)]}
    two = [
        run["run_id"] for run in api.post("/api/v1/runs/batch", json=batch, headers=bearer("operator")).json()["runs"]
    ]
    _as_the_release_before_stored_it(settings, body)
    assert api.post("/api/v1/runs", json=body, headers=bearer("operator")).json()["run_id"] == first
    again = api.post("/api/v1/runs/batch", json=batch, headers=bearer("operator"))
    assert [run["run_id"] for run in again.json()["runs"]] == two
    assert api.post("/api/v1/runs", json={**body, "task": "u"}, headers=bearer("operator")).status_code == 409
    assert api.post("/api/v1/runs", json=body, headers=bearer("admin")).status_code == 201, (
        "another caller's is another"
    )


def _as_the_release_before_stored_it(settings: Settings, body: dict[str, Any]) -> None:
    """Bare keys, and hashes of the texts as they were written."""
    said = {name: value for name, value in body.items() if name != "idempotency_key"}
    raw = json.dumps(said, sort_keys=True, separators=(",", ":"))
    database = Database(settings.database_url, pool_size=1)
    with database.write() as connection:
        bare = "substr(idempotency_key, instr(idempotency_key, char(31)) + 1)"
        connection.execute(
            text(f"UPDATE runs SET idempotency_key = {bare}, request_hash = :hash"),
            {"hash": hashlib.sha256(raw.encode()).hexdigest()},
        )
    database.close()
