"""No answer and no page shows a hidden value, and sending back what was shown loses none."""

from typing import Any

from fastapi.testclient import TestClient

SECRET = "s3cr3t-of-the-tests"


def test_answers_and_pages_hide_it_and_a_round_trip_keeps_it(api: TestClient, stores: Any, job: dict[str, Any]) -> None:
    sent = {**job, "kwargs": {"user": "u", "password": SECRET}}
    assert api.post("/api/v1/jobs", json=sent).status_code == 201
    job_id = job["job_id"]
    shown = api.get(f"/api/v1/jobs/{job_id}").json()
    assert shown["kwargs"] == {"user": "u", "password": "[redacted]"}
    assert api.put(f"/api/v1/jobs/{job_id}", json={**shown, "title": "other"}).status_code == 200
    assert stores.jobs.get(job_id).kwargs["password"] == SECRET
    assert api.patch(f"/api/v1/jobs/{job_id}", json={"kwargs": {"password": SECRET + "2"}}).status_code == 200
    run = api.post(f"/api/v1/jobs/{job_id}/trigger", json={"kwargs": shown["kwargs"]})
    assert stores.runs.get(run.json()["run_id"]).kwargs["password"] == SECRET + "2"
    pages = [f"/jobs/{job_id}", f"/jobs/{job_id}/edit", f"/runs/{run.json()['run_id']}", "/audit", "/api/v1/audit"]
    for page in [*pages, "/api/v1/jobs", "/api/v1/runs", f"/api/v1/runs/{run.json()['run_id']}/explain"]:
        answer = api.get(page)
        assert SECRET not in answer.text, page
    assert "kwargs.password" in api.get("/audit").text
    for path, body in (
        ("/api/v1/jobs", {**sent, "job_id": "another", "kwargs": shown["kwargs"]}),
        ("/api/v1/runs", {"task": "itinerary.echo", "kwargs": shown["kwargs"]}),
        ("/api/v1/jobs/apply", {"jobs": [{**sent, "kwargs": shown["kwargs"]}]}),
    ):
        refused = api.post(path, json=body)
        assert (refused.status_code, "kwargs.password" in refused.text) == (422, True), path
    plan = api.post("/api/v1/jobs/apply", json={"jobs": [sent], "dry_run": True})
    assert plan.status_code == 200
    assert SECRET not in plan.text
