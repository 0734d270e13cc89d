"""Tokens with limits, and of the role enqueuer: they find no row of others, on any route, and change none."""

import hashlib
import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, text

from itinerary.protocol.errors import BadValues
from scheduler_service.config.settings import Settings
from scheduler_service.core.token_limits import Limits
from tests.api.test_auth import bearer
from tests.support.answering_leader import STATISTICS, AnsweringLeader
from tests.support.routes import NAMES, routes_of

pytestmark = pytest.mark.slow  # each route with each limit
HOURLY = {"kind": "hourly", "minute": 0}
SECRET = "theirs"
LIMITS = {"queues": "queues=mail,ours", "tasks": "tasks=ours.*,echo", "jobs": "jobs=ours."}
ROLES = {"admin": ("root",), "enqueuer": ("e1", "e2")}
QUERIES = ("", "?queue=theirs", "?job_id=theirs.job", "?state=cancelled", "?limit=1", "?total=true")
SERVED = (["ours"], [SECRET], ["ours", SECRET])
NONSENSE = ("", "queues=", "queues=a;queues=b", "teams=a", "tasks=*a*", "jobs=", "queues", "jobs=a,")
OPEN_TO_ALL = ("/sign-in", "/sign-out", "/shared/")
NEEDED = {
    "/api/v1/jobs/{job_id}/explain": "?at=2026-11-01T01:00:00Z",
    "/bulk/new": "?on=runs&action=cancel&scope=all",
    "/api/v1/calendars/of-all/days": "?year=2999",
    "/failures/backfill": "?from=2026-11-01T00:00:00Z&to=2026-11-01T03:00:00Z",
}
WINDOW = {"from": "2026-11-01T00:00:00Z", "to": "2026-11-01T03:00:00Z"}


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def settings_with(settings: Settings, *lines: str) -> Settings:
    tokens = Settings(api_tokens=",".join(lines)).api_tokens  # type: ignore[arg-type]  # a text is read
    return settings.model_copy(update={"api_tokens": tokens, "api_rate_limit": 0, "share_links": True})


@pytest.fixture
def shared(client_of: Callable[[Settings], TestClient], settings: Settings) -> TestClient:
    """An installation of two teams: every row of the other one bears the word `theirs`."""
    kinds = [
        f"{name}-{role}:{role}:{digest(f'{name}-{role}')}:{limits}"
        for name, limits in LIMITS.items() for role in ("viewer", "operator", "admin")
    ]  # fmt: skip
    others = [f"{name}:{role}:{digest(name)}" for role in ROLES for name in ROLES[role]]
    api = client_of(settings_with(settings, *kinds, *others, f"e3:enqueuer:{digest('e3')}:queues=ours;tasks=ours.*"))
    root = bearer("root")
    for mine in ("ours", SECRET):
        body = {
            "job_id": f"{mine}.job", "task": f"{mine}.task", "queue": mine, "schedule": HOURLY, "title": mine,
            "kwargs": {"card": f"{mine}-arguments"}, "tags": ["shared"],
        }  # fmt: skip
        assert api.post("/api/v1/jobs", json=body, headers=root).status_code == 201
        assert api.post(f"/api/v1/jobs/{mine}.job/trigger", headers=root).status_code == 202
        api.post(f"/api/v1/jobs/{mine}.job/backfill", json=WINDOW, headers=root)
        for number in range(3):
            once = {"task": f"{mine}.task", "queue": mine, "args": [mine, number]}
            assert api.post("/api/v1/runs", json=once, headers=root).status_code == 201
        cancelled = {"task": f"{mine}.task", "queue": mine, "run_at": "2999-01-01T00:00:00Z"}
        run_id = api.post("/api/v1/runs", json=cancelled, headers=root).json()["run_id"]
        assert api.post(f"/api/v1/runs/{run_id}/cancel", headers=root).status_code == 202
        closed = {**body, "job_id": f"{mine}.applied", "calendars": {"exclude": ["of-all"]}}
        assert api.put("/api/v1/calendars/of-all", json={"rules": [{"date": "2999-01-01"}]}, headers=root).is_success
        applied = {"source": f"{mine}-file", "jobs": [closed]}
        assert api.post("/api/v1/jobs/apply", json=applied, headers=root).status_code == 200
    return api


