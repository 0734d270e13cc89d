"""Bulk operations over HTTP: what would happen, who may, what is refused, and that all of it happens."""

import hashlib
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from scheduler_service.bootstrap.parts import Stores
from scheduler_service.config.settings import Settings
from scheduler_service.core.leader.messages import RunsMoved
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.tables import runs
from tests.api.test_auth import bearer
from tests.support.answering_leader import AnsweringLeader
from tests.support.old_runs import keep, old_run

LATER = "2999-01-01T00:00:00Z"


def enqueue(api: TestClient, number: int, **fields: Any) -> list[str]:
    runs = [{"task": "a.task", "run_at": LATER, **fields} for _ in range(number)]
    answer = api.post("/api/v1/runs/batch", json={"runs": runs})
    return [run["run_id"] for run in answer.json()["runs"]]


def bulk(api: TestClient, on: str, **body: Any) -> Any:
    return api.post(f"/api/v1/{on}/bulk", json=body)


def test_a_dry_run_says_what_would_happen_and_changes_nothing(api: TestClient) -> None:
    ids = enqueue(api, 3, queue="mail")
    api.post(f"/api/v1/runs/{ids[0]}/cancel")
    asked = {"action": "cancel", "filter": {"queue": "mail"}}
    seen = bulk(api, "runs", **asked, dry_run=True)
    assert seen.status_code == 200
    assert seen.json()["groups"] == [
        {"what": "scheduled", "count": 2, "count_is_exact": True, "outcome": "cancelled", "why": None},
        {"what": "cancelled", "count": 1, "count_is_exact": True, "outcome": None, "why": "over already"},
    ]
    assert (seen.json()["matching"], seen.json()["changing"]) == (3, 2)
    assert set(seen.json()["sample"]) == set(ids)
    assert api.get("/api/v1/bulk").json()["items"] == []
    done = bulk(api, "runs", **asked)
    assert done.status_code == 202
    assert (done.json()["state"], done.json()["counts"], done.json()["total"]) == ("done", {"cancelled": 2}, 2)
    assert api.get(f"/api/v1/bulk/{done.json()['operation_id']}").json() == done.json()
    assert {run["state"] for run in api.get("/api/v1/runs?queue=mail").json()["items"]} == {"cancelled"}


def test_a_retry_and_its_undo(api: TestClient) -> None:
    ids = enqueue(api, 2)
    bulk(api, "runs", action="cancel", filter={"run_ids": ids})
    asked = {"action": "retry", "filter": {"run_ids": ids, "state": ["cancelled"]}}
    first = bulk(api, "runs", **asked).json()
    assert (first["counts"], first["can_be_undone"]) == ({"retried": 2}, True)
    assert bulk(api, "runs", **asked).json()["counts"] == {"retried_before": 2}
    undo = api.post(f"/api/v1/bulk/{first['operation_id']}/undo")
    assert undo.status_code == 202
    assert undo.json()["undo_of"] == first["operation_id"]
    api.post(f"/api/v1/bulk/{undo.json()['operation_id']}/stop")
    new = [run for run in api.get("/api/v1/runs").json()["items"] if run["retry_of"]]
    assert [run["state"] for run in new] == ["cancelled", "cancelled"]
    again = api.post(f"/api/v1/bulk/{first['operation_id']}/undo")
    assert (again.status_code, again.json()["type"]) == (409, "urn:itinerary:problem:not-undoable")


