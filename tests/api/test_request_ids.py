"""The id of a request: the same in its answer, in its problem document and in what is logged meanwhile."""

import io
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
import structlog
from fastapi.testclient import TestClient

from scheduler_service.api.http import problems
from scheduler_service.config.settings import Settings
from scheduler_service.observability.logs import configure_logs
from scheduler_service.sql.runs import SqlRunStore
from tests.api.test_auth import bearer, guarded_settings
from tests.support.routes import address_of, routes_of
from tests.support.site import serving


@pytest.mark.slow
def test_every_answer_has_one_and_no_two_the_same(api: TestClient) -> None:
    ids = set()
    for method, path, _ in routes_of(api.app):  # type: ignore[arg-type]  # the application itself
        answer = api.request(method, address_of(path))
        ids.add(answer.headers["x-request-id"])
        if answer.headers.get("content-type") == "application/problem+json":
            assert answer.json()["request_id"] == answer.headers["x-request-id"], path
    assert len(ids) == sum(1 for _ in routes_of(api.app))  # type: ignore[arg-type]
    for answer in (api.get("/static/itinerary.css"), api.get("/nowhere"), api.put("/healthz")):
        assert answer.headers["x-request-id"]


@pytest.mark.parametrize(("given", "kept"), [("proxy-17.a_B", True), ("x" * 65, False), ("a b", False), ("", False)])
def test_a_plain_id_of_the_caller_is_kept(api: TestClient, given: str, kept: bool) -> None:
    answer = api.get("/healthz", headers={"X-Request-Id": given})
    assert (answer.headers["x-request-id"] == given) is kept


def test_refusals_before_any_route_have_one_too(
    client_of: Callable[[Settings], TestClient], settings: Settings, rate_clock: list[float], api: TestClient
) -> None:
    foreign = api.post("/api/v1/runs", headers={"Origin": "http://evil.example"})
    large = api.post("/api/v1/runs", content=b"x" * 2_000_000)
    limited = client_of(guarded_settings(settings).model_copy(update={"api_rate_limit": 1}))
    slow = [limited.get("/api/v1/jobs", headers=bearer("viewer")) for _ in range(3)][-1]
    assert [answer.status_code for answer in (foreign, large, slow)] == [403, 413, 429]
    for answer in (foreign, large, slow):
        assert answer.json()["request_id"] == answer.headers["x-request-id"]


def test_a_crash_is_found_in_the_log_by_it(api: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(SqlRunStore, "get", broken)
    log = io.StringIO()
    configure_logs("json", stream=log)
    answer = api.get("/api/v1/runs/x")
    assert answer.status_code == 500
    own = answer.json()["request_id"]
    assert answer.headers["x-request-id"] == own
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["request_id"] for line in lines if line["event"] == "request crashed"] == [own]


def test_the_log_of_a_crash_shows_no_value_even_where_no_log_was_configured(
    api: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        hidden = "hunter2".upper()
        raise ZeroDivisionError(len(hidden))

    monkeypatch.setattr(SqlRunStore, "get", broken)
    before = structlog.get_config()
    structlog.reset_defaults()
    monkeypatch.setattr(problems, "log", structlog.get_logger())
    try:
        assert api.get("/api/v1/runs/x").status_code == 500
    finally:
        structlog.configure(**before)
    out = capsys.readouterr().out
    assert "request crashed" in out
    assert "ZeroDivisionError: 7" in out
    assert "HUNTER2" not in out


def test_a_crash_is_logged_once_though_the_server_is_told_of_it_too(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(SqlRunStore, "get", broken)
    log = io.StringIO()
    configure_logs("json", stream=log)
    with serving(settings.database_url, settings.redis_url) as site:
        assert httpx2.get(f"{site.url}/api/v1/runs/x").status_code == 500
    events = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [event["event"] for event in events if "ZeroDivisionError" in str(event)] == ["request crashed"]