@pytest.fixture(autouse=True)
def queues_of_both(leader: AnsweringLeader) -> None:
    """The leader tells of queues and workers of both teams, and of one worker that serves both."""
    worker = {**STATISTICS["workers"][0], "running": []}
    queue = {**STATISTICS["queues"][0], "oldest_due_at": "2026-11-27T10:00:00Z"}
    leader.statistics = {
        **STATISTICS,
        "workers": [{**worker, "name": f"celery@{n}", "queues": served} for n, served in enumerate(SERVED)],
        "queues": [{**queue, "name": name, "pending": count} for name, count in (("ours", 3), (SECRET, 987))],
    }


def others_of(api: TestClient) -> tuple[list[str], dict[str, Any]]:
    found = api.get("/api/v1/runs?queue=theirs&limit=1000", headers=bearer("root")).json()["items"]
    assert found
    jobs = {job["job_id"]: job for job in api.get("/api/v1/jobs", headers=bearer("root")).json()["items"]}
    return [run["run_id"] for run in found], {name: job for name, job in jobs.items() if name.startswith(SECRET)}


def stored(api: TestClient) -> Any:
    """All that is there, as the administrator without limits sees it."""
    root = bearer("root")
    return [api.get(f"/api/v1/{what}?limit=1000", headers=root).json()["items"] for what in ("jobs", "runs", "audit")]


@pytest.mark.parametrize(("limit", "role"), [("queues", "admin"), ("tasks", "operator"), ("jobs", "viewer")])
def test_no_route_shows_a_row_of_others(shared: TestClient, leader: AnsweringLeader, limit: str, role: str) -> None:
    run_ids, jobs = others_of(shared)
    token = bearer(f"{limit}-{role}")
    addresses: set[str] = set()
    for _, path, route in routes_of(shared.app):  # type: ignore[arg-type]  # the application itself
        if "GET" not in route.methods or path.startswith(OPEN_TO_ALL):
            continue
        path = (
            path.replace("/manual/{name}", "/manual/runs")
            .replace("{name}", "overview.png")
            .replace("{calendar_id}", "of-all")
            .replace("{monitor_id}", "backup")
            .replace("{view}", "failures")
            .replace("{operation_id}", NAMES["operation_id"])
        )  # the same for everybody
        for job_id, run_id in itertools.product(jobs, [run_ids[0], run_ids[-1]]):
            address = path.replace("{job_id}", job_id).replace("{run_id}", run_id).replace("{queue}", SECRET)
            if address in addresses:
                continue
            addresses.add(address)
            answer = shared.get(address + NEEDED.get(path, ""), headers=token)
            named = address != path
            assert answer.status_code in ((404, 403) if named else (200, 403)), (address, answer.text)
            shown = answer.text
            for asked in (address, job_id, run_id) if named else ():  # what the caller itself named
                shown = shown.replace(asked, "")
            assert SECRET not in shown, (address, shown)
            assert not re.search(r"(?<![.\d])987\b", shown), (address, shown)  # a time may have these milliseconds
    assert len(addresses) > 60


@pytest.mark.parametrize(("limit", "listed", "served"), [
    ("queues", ["ours"], [["ours"], ["ours"]]), ("tasks", [], [[], [], []]), ("jobs", [], [[], [], []]),
])  # fmt: skip
def test_figures_of_queues_are_for_tokens_with_queues(
    shared: TestClient, limit: str, listed: list[str], served: list[list[str]]
) -> None:
    token = bearer(f"{limit}-viewer")
    found = shared.get("/api/v1/queues", headers=token).json()["items"]
    assert [queue["name"] for queue in found] == listed
    workers = shared.get("/api/v1/workers", headers=token).json()["items"]
    assert [worker["queues"] for worker in workers] == served
    assert shared.get("/api/v1/scheduler/status", headers=token).json()["workers"] == len(served)
    assert "No worker sends heartbeats" not in shared.get("/", headers=token).text
    for name, depth in (("ours", "3"), (SECRET, "987")):
        whole = shared.get("/api/v1/queues", headers=bearer("root")).json()["items"]
        assert str(next(queue for queue in whole if queue["name"] == name)["depth"]) == depth


