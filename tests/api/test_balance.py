"""Distribution and rebalance over HTTP and on the pages, with a real leader behind them."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from fastapi.testclient import TestClient

from scheduler_service.config.settings import ApiToken, Settings
from scheduler_service.sql.database import Database, host_now
from tests.support.forms import token
from tests.support.leading import LeaderThread
from tests.support.placed_jobs import cluster
from tests.support.processes import wait_until

pytestmark = pytest.mark.slow  # real processes, or many round trips

NAMES = [f"crawl.source-{n:02}" for n in range(12)]
BALANCED = {"kind": "interval", "every": "1h", "balanced": True}


@pytest.fixture
def led(settings: Settings, api: TestClient) -> Iterator[LeaderThread]:
    """A leader over a schedule that is all in one half hour; the first job is pinned."""
    with closing(Database(settings.database_url, pool_size=1)) as database:
        cluster(database, NAMES, host_now(), pinned=1)
    with LeaderThread(settings.database_url, settings.redis_url) as leader:
        wait_until(lambda: api.get("/readyz").status_code == 200, what="a leader")
        yield leader


def posted(api: TestClient, path: str, body: dict[str, Any] | None = None, status: int = 200) -> dict[str, Any]:
    answer = api.post(f"/api/v1/scheduler/{path}", json=body)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def next_run(api: TestClient, job_id: str) -> str:
    upcoming: list[str] = api.get(f"/api/v1/jobs/{job_id}").json()["next_runs"]
    return upcoming[0] if upcoming else ""


def test_a_balanced_job_is_made_without_times_and_has_them_moments_later(api: TestClient, led: LeaderThread) -> None:
    made = [api.post("/api/v1/jobs", json={"job_id": name, "task": "t", "schedule": BALANCED}).json() for name in "ab"]
    assert [job["version"] for job in made] == [1, 1]
    times = [wait_until(lambda name=name: next_run(api, name), what="a place") for name in "ab"]  # type: ignore[misc]
    assert times[0] != times[1]
    seen = api.get("/api/v1/jobs/a").json()
    assert (seen["version"], seen["warnings"]) == (1, [])


def test_a_balanced_schedule_that_nobody_saved_has_no_times_and_says_why(api: TestClient) -> None:
    seen = api.post("/api/v1/preview", json={"schedule": BALANCED}).json()
    assert seen["occurrences"] == []
    assert "the leader places it" in seen["warnings"][0]
    assert seen["text"] == "Every hour, to be placed by the scheduler"


def test_the_distribution_is_what_the_contract_says(api: TestClient, led: LeaderThread) -> None:
    seen = api.get("/api/v1/scheduler/distribution").json()
    assert (seen["window_hours"], seen["slot_minutes"], seen["total_jobs"]) == (24, 15, 12)
    assert [entry["hour"] for entry in seen["hourly_distribution"]] == list(range(24))
    assert sum(entry["job_count"] for entry in seen["hourly_distribution"]) == 48
    assert seen["peak_count"] == max(entry["job_count"] for entry in seen["hourly_distribution"]) >= 6
    assert 0 < seen["distribution_score"] < 0.5
    assert "consider a rebalance" in seen["suggestion"]
    assert len(seen["slot_distribution"]) == 96


def test_what_a_preview_shows_is_what_its_plan_does_and_an_undo_takes_it_back(
    api: TestClient, led: LeaderThread
) -> None:
    before = {name: next_run(api, name) for name in NAMES}
    plan = posted(api, "rebalance/preview")
    assert {name: next_run(api, name) for name in NAMES} == before
    assert plan["would_move"] == len(plan["preview"]) > 5
    assert plan["skipped"] == [{"job_id": NAMES[0], "reason": "pinned"}]
    done = posted(api, "rebalance", {"plan_id": plan["plan_id"]})
    expected = before | {move["job_id"]: move["proposed_time"] for move in plan["preview"]}
    assert {name: next_run(api, name) for name in NAMES} == expected
    assert done["new_distribution_score"] == plan["projected_score"] > plan["current_score"]
    assert {m["job_id"]: m["new_time"] for m in done["moved"]} == {
        m["job_id"]: m["proposed_time"] for m in plan["preview"]
    }
    undone = posted(api, "rebalance/undo")
    assert len(undone["moved"]) == len(done["moved"])
    assert {name: next_run(api, name) for name in NAMES} == before
    said = [entry["action"] for entry in api.get("/api/v1/audit").json()["items"]]
    assert said[:2] == ["scheduler.undo", "scheduler.rebalance"]


def test_a_rebalance_needs_no_preview_and_a_plan_that_is_not_known_is_refused(
    api: TestClient, led: LeaderThread
) -> None:
    assert "new preview" in posted(api, "rebalance", {"plan_id": "never-made"}, 409)["detail"]
    assert len(posted(api, "rebalance")["moved"]) > 5
    assert posted(api, "rebalance")["moved"] == []


@pytest.mark.parametrize("body", [{"plan_id": 7}, {"plan_id": ""}, {"plan_id": "x" * 201}, {"plan": "x"}])
def test_a_body_that_names_no_plan_is_refused_by_name(api: TestClient, body: dict[str, Any]) -> None:
    assert posted(api, "rebalance", body, 422)["errors"][0]["loc"] == [next(iter(body))]


def test_without_a_leader_the_caller_is_told_to_come_again(api: TestClient) -> None:
    assert api.get("/api/v1/scheduler/distribution").status_code == 503
    for path in ("rebalance", "rebalance/preview", "rebalance/undo"):
        assert posted(api, path, status=503)["status"] == 503


def test_who_only_reads_may_look_but_not_move(
    client_of: Callable[[Settings], TestClient], settings: Settings, led: LeaderThread
) -> None:
    digest = {"reader": "3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30"}
    token = ApiToken(name="reader", role="viewer", sha256=digest["reader"])
    api = client_of(settings.model_copy(update={"api_tokens": (token,)}))
    bearer = {"Authorization": "Bearer reader"}
    assert api.post("/api/v1/scheduler/rebalance/preview", headers=bearer).status_code == 200
    for path in ("/api/v1/scheduler/rebalance", "/api/v1/scheduler/rebalance/undo"):
        assert api.post(path, headers=bearer).status_code == 403
    for path in ("/parts/rebalance/preview", "/parts/rebalance?plan_id=x", "/parts/rebalance/undo"):
        assert api.post(path, headers=bearer).status_code == 403
    panel = api.get("/parts/distribution", headers=bearer).text
    assert "<svg" in panel
    assert "rebalance-button" not in panel


def test_the_panel_and_the_dialog_are_drawn_without_styles_or_scripts_of_their_own(
    api: TestClient, led: LeaderThread
) -> None:
    guard = token(api)
    panel = api.get("/parts/distribution")
    preview = api.post("/parts/rebalance/preview", headers=guard)
    plan_id = re.search(r"plan_id=([^\"]+)", preview.text)
    assert plan_id is not None
    result = api.post(f"/parts/rebalance?plan_id={plan_id[1]}", headers=guard)
    undone = api.post("/parts/rebalance/undo", headers=guard)
    for answer in (panel, preview, result, undone):
        assert "script-src 'self';" in answer.headers["content-security-policy"]
        assert re.search(r"<script|\bstyle=|\bon\w+=|javascript:", answer.text) is None
    assert panel.text.count('<rect class="bar') in (24, 25)
    assert panel.text.count('class="heat-') == 96
    assert "is pinned" in preview.text
    assert "jobs were moved" in result.text
    assert 'id="undo-rebalance"' in result.text
    assert "jobs were moved back" in undone.text


def test_what_goes_wrong_is_said_in_the_part_itself(api: TestClient) -> None:
    assert "nobody leads" in api.get("/parts/distribution").text
    for path in ("/parts/rebalance/preview", "/parts/rebalance?plan_id=x", "/parts/rebalance/undo"):
        assert 'role="alert"' in api.post(path, headers=token(api)).text
