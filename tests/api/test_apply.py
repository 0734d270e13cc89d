"""POST /jobs/apply: what a plan says, what it refuses, what the leader hears."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from scheduler_service.core.leader.messages import JobChanged
from tests.support.answering_leader import AnsweringLeader

APPLY = "/api/v1/jobs/apply"


@pytest.fixture
def jobs() -> list[dict[str, Any]]:
    return [
        {"job_id": "a", "task": "t", "schedule": {"kind": "cron", "expr": "0 2 * * *"}},
        {"job_id": "b", "task": "t", "schedule": {"kind": "hourly", "minute": 17}},
    ]


def test_a_dry_run_changes_nothing_and_its_version_lets_exactly_that_be_applied(
    api: TestClient, jobs: list[dict[str, Any]]
) -> None:
    planned = api.post(APPLY, json={"source": "shop", "jobs": jobs, "dry_run": True}).json()
    assert [job["job_id"] for job in planned["added"]] == ["a", "b"]
    assert planned["applied"] is False
    assert api.get("/api/v1/jobs").json()["items"] == []
    body = {"source": "shop", "jobs": jobs, "plan_version": planned["plan_version"]}
    assert api.post(APPLY, json=body).json()["applied"] is True
    stale = api.post(APPLY, json=body)
    assert (stale.status_code, stale.headers["content-type"]) == (409, "application/problem+json")
    owned = api.get("/api/v1/jobs", params={"source": "shop"}).json()["items"]
    assert [(job["job_id"], job["source"]) for job in owned] == [("a", "shop"), ("b", "shop")]


def test_the_leader_hears_of_what_changed_and_of_nothing_else(
    api: TestClient, jobs: list[dict[str, Any]], leader: AnsweringLeader
) -> None:
    api.post(APPLY, json={"source": "shop", "jobs": jobs})
    jobs[0]["title"] = "new"
    third = {**jobs[1], "job_id": "c"}
    api.post(APPLY, json={"source": "shop", "jobs": [jobs[0], third], "prune": True})
    leader.wait_for(JobChanged("b", "removed"))
    heard = [JobChanged("a", "added"), JobChanged("b", "added")]
    assert leader.told() == [*heard, JobChanged("c", "added"), JobChanged("a", "modified"), JobChanged("b", "removed")]


def test_a_plan_warns_of_tasks_that_no_worker_knows(
    api: TestClient, jobs: list[dict[str, Any]], leader: AnsweringLeader
) -> None:
    jobs[1]["task"] = "nobodys"
    body = {"source": "shop", "jobs": jobs}
    leader.tasks = {"tasks": ["t"], "complete": False}
    assert api.post(APPLY, json={**body, "dry_run": True}).json()["warnings"] == []
    leader.tasks = {"tasks": ["t"], "complete": True}
    text = "no living worker knows the task nobodys: runs fail until one does; see `itinerary tasks`"
    for more in ({"dry_run": True}, {}):
        answer = api.post(APPLY, json={**body, **more})
        assert (answer.status_code, answer.json()["warnings"]) == (200, [{"job_id": "b", "msg": text}])


def test_every_bad_value_of_every_job_is_named_with_its_place(api: TestClient, jobs: list[dict[str, Any]]) -> None:
    jobs[0]["schedule"] = {"kind": "cron", "expr": "61 * * * *"}
    jobs[1]["priority"] = 10
    answer = api.post(APPLY, json={"source": "-", "jobs": [*jobs, 3], "prune": "yes", "colour": 1})
    assert answer.status_code == 422
    places = [".".join(error["loc"]) for error in answer.json()["errors"]]
    assert places == ["colour", "prune", "jobs.0.schedule.expr", "jobs.1.priority", "jobs.2", "source"]
    assert api.get("/api/v1/jobs").json()["items"] == []


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "jobs"),
        ({"jobs": [], "prune": True}, "prune"),
        ({"jobs": [], "source": "s", "plan_version": 3}, "plan_version"),
    ],
)
def test_a_request_that_says_too_little_is_refused(api: TestClient, body: dict[str, Any], place: str) -> None:
    answer = api.post(APPLY, json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"] == [place]


def test_a_job_of_another_source_is_a_conflict_until_it_is_taken_over(
    api: TestClient, jobs: list[dict[str, Any]]
) -> None:
    api.post(APPLY, json={"source": "shop", "jobs": jobs})
    mine = {"source": "store", "jobs": jobs[:1]}
    refused = api.post(APPLY, json=mine)
    assert refused.status_code == 409
    assert "a (shop)" in refused.json()["detail"]
    taken = api.post(APPLY, json={**mine, "take_over": True}).json()
    assert taken["changed"] == [
        {"job_id": "a", "version": 1, "changes": [{"field": "source", "before": "shop", "after": "store"}]}
    ]


def test_what_may_surprise_is_told_with_the_plan(api: TestClient, jobs: list[dict[str, Any]]) -> None:
    jobs[0]["schedule"]["expr"] = "0 0 13 * fri"
    (warning,) = api.post(APPLY, json={"jobs": jobs, "dry_run": True}).json()["warnings"]
    assert warning["job_id"] == "a"
    assert "EITHER" in warning["msg"]


@pytest.mark.slow
def test_a_thousand_jobs_are_applied_at_once(api: TestClient) -> None:
    jobs = [{"job_id": f"j{n}", "task": "t", "schedule": {"kind": "interval", "every": "25m"}} for n in range(1000)]
    assert len(api.post(APPLY, json={"source": "many", "jobs": jobs}).json()["added"]) == 1000
    assert api.post(APPLY, json={"source": "many", "jobs": jobs}).json()["unchanged"] == 1000
    gone = api.post(APPLY, json={"source": "many", "jobs": [], "prune": True}).json()["removed"]
    assert len(gone) == 1000


def test_monitors_are_planned_and_applied_with_the_jobs_and_without_a_token(
    api: TestClient, jobs: list[dict[str, Any]]
) -> None:
    monitors = {"backup": {"schedule": {"kind": "cron", "expr": "0 2 * * *"}, "grace": "30m"}}
    body = {"source": "shop", "jobs": jobs, "monitors": monitors, "prune": True}
    planned = api.post(APPLY, json={**body, "dry_run": True}).json()
    assert [one["monitor_id"] for one in planned["monitors"]["added"]] == ["backup"]
    done = api.post(APPLY, json={**body, "plan_version": planned["plan_version"]})
    assert "mon_" not in done.text
    assert api.get("/api/v1/monitors/backup").json()["source"] == "shop"
    token = api.post("/api/v1/monitors/backup/token").json()["token"]
    assert api.post(f"/api/v1/monitors/backup/ping?token={token}").json()["state"] == "up"
    kept = api.post(APPLY, json={"source": "shop", "jobs": jobs, "prune": True}).json()
    assert kept["monitors"] == {"added": [], "changed": [], "removed": [], "left": [], "unchanged": 0}
    pruned = api.post(APPLY, json={**body, "monitors": {}}).json()
    assert [one["monitor_id"] for one in pruned["monitors"]["removed"]] == ["backup"]
    assert api.get("/api/v1/monitors/backup").status_code == 404


def test_every_bad_value_of_a_monitor_is_named_with_its_place(api: TestClient, jobs: list[dict[str, Any]]) -> None:
    monitors = {"backup": {"schedule": {"kind": "cron", "expr": "61 * * * *"}, "colour": 1}, "b:": {}, "c": 3}
    answer = api.post(APPLY, json={"source": "shop", "jobs": jobs, "monitors": monitors})
    places = [".".join(error["loc"]) for error in answer.json()["errors"]]
    assert answer.status_code == 422
    assert places == [
        "monitors.backup.colour", "monitors.backup.schedule.expr", "monitors.b:.monitor_id", "monitors.b:.schedule",
        "monitors.c",
    ]  # fmt: skip
    assert api.post(APPLY, json={"jobs": jobs, "monitors": []}).json()["errors"][0]["loc"] == ["monitors"]
    assert api.get("/api/v1/jobs").json()["items"] == []