@pytest.mark.parametrize("limit", LIMITS)
def test_why_a_run_of_ours_waits_is_told_with_its_queue(shared: TestClient, settings: Settings, limit: str) -> None:
    own = shared.get("/api/v1/runs?job_id=ours.job&limit=1", headers=bearer(f"{limit}-viewer")).json()["items"][0]
    engine = create_engine(settings.database_url)
    with engine.begin() as connection:
        sent = (
            "UPDATE runs SET state = 'pending', pending_at = created_at, published_at = created_at WHERE run_id = :id"
        )
        connection.execute(text(sent), {"id": own["run_id"]})
    engine.dispose()
    told = [shared.get(f"/api/v1/runs/{own['run_id']}/explain", headers=bearer(who)).json()
            for who in (f"{limit}-viewer", "root")]  # fmt: skip
    assert told[0] == told[1]
    assert "no worker" not in str(told[0]).lower()


def test_lists_hold_all_of_ours_and_nothing_else_with_every_filter(shared: TestClient) -> None:
    for limit, query in itertools.product(LIMITS, QUERIES):
        check_list(shared, limit, query)


def check_list(shared: TestClient, limit: str, query: str) -> None:
    seen: list[dict[str, Any]] = []
    address = f"/api/v1/runs{query}"
    while True:
        page = shared.get(address, headers=bearer(f"{limit}-viewer")).json()
        seen += page["items"]
        if page["next_cursor"] is None:
            break
        address = f"/api/v1/runs{query}{'&' if query else '?'}cursor={page['next_cursor']}"
    whole = {"": "?limit=1000", "?limit=1": "?limit=1000"}.get(query, f"{query}&limit=1000")
    wanted = shared.get(f"/api/v1/runs{whole}", headers=bearer("root"))
    ours = [
        run["run_id"] for run in wanted.json()["items"]
        if run["queue"] == "ours" and (limit != "jobs" or run["job_id"] is not None)
    ]  # fmt: skip
    assert [run["run_id"] for run in seen] == ours
    if query == "?total=true":
        assert page["total"] == len(ours)
    if query in ("", "?limit=1"):
        assert len(ours) >= 4


@pytest.mark.parametrize("limit", LIMITS)
def test_no_change_reaches_a_row_of_others(shared: TestClient, leader: AnsweringLeader, limit: str) -> None:
    run_ids, _ = others_of(shared)
    before = stored(shared)
    token = bearer(f"{limit}-admin")
    theirs = {"task": "theirs.task", "schedule": HOURLY, "queue": SECRET}
    calls: list[tuple[str, str, Any]] = [
        ("post", "/jobs", {**theirs, "job_id": "theirs.new"}), ("put", "/jobs/theirs.job", theirs),
        ("put", "/jobs/theirs.job", {"task": "ours.task", "schedule": HOURLY, "queue": "ours"}),
        ("patch", "/jobs/theirs.job", {"priority": 1}), ("delete", "/jobs/theirs.job", None),
        ("post", "/jobs/theirs.job/pause", {}), ("post", "/jobs/theirs.job/resume", None),
        ("post", "/jobs/theirs.job/trigger", {}), ("post", "/jobs/theirs.job/backfill", WINDOW),
        ("post", "/runs", {"task": "theirs.task", "queue": SECRET}),
        ("post", "/runs/batch", {"runs": [{"task": "theirs.task", "queue": SECRET}]}),
        ("post", f"/runs/{run_ids[0]}/cancel", None), ("post", f"/runs/{run_ids[0]}/retry", None),
        ("post", "/jobs/apply", {"source": "theirs-file", "jobs": [], "prune": True}),
        ("post", "/jobs/apply", {"source": "theirs-file", "jobs": [], "prune": True, "dry_run": True}),
        ("post", "/jobs/apply", {"source": "x", "jobs": [{**theirs, "job_id": "theirs.job"}], "take_over": True}),
        ("post", "/jobs/apply", {
            "source": "x", "take_over": True,
            "jobs": [{"job_id": "theirs.job", "task": "ours.task", "queue": "ours", "schedule": HOURLY}],
        }),
        ("post", "/jobs/apply", {"source": "x", "jobs": [], "monitors": {"theirs": {"schedule": HOURLY}}}),
        ("post", "/jobs/apply", {"source": "theirs-file", "jobs": [], "monitors": {}, "prune": True}),
        ("post", "/scheduler/rebalance", {}), ("post", "/scheduler/rebalance/undo", None),
        ("post", "/scheduler/rebalance/preview", None),
        ("put", f"/queues/{SECRET}", {"description": "x"}), ("post", f"/queues/{SECRET}/resume", None),
        ("post", f"/queues/{SECRET}/pause", {"reason": "x"}), ("patch", f"/queues/{SECRET}", {"description": "x"}),
    ]  # fmt: skip
    for method, path, body in calls:
        answer = shared.request(method, f"/api/v1{path}", json=body, headers=token)
        assert answer.status_code in (403, 404), (method, path, answer.status_code, answer.text)
        if answer.status_code == 403:
            assert answer.json()["type"] == "urn:itinerary:problem:outside-limits"
    assert stored(shared) == before
    edited = shared.patch("/api/v1/jobs/ours.job", json={"queue": SECRET, "task": "theirs.x"}, headers=token)
    assert edited.status_code == (200 if limit == "jobs" else 403), "a job cannot be moved out of the limits"