def test_a_page_at_once_and_the_others_by_whoever_carries_on(
    api: TestClient, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_service.sql.bulk_runs.RUNS_AT_ONCE", 2)
    enqueue(api, 5)
    began = bulk(api, "runs", action="cancel", all=True).json()
    assert (began["state"], began["seen"], began["total"]) == ("running", 2, 5)
    while stores.bulk.step() is not None:
        pass
    assert api.get(f"/api/v1/bulk/{began['operation_id']}").json()["counts"] == {"cancelled": 5}
    entries = api.get("/api/v1/audit", params={"subject": began["operation_id"]}).json()["items"]
    assert [entry["action"] for entry in entries] == ["bulk.end", *["bulk.page"] * 3, "bulk.cancel"]


def test_jobs_are_paused_moved_deleted_and_brought_back(api: TestClient, job: dict[str, Any]) -> None:
    for name in ("a", "b", "c"):
        api.post("/api/v1/jobs", json={**job, "job_id": name, "tags": ["billing"] if name != "c" else []})
    api.post("/api/v1/jobs/b/pause", json={"reason": "mine"})
    seen = bulk(api, "jobs", action="pause", filter={"tag": "billing"}, reason="an incident", dry_run=True).json()
    assert [(one["what"], one["outcome"], one["why"]) for one in seen["groups"]] == [
        ("active", "paused", None), ("paused", None, "paused already"),
    ]  # fmt: skip
    paused = bulk(api, "jobs", action="pause", filter={"tag": "billing"}, reason="an incident").json()
    assert paused["counts"] == {"paused": 1, "unchanged": 1}
    moved = bulk(api, "jobs", action="move", filter={"job_ids": ["a", "c"]}, queue="slow").json()
    assert moved["counts"] == {"moved": 2}
    deleted = bulk(api, "jobs", action="delete", all=True).json()
    assert (deleted["counts"], api.get("/api/v1/jobs").json()["items"]) == ({"deleted": 3}, [])
    api.post(f"/api/v1/bulk/{deleted['operation_id']}/undo")
    jobs = {one["job_id"]: (one["queue"], one["pause_reason"]) for one in api.get("/api/v1/jobs").json()["items"]}
    assert jobs == {"a": ("slow", "an incident"), "b": ("default", "mine"), "c": ("slow", None)}


def test_waiting_runs_move_to_another_queue_and_back(
    api: TestClient, leader: AnsweringLeader, settings: Settings
) -> None:
    ids = enqueue(api, 2, queue="mail")
    (taken_back,) = enqueue(api, 1, queue="mail")
    with closing(Database(settings.database_url, pool_size=1)) as database, database.engine.begin() as connection:
        connection.execute(update(runs).where(runs.c.run_id == taken_back).values(recalled_at=host_now()))
    api.post(f"/api/v1/runs/{enqueue(api, 1, queue='mail')[0]}/cancel")
    asked = {"action": "move", "filter": {"queue": "mail"}, "queue": "mail2"}
    seen = bulk(api, "runs", **asked, dry_run=True).json()
    assert [(one["what"], one["count"], one["outcome"], one["why"]) for one in seen["groups"]] == [
        ("scheduled", 2, "moved", None),
        ("scheduled", 1, None, "taken back from its queue, where the message may still lie"),
        ("cancelled", 1, None, "over already"),
    ]  # fmt: skip
    assert set(seen["sample"]) >= set(ids)
    assert taken_back not in seen["sample"]
    moved = bulk(api, "runs", **asked).json()
    assert (moved["counts"], moved["queue"], moved["can_be_undone"]) == (
        {"moved": 2, "sent_before": 1}, "mail2", True,
    )  # fmt: skip
    assert (moved["total"], moved["seen"]) == (3, 3)
    assert {run["run_id"] for run in api.get("/api/v1/runs?queue=mail2").json()["items"]} == set(ids)
    leader.wait_for(RunsMoved(tuple(sorted(ids))))
    api.post(f"/api/v1/bulk/{moved['operation_id']}/undo")
    assert api.get("/api/v1/runs?queue=mail2").json()["items"] == []


def test_runs_that_are_over_are_deleted_for_ever(api: TestClient) -> None:
    ids = enqueue(api, 2)
    bulk(api, "runs", action="cancel", filter={"run_ids": ids[:1]})
    asked = {"action": "delete", "filter": {"run_ids": ids}}
    seen = bulk(api, "runs", **asked, dry_run=True).json()
    assert [(one["what"], one["outcome"], one["why"]) for one in seen["groups"]] == [
        ("scheduled", None, "not over yet"), ("cancelled", "deleted", None),
    ]  # fmt: skip
    deleted = bulk(api, "runs", **asked).json()
    assert (deleted["counts"], deleted["can_be_undone"]) == ({"deleted": 1}, False)
    assert api.get(f"/api/v1/runs/{ids[0]}").status_code == 404
    refused = api.post(f"/api/v1/bulk/{deleted['operation_id']}/undo")
    assert (refused.status_code, "cannot be undone" in refused.json()["detail"]) == (409, True)


def test_the_preview_of_a_deletion_counts_what_stays_because_a_schedule_planned_it(
    api: TestClient, settings: Settings
) -> None:
    ids = enqueue(api, 3, queue="mail")
    with closing(Database(settings.database_url, pool_size=1)) as database:
        cancelled = {"queue": "mail", "kind": "occurrence", "state": "cancelled"}
        planned = len(keep(database, *(old_run(host_now() - n, job_id="nightly", **cancelled) for n in range(2))))
    bulk(api, "runs", action="cancel", filter={"queue": "mail"})
    asked = {"action": "delete", "filter": {"queue": "mail", "state": ["cancelled", "failed"]}}
    seen = bulk(api, "runs", **asked, dry_run=True).json()
    deleted, stay = ({"what": "cancelled", "count": n, "count_is_exact": True} for n in (3, planned))
    assert seen["groups"] == [
        {**deleted, "outcome": "deleted", "why": None}, {**stay, "outcome": None, "why": "a schedule planned them"},
    ]  # fmt: skip
    assert (seen["matching"], seen["changing"], set(seen["sample"])) == (3 + planned, 3, set(ids))
    done = bulk(api, "runs", **asked).json()
    assert (done["counts"], done["total"], done["seen"]) == (
        {"deleted": 3, "planned_kept": planned}, 3 + planned, 3 + planned,
    )  # fmt: skip
    page = api.get("/bulk/new?on=runs&action=delete&scope=all&queue=mail&state=cancelled")
    assert "left as it is: a schedule planned them" in page.text
    assert '<button class="small danger">' not in page.text, "nothing of it can be deleted"


@pytest.mark.parametrize(("on", "body", "fields"), [
    ("runs", {"action": "cancel"}, ["filter"]),
    ("runs", {"action": "cancel", "filter": {}}, ["filter"]),
    ("runs", {"action": "cancel", "filter": {"sate": "failed"}}, ["filter.sate"]),
    ("runs", {"action": "cancel", "filter": {"state": ["fial"]}}, ["filter.state.0"]),
    ("runs", {"action": "pause", "filter": {"queue": "a"}}, ["action"]),
    ("runs", {"action": "delete", "filter": {"queue": "a"}}, ["filter.state"]),
    ("runs", {"action": "delete", "all": True}, ["filter.state"]),
    ("runs", {"action": "move", "filter": {"queue": "a"}}, ["queue"]),
    ("runs", {"action": "move", "filter": {"queue": "a"}, "queue": "no\x00"}, ["queue"]),
    ("runs", {"action": "cancel", "filter": {"queue": "a"}, "queue": "b"}, ["queue"]),
    ("runs", {"action": "retry", "filter": {"queue": "a"}}, ["filter.state"]),
    ("runs", {"action": "cancel", "all": True, "filter": {"queue": "a"}}, ["all"]),
    ("runs", {"action": "cancel", "filter": {"since": "yesterday"}}, ["filter.since"]),
    ("runs", {"action": "cancel", "filter": {"since": LATER, "until": LATER}}, ["filter.until"]),
    ("runs", {"action": "cancel", "filter": {"run_ids": []}}, ["filter.run_ids"]),
    ("jobs", {"action": "move", "all": True}, ["queue"]),
    ("jobs", {"action": "resume", "all": True, "reason": "x", "quue": "y"}, ["quue", "reason"]),
    ("jobs", {"action": "pause", "all": True, "until": "2020-01-01T00:00:00Z"}, ["until"]),
])  # fmt: skip
def test_what_is_wrong_is_named(api: TestClient, on: str, body: dict[str, Any], fields: list[str]) -> None:
    answer = bulk(api, on, **body)
    assert answer.status_code == 422, answer.text
    assert [".".join(error["loc"]) for error in answer.json()["errors"]] == fields
    assert api.get("/api/v1/bulk").json()["items"] == []


def test_the_same_key_begins_one_operation(api: TestClient) -> None:
    body, header = {"action": "cancel", "all": True}, {"Idempotency-Key": "k"}
    first = api.post("/api/v1/runs/bulk", json=body, headers=header).json()
    assert api.post("/api/v1/runs/bulk", json=body, headers=header).json() == first
    other = api.post("/api/v1/jobs/bulk", json={"action": "pause", "all": True}, headers=header)
    assert (other.status_code, other.json()["type"]) == (409, "urn:itinerary:problem:key-reused")
    for address in ("/api/v1/bulk/nothing", "/api/v1/bulk/01a222dd-ef98-74a3-a8cc-5dd25b5fc61c"):
        assert api.get(address).status_code == 404


def test_tokens_do_in_bulk_what_they_may_do_alone(
    client_of: Callable[[Settings], TestClient], settings: Settings, job: dict[str, Any]
) -> None:
    def line(name: str, role: str, limits: str = "") -> str:
        return f"{name}:{role}:{hashlib.sha256(name.encode()).hexdigest()}{limits}"

    lines = [line("root", "admin"), line("olga", "operator"), line("lena", "operator", ":queues=ours"),
             line("vera", "viewer"), line("emil", "enqueuer")]  # fmt: skip
    tokens = Settings(api_tokens=",".join(lines)).api_tokens  # type: ignore[arg-type]  # a text is read
    api = client_of(settings.model_copy(update={"api_tokens": tokens}))
    for queue in ("ours", "theirs"):
        run = {"task": "a.task", "queue": queue, "run_at": LATER}
        assert api.post("/api/v1/runs", json=run, headers=bearer("root")).is_success
        api.post("/api/v1/jobs", json={**job, "job_id": queue, "queue": queue}, headers=bearer("root"))

    def status(who: str, on: str, **body: Any) -> int:
        return api.post(f"/api/v1/{on}/bulk", json={"all": True, **body}, headers=bearer(who)).status_code

    assert [status(who, "runs", action="cancel") for who in ("vera", "emil")] == [403, 403]
    assert status("olga", "jobs", action="delete") == 403
    assert status("olga", "runs", action="delete", all=None, filter={"state": ["failed"]}) == 403
    assert [status("lena", on, action="move", queue="theirs") for on in ("jobs", "runs")] == [403, 403]
    seen = api.post(
        "/api/v1/runs/bulk", json={"action": "cancel", "all": True, "dry_run": True}, headers=bearer("lena")
    )
    assert seen.json()["matching"] == 1
    mine = api.post("/api/v1/runs/bulk", json={"action": "cancel", "all": True}, headers=bearer("lena")).json()
    assert mine["counts"] == {"cancelled": 1}
    theirs = api.post("/api/v1/jobs/bulk", json={"action": "pause", "all": True}, headers=bearer("olga")).json()
    own = api.get("/api/v1/bulk", headers=bearer("lena")).json()["items"]
    assert [one["operation_id"] for one in own] == [mine["operation_id"]]
    for method, path in (("get", ""), ("post", "/stop"), ("post", "/undo")):
        address = f"/api/v1/bulk/{theirs['operation_id']}{path}"
        assert api.request(method, address, headers=bearer("lena")).status_code == 403
    assert status("root", "jobs", action="delete") == 202
