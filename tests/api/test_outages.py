"""What is away, and what the API says then. Nothing is accepted that may be lost."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient

from scheduler_service.api.app import build_app
from scheduler_service.api.context import ApiContext, system_clock
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.bootstrap.parts import Stores, open_stores
from scheduler_service.config.settings import Settings
from tests.support.processes import free_port

RUNS = "/api/v1/runs"


@pytest.fixture
def api_over() -> Callable[[Settings], AbstractContextManager[TestClient]]:
    @contextmanager
    def opened(settings: Settings) -> Iterator[TestClient]:
        with open_stores(settings) as stores:
            context = ApiContext(settings, stores, LeaderLine(stores.inbox, system_clock), system_clock)
            with TestClient(build_app(context), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
                yield client

    return opened


def test_redis_may_be_away_and_what_is_asked_for_is_still_kept(
    api_over: Callable[..., Any], sqlite_url: str, stores: Stores, job: dict[str, Any]
) -> None:
    with api_over(Settings(database_url=sqlite_url, redis_url=f"redis://127.0.0.1:{free_port()}/0")) as api:
        answer = api.post(RUNS, json={"task": "t"})
        assert answer.status_code == 201
        assert stores.runs.get(answer.json()["run_id"]).task == "t"
        assert api.post("/api/v1/jobs", json=job).status_code == 201
        assert api.post(f"{RUNS}/{answer.json()['run_id']}/cancel").json()["state"] == "cancelled"
        assert api.get("/api/v1/workers").status_code == 503
        assert api.get("/api/v1/scheduler/status").json()["inbox_depth"] is None
        assert api.get("/readyz").json()["redis"] == "no answer"
        assert "Redis does not answer" in api.get("/").text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", RUNS, {"task": "t"}),
        ("POST", f"{RUNS}/batch", {"runs": [{"task": "t"}]}),
        ("GET", RUNS, None),
        ("POST", f"{RUNS}/x/cancel", None),
        ("GET", "/api/v1/jobs", None),
        ("DELETE", "/api/v1/jobs/x", None),
        ("GET", "/api/v1/scheduler/status", None),
        ("GET", "/api/v1/workers", None),
        ("GET", "/metrics", None),
    ],
)
def test_without_a_database_nothing_is_accepted_and_the_caller_is_told_to_come_again(
    api_over: Callable[..., Any], redis_url: str, method: str, path: str, body: Any
) -> None:
    database = f"postgresql://nobody:secret@127.0.0.1:{free_port()}/none"
    with api_over(Settings(database_url=database, redis_url=redis_url)) as api:
        answer = api.request(method, path, json=body)
        assert answer.status_code == 503, answer.text
        assert answer.headers["retry-after"] == "2"
        assert answer.headers["content-type"] == "application/problem+json"
        assert "secret" not in answer.text


def test_without_a_database_it_is_alive_and_not_ready_and_the_page_says_why(
    api_over: Callable[..., Any], redis_url: str
) -> None:
    database = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
    with api_over(Settings(database_url=database, redis_url=redis_url)) as api:
        assert api.get("/healthz").status_code == 200
        ready = api.get("/readyz")
        assert (ready.status_code, ready.json()["database"]) == (503, "no answer")
        page = api.get("/")
        assert page.status_code == 200
        assert "The database does not answer" in page.text


@pytest.mark.postgres
def test_the_main_calls_work_on_postgresql_too(
    api_over: Callable[..., Any], postgres_url: str, redis_url: str, job: dict[str, Any]
) -> None:
    kwargs = {"text": "späti 🚲", "n": 2**63 - 1, "f": 1e16, "deep": [[[{"": []}]]]}
    with api_over(Settings(database_url=postgres_url, redis_url=redis_url)) as api:
        assert api.post("/api/v1/jobs", json={**job, "kwargs": kwargs}).json()["kwargs"] == kwargs
        assert api.put("/api/v1/jobs/a.job", json=api.get("/api/v1/jobs/a.job").json()).json()["version"] == 1
        run = api.post("/api/v1/jobs/a.job/trigger").json()
        assert api.get(f"{RUNS}/{run['run_id']}").json()["kwargs"] == kwargs
        assert api.post(RUNS, json={"task": "t", "idempotency_key": "k"}).status_code == 201
        assert api.post(RUNS, json={"task": "t", "idempotency_key": "k"}).status_code == 200
        assert api.post(RUNS, json={"task": "u", "idempotency_key": "k"}).status_code == 409
        assert [r["task"] for r in api.get(f"{RUNS}?limit=1").json()["items"]] == ["t"]
        assert api.post(f"{RUNS}/{run['run_id']}/cancel").json()["state"] == "cancelled"
        assert api.get("/").status_code == 200