@pytest.mark.parametrize("limit", LIMITS)
def test_what_workers_know_is_no_page_of_a_limited_token(
    shared: TestClient, leader: AnsweringLeader, limit: str
) -> None:
    leader.tasks = {"tasks": ["ours.task", "theirs.task"], "complete": True}
    answer = shared.get("/api/v1/tasks", headers=bearer(f"{limit}-admin"))
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:itinerary:problem:outside-limits")
    assert shared.get("/api/v1/tasks", headers=bearer("root")).json()["items"] == ["ours.task", "theirs.task"]


@pytest.mark.parametrize("limit", LIMITS)
def test_ours_can_be_changed_and_the_log_shows_what_we_did(
    shared: TestClient, leader: AnsweringLeader, limit: str
) -> None:
    token = bearer(f"{limit}-admin")
    job = {"task": "ours.task", "queue": "ours", "schedule": HOURLY}
    assert shared.put("/api/v1/jobs/ours.new", json=job, headers=token).status_code == 201
    assert shared.put("/api/v1/jobs/ours.new", json={**job, "priority": 1}, headers=token).status_code == 200
    assert shared.post("/api/v1/jobs/ours.new/pause", headers=token).status_code == 200
    assert shared.post("/api/v1/jobs/ours.new/resume", headers=token).status_code == 200
    assert shared.post("/api/v1/jobs/ours.new/trigger", headers=token).status_code == 202
    assert shared.delete("/api/v1/jobs/ours.new", headers=token).status_code == 204
    for call, body in (("pause", {"reason": "x"}), ("resume", None)):
        queue = shared.post(f"/api/v1/queues/ours/{call}", json=body, headers=token)
        assert queue.status_code == (200 if limit == "queues" else 403), "others' tasks wait in it too"
    once = shared.post("/api/v1/runs", json={"task": "ours.task", "queue": "ours"}, headers=token)
    assert once.status_code == (403 if limit == "jobs" else 201), "what has no job lies outside of a limit to jobs"
    again = {"source": "ours-file", "jobs": [{**job, "job_id": "ours.applied", "priority": 2}], "prune": True}
    assert shared.post("/api/v1/jobs/apply", json=again, headers=token).status_code == 200
    entries = shared.get("/api/v1/audit", headers=token).json()["items"]
    assert {entry["actor"] for entry in entries} == {f"{limit}-admin"}
    assert shared.get("/api/v1/audit?actor=root", headers=token).json()["items"] == []


