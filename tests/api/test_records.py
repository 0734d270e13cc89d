"""Explanations and the audit log over HTTP, on real databases."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from itinerary.protocol.instants import HOUR, MINUTE, SECOND, format_instant
from scheduler_service.config.settings import Settings
from scheduler_service.core.leader.commands import Apply, CreateRuns, Dispatch, LateReport, Transition
from scheduler_service.core.leader.messages import Query
from scheduler_service.core.leader.queries import answer
from scheduler_service.core.model import MissedRange
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.sql.database import Database
from scheduler_service.sql.jobs import SqlJobStore
from tests.api.test_auth import bearer, guarded_settings
from tests.api.test_limited_tokens import digest, settings_with
from tests.support.answering_leader import AnsweringLeader
from tests.support.gate import T0, Gate, limit, waiting
from tests.support.led import Led
from tests.support.store_bed import occurrence

HOURLY = {"kind": "hourly", "minute": 17}


@pytest.fixture
def settings(database_url: str, redis_url: str) -> Settings:
    return Settings(database_url=database_url, redis_url=redis_url)


@pytest.fixture
def led(settings: Settings) -> Iterator[Led]:
    with closing(Database(settings.database_url, pool_size=2)) as database:
        yield Led(database)


@pytest.fixture
def hourly(api: TestClient) -> str:
    made = api.post("/api/v1/jobs", json={"job_id": "a.job", "task": "t", "schedule": HOURLY})
    assert made.status_code == 201
    return str(made.json()["next_runs"][0])


def explain(api: TestClient, at: str) -> dict[str, Any]:
    answer = api.get("/api/v1/jobs/a.job/explain", params={"at": at})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_an_occurrence_to_come_is_explained_and_then_who_paused_it(api: TestClient, led: Led, hourly: str) -> None:
    assert explain(api, hourly)["verdict"] == "not_yet_due"
    assert explain(api, hourly.replace(":17:", ":18:"))["verdict"] == "never_due"
    api.post("/api/v1/jobs/a.job/pause", json={"reason": "audit"})
    paused = explain(api, hourly)
    assert paused["verdict"] == "paused"
    assert 'by loopback: "audit"' in paused["text"]
    assert paused["because"][0]["row"]["actor"] == "loopback"
    api.delete("/api/v1/jobs/a.job")
    assert explain(api, hourly)["verdict"] == "deleted", "a deleted job is still explained"


def test_a_misfire_names_its_gap_and_the_time_without_a_leader(api: TestClient, led: Led, hourly: str) -> None:
    began = led.lease.now
    led.leases.resign(led.lease)
    led.lease = led.lead("two")
    api.put("/api/v1/jobs/b", json={"task": "t", "schedule": {"kind": "interval", "every": "1s"}})
    at = SqlJobStore(led.database).get("b").created_at // SECOND * SECOND + 2 * SECOND
    missed_range = MissedRange("b", at, at + 3 * SECOND, 3, "misfire skip: later than 30s")
    led.store.create_runs(led.lease, CreateRuns((), at + MINUTE, missed_ranges=(missed_range,)))
    answer = api.get("/api/v1/jobs/b/explain", params={"at": format_instant(at)}).json()
    assert answer["verdict"] == "misfire"
    assert answer["because"][-1]["row"]["table"] == "gaps"
    assert answer["because"][-1]["row"]["count"] == 3
    assert began <= at


def test_a_run_is_explained_from_its_release_to_its_late_reports(api: TestClient, led: Led, settings: Settings) -> None:
    run_id = api.post("/api/v1/runs", json={"task": "t", "queue": "mail"}).json()["run_id"]
    now = led.lease.now + SECOND
    assert led.store.dispatch_runs(led.lease, [Dispatch(run_id, 1, 1)], now + HOUR).dispatched
    with AnsweringLeader(settings.redis_url):
        pending = api.get(f"/api/v1/runs/{run_id}/explain").json()
    assert pending["verdict"] == "no_worker"
    assert "queue mail" in pending["text"]
    failed = Transition(run_id, 1, Event.FAIL, RunState.FAILED, now, "lost", error={"type": "Lost", "message": "gone"})
    late = LateReport(run_id, 1, "succeeded", now + MINUTE, "celery@b", None)
    led.store.apply(led.lease, Apply((failed,), late=(late,)))
    lost = api.get(f"/api/v1/runs/{run_id}/explain").json()
    assert lost["verdict"] == "lost"
    assert "came after it was over" in lost["text"]
    shown = api.get(f"/api/v1/runs/{run_id}").json()["attempts"][-1]["late_reports"]
    assert (shown["count"], shown["kind"], shown["worker"]) == (1, "succeeded", "celery@b")


@pytest.mark.slow
def test_a_late_run_names_the_pause_and_the_run_ahead_that_held_it_back(
    api: TestClient, led: Led, settings: Settings, client_of: Callable[[Settings], TestClient]
) -> None:
    made = {"task": "t", "queue": "mail", "schedule": HOURLY, "overlap": "queue_all"}
    assert api.put("/api/v1/jobs/a.job", json=made).status_code == 201
    job = SqlJobStore(led.database).get("a.job")
    api.post("/api/v1/jobs/a.job/pause", json={"reason": "audit"})
    now = led.leases.renew(led.lease, HOUR).now  # within the pause, however slow the machine is
    runs = [occurrence(job, at, queue=queue) for at, queue in ((now - HOUR, "mail"), (now, "post"), (now + 1, "mail"))]
    led.store.create_runs(led.lease, CreateRuns(tuple(runs), cursor=now + MINUTE))
    old, ahead, late = (run.run_id for run in runs)
    api.post("/api/v1/jobs/a.job/resume")
    with led.database.write() as connection:
        connection.execute(text("UPDATE jobs SET planned_version = version"))
    for run_id, pending_at, finished_at in (
        (old, now - HOUR, now - HOUR + MINUTE), (ahead, now + SECOND, now + 29 * MINUTE), (late, now + HOUR, None),
    ):  # fmt: skip
        assert led.store.dispatch_runs(led.lease, [Dispatch(run_id, 1, 1)], max(pending_at, now + SECOND)).dispatched
        if finished_at is not None:
            done = Transition(run_id, 1, Event.SUCCEED, RunState.COMPLETED, finished_at)
            led.store.apply(led.lease, Apply((done,)))
    why = api.get(f"/api/v1/runs/{late}/explain").json()
    assert 'by loopback: "audit". It was held back until ' in why["text"]
    assert ", when loopback resumed it." in why["text"]
    ended = format_instant(now + 29 * MINUTE)
    assert f"Run {ahead} of the same job ended at {ended} as completed, and this one had to wait" in why["text"]
    assert old not in why["text"]
    limited = client_of(settings_with(settings, f"ann:viewer:{digest('ann')}:queues=mail"))
    seen = limited.get(f"/api/v1/runs/{late}/explain", headers=bearer("ann")).json()
    assert (seen["verdict"], ahead in seen["text"]) == (why["verdict"], False)


@pytest.mark.slow
def test_a_run_that_waits_for_a_limit_names_it_and_its_holders(
    api: TestClient, led: Led, settings: Settings, client_of: Callable[[Settings], TestClient]
) -> None:
    api.put("/api/v1/limits/tenant", json={"concurrency": 1, "per_key": True})
    named = {"task": "t", "limits": [{"name": "tenant", "key": "acme"}]}
    ids = [
        api.post("/api/v1/runs", json={**named, "queue": queue}).json()["run_id"] for queue in ("post", "mail", "mail")
    ]
    one = Gate()
    one.edit(tenant=limit(1, overrides={"acme": 1}))
    one.beat()
    assert one.due(*(waiting(run_id, ("tenant", "acme")) for run_id in ids[:2])) == ids[:1]
    one.dispatched(ids[0])
    path = f"/api/v1/runs/{ids[1]}/explain"
    with AnsweringLeader(settings.redis_url) as leader:
        leader.waiting = lambda question: answer(one.state, question, one.now)
        held, not_in_memory = (api.get(f"/api/v1/runs/{run_id}/explain").json() for run_id in ids[1:])
        limited = client_of(settings_with(settings, f"ann:viewer:{digest('ann')}:queues=mail"))
        seen = limited.get(path, headers=bearer("ann")).json()
        assert not any(m.what == "statistics" for m in leader.reported if isinstance(m, Query)), "it scans all runs"
        leader.waiting = None
        assert api.get(path).json()["verdict"] == "waiting", "a leader of the release before does not know the question"
        leader.waiting = lambda _: {"failed": True}
        assert "The leader does not answer" in api.get(path).json()["text"]
    text = f"It waits for limit tenant/acme: 1 of 1 in flight, held by run {ids[0]} since {format_instant(T0)}"
    assert (held["verdict"], not_in_memory["verdict"]) == ("waiting_for_limit", "waiting_for_limit")
    assert held["text"].endswith(f"{text}; none waits before it.")
    assert not_in_memory["text"].endswith(f"{text}.")
    assert (seen["verdict"], ids[0] in seen["text"]) == ("waiting_for_limit", False), "another queue's run is not named"


@pytest.mark.slow
def test_a_recalled_run_says_so(api: TestClient, led: Led) -> None:
    run_id = api.post("/api/v1/runs", json={"task": "t", "queue": "mail"}).json()["run_id"]
    now = led.lease.now + SECOND
    assert led.store.dispatch_runs(led.lease, [Dispatch(run_id, 1, 1)], now).dispatched
    back = Transition(run_id, 1, Event.RECALL, RunState.SCHEDULED, now + SECOND, "recalled: queue mail is paused")
    led.store.apply(led.lease, Apply((back,)))
    text = api.get(f"/api/v1/runs/{run_id}/explain").json()["text"]
    assert f"taken back from queue mail at {format_instant(now + SECOND)}: queue mail is paused." in text


@pytest.mark.slow
def test_who_cancelled_a_run_is_told(api: TestClient, led: Led) -> None:
    run_id = api.post("/api/v1/runs", json={"task": "t", "run_at": "2999-01-01T00:00:00Z"}).json()["run_id"]
    assert api.get(f"/api/v1/runs/{run_id}/explain").json()["verdict"] == "not_yet_due"
    api.post(f"/api/v1/runs/{run_id}/cancel")
    cancelled = api.get(f"/api/v1/runs/{run_id}/explain").json()
    assert cancelled["verdict"] == "cancelled"
    assert "requested by loopback" in cancelled["text"]


def test_without_a_leader_that_is_the_explanation(api: TestClient) -> None:
    run_id = api.post("/api/v1/runs", json={"task": "t"}).json()["run_id"]
    assert api.get(f"/api/v1/runs/{run_id}/explain").json()["verdict"] == "no_leader"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/jobs/nobody/explain?at=2026-12-01T01:00:00Z", 404),
        ("/jobs/%00/explain?at=2026-12-01T01:00:00Z", 404),
        ("/jobs/a.job/explain", 422),
        ("/jobs/a.job/explain?at=yesterday", 422),
        ("/runs/nobody/explain", 404),
        ("/runs/%20/explain", 404),
    ],
)
def test_what_cannot_be_explained_is_a_problem(api: TestClient, hourly: str, path: str, status: int) -> None:
    answer = api.get(f"/api/v1{path}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_every_mutating_call_is_in_the_audit_log_with_the_tokens_name(
    client_of: Callable[[Settings], TestClient], settings: Settings, job: dict[str, Any]
) -> None:
    api = client_of(guarded_settings(settings))
    job_path = f"/api/v1/jobs/{job['job_id']}"
    api.post("/api/v1/jobs", json=job, headers=bearer("operator"))
    api.put(job_path, json={**job, "title": "x"}, headers=bearer("operator"))
    api.patch(job_path, json={"title": "y"}, headers=bearer("operator"))
    api.post(f"{job_path}/pause", headers=bearer("operator"))
    api.post(f"{job_path}/resume", headers=bearer("operator"))
    api.post("/api/v1/jobs/apply", json={"jobs": [{**job, "title": "z"}]}, headers=bearer("operator"))
    triggered = api.post(f"{job_path}/trigger", headers=bearer("operator")).json()["run_id"]
    api.post("/api/v1/runs", json={"task": "t"}, headers=bearer("operator"))
    api.post("/api/v1/runs/batch", json={"runs": [{"task": "t"}, {"task": "t"}]}, headers=bearer("operator"))
    api.post(f"/api/v1/runs/{triggered}/cancel", headers=bearer("operator"))
    api.post(f"/api/v1/runs/{triggered}/retry", headers=bearer("operator"))
    api.delete(job_path, headers=bearer("admin"))
    page = api.get("/api/v1/audit", headers=bearer("admin"), params={"limit": 100}).json()
    assert [entry["action"] for entry in reversed(page["items"])] == [
        "job.create", "job.put", "job.patch", "job.pause", "job.resume", "job.apply", "job.trigger", "run.enqueue",
        "run.enqueue", "run.cancel", "run.retry", "job.delete",
    ]  # fmt: skip
    assert {(entry["actor"], entry["role"]) for entry in page["items"]} == {
        ("a-operator", "operator"), ("a-admin", "admin"),
    }  # fmt: skip
    assert page["next_cursor"] is None


def test_the_audit_log_is_paged_and_filtered(api: TestClient, hourly: str) -> None:
    for _ in range(3):
        api.post("/api/v1/jobs/a.job/pause")
        api.post("/api/v1/jobs/a.job/resume")
    seen: list[dict[str, Any]] = []
    wanted = {"limit": "2", "subject": "a.job"}
    while wanted.get("cursor") or not seen:
        page = api.get("/api/v1/audit", params=wanted).json()
        seen += page["items"]
        wanted["cursor"] = page["next_cursor"]
    assert [entry["action"] for entry in seen] == ["job.resume", "job.pause"] * 3 + ["job.create"]
    pauses = api.get("/api/v1/audit", params={"action": "job.pause", "since": seen[-1]["at"]}).json()["items"]
    assert [entry["after"]["paused"] for entry in pauses] == [True] * 3
    assert api.get("/api/v1/audit", params={"cursor": "x"}).status_code == 422