def test_an_enqueuer_has_to_do_with_its_own_runs_alone(shared: TestClient, leader: AnsweringLeader) -> None:
    first = shared.post("/api/v1/runs", json={"task": "t", "run_at": "2999-01-01T00:00:00Z"}, headers=bearer("e1"))
    batch = shared.post("/api/v1/runs/batch", json={"runs": [{"task": "t"}] * 2}, headers=bearer("e2"))
    assert (first.status_code, batch.status_code) == (201, 201)
    own = first.json()["run_id"]
    theirs = [run["run_id"] for run in batch.json()["runs"]]
    for name, ids in (("e1", [own]), ("e2", theirs)):
        seen = shared.get("/api/v1/runs?total=true", headers=bearer(name)).json()
        assert sorted(run["run_id"] for run in seen["items"]) == sorted(ids)
        assert seen["total"] == len(ids)
    assert shared.get(f"/api/v1/runs/{own}", headers=bearer("e1")).status_code == 200
    assert shared.get(f"/api/v1/runs/{own}/explain", headers=bearer("e1")).status_code == 200
    for run_id in theirs:
        assert shared.get(f"/api/v1/runs/{run_id}", headers=bearer("e1")).status_code == 404
        assert shared.get(f"/api/v1/runs/{run_id}/explain", headers=bearer("e1")).status_code == 404
        assert shared.get(f"/api/v1/runs/{run_id}/logs", headers=bearer("e1")).status_code == 404
        assert shared.post(f"/api/v1/runs/{run_id}/cancel", headers=bearer("e1")).status_code == 404
    assert shared.post(f"/api/v1/runs/{own}/cancel", headers=bearer("e1")).json()["state"] == "cancelled"


def test_an_enqueuer_is_let_in_nowhere_else(shared: TestClient, leader: AnsweringLeader) -> None:
    allowed = {"/api/v1/runs", "/api/v1/runs/batch", "/api/v1/runs/{run_id}", "/api/v1/runs/{run_id}/explain",
               "/api/v1/runs/{run_id}/cancel", "/api/v1/runs/{run_id}/logs", "/healthz", "/readyz",
               "/api/v1/monitors/{monitor_id}/ping"}  # fmt: skip  # that has a token of its own
    for method, path, _ in routes_of(shared.app):  # type: ignore[arg-type]  # the application itself
        if path not in allowed and not path.startswith(OPEN_TO_ALL):
            address = path.replace("{job_id}", "ours.job").replace("{run_id}", "x")
            answer = shared.request(method, address, headers=bearer("e1"))
            assert answer.status_code == 403, (method, path, answer.status_code)


def test_an_enqueuer_with_limits_enqueues_within_them(shared: TestClient) -> None:
    token = bearer("e3")
    assert shared.post("/api/v1/runs", json={"task": "ours.task", "queue": "ours"}, headers=token).status_code == 201
    for body in ({"task": "ours.task"}, {"task": "other", "queue": "ours"}):
        answer = shared.post("/api/v1/runs", json=body, headers=token)
        assert answer.json()["type"] == "urn:itinerary:problem:outside-limits"


def test_without_a_token_only_probes_answer(shared: TestClient) -> None:
    for method, path, _ in routes_of(shared.app):  # type: ignore[arg-type]  # the application itself
        answer = shared.request(method, path)
        is_open = path in ("/healthz", "/readyz") or path.startswith(OPEN_TO_ALL)
        assert (answer.status_code == 401) is not is_open, (method, path)


def test_limits_are_read_with_commas_within_and_between() -> None:
    limits = "queues=x,y;tasks=shop.*;jobs=shop."
    line = f"a:viewer:{digest('a')}:{limits}, b:operator:{digest('b')},c:enqueuer:{digest('c')}"
    a, b, c = Settings(api_tokens=line).api_tokens  # type: ignore[arg-type]  # a text is read
    assert a.limits == Limits(("x", "y"), ("shop.*",), ("shop.",))
    assert b.limits.none
    assert c.limits == Limits(owner="c")


@pytest.mark.parametrize("wrong", NONSENSE)
def test_limits_that_say_nothing_are_refused_at_start(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from scheduler_service.config.settings import load_settings

    monkeypatch.setenv("ITINERARY_API_TOKENS", f"a:viewer:{digest('a')}:{wrong}")
    with pytest.raises(BadValues, match="ITINERARY_API_TOKENS"):
        load_settings()
