"""Who may do what: tokens, roles, foreign pages."""

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.errors import BadValues
from scheduler_service.api.http.auth import check_exposure
from scheduler_service.config.settings import Settings
from scheduler_service.runtime.addresses import is_loopback
from tests.support.routes import address_of, routes_of

ROLES = ("viewer", "operator", "admin")


def token_line(name: str, role: str, secret: str) -> str:
    return f"{name}:{role}:{hashlib.sha256(secret.encode()).hexdigest()}"


def guarded_settings(settings: Settings) -> Settings:
    """These settings with one token for each role, the token being the role's name."""
    lines = [token_line(f"a-{role}", role, role) for role in ROLES]
    tokens = Settings(api_tokens=lines).api_tokens  # type: ignore[arg-type]  # texts are read
    return settings.model_copy(update={"api_tokens": tokens})


@pytest.fixture
def guarded(client_of: Callable[[Settings], TestClient], settings: Settings) -> TestClient:
    """An API with one token for each role."""
    return client_of(guarded_settings(settings))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    "headers", [{}, bearer("wrong"), bearer(""), {"Authorization": "Basic eDp2aWV3ZXI="}, {"Authorization": "x"}]
)
@pytest.mark.parametrize(
    "path", ["/api/v1/jobs", "/api/v1/runs/x", "/api/v1/scheduler/status", "/api/v1/workers", "/metrics"]
)
def test_without_a_valid_token_nothing_is_told(guarded: TestClient, headers: dict[str, str], path: str) -> None:
    answer = guarded.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_is_not_looked_at_before_the_token(guarded: TestClient) -> None:
    assert guarded.post("/api/v1/runs", content=b"{").status_code == 401
    assert guarded.post("/api/v1/runs", content=b"{", headers=bearer("viewer")).status_code == 403


def test_a_viewer_reads_and_changes_nothing(guarded: TestClient, job: dict[str, Any]) -> None:
    viewer = bearer("viewer")
    assert guarded.get("/api/v1/jobs", headers=viewer).status_code == 200
    assert guarded.post("/api/v1/preview", json={"schedule": job["schedule"]}, headers=viewer).status_code == 200
    for method, path in [
        ("POST", "/jobs"), ("PUT", "/jobs/a"), ("PATCH", "/jobs/a"), ("DELETE", "/jobs/a"), ("POST", "/jobs/a/pause"),
        ("POST", "/jobs/a/resume"), ("POST", "/jobs/a/trigger"), ("POST", "/runs"), ("POST", "/runs/batch"),
        ("POST", "/runs/a/cancel"), ("POST", "/runs/a/retry"),
    ]:  # fmt: skip
        assert guarded.request(method, f"/api/v1{path}", json={}, headers=viewer).status_code == 403, path


@pytest.mark.parametrize("role", ["operator", "admin"])
def test_an_operator_changes_jobs_and_runs(guarded: TestClient, job: dict[str, Any], role: str) -> None:
    assert guarded.post("/api/v1/jobs", json=job, headers=bearer(role)).status_code == 201
    assert guarded.post("/api/v1/runs", json={"task": "t"}, headers=bearer(role)).status_code == 201


def test_only_an_administrator_deletes_jobs(guarded: TestClient, job: dict[str, Any]) -> None:
    path = f"/api/v1/jobs/{job['job_id']}"
    guarded.post("/api/v1/jobs", json=job, headers=bearer("operator"))
    pruning = {"source": "file", "jobs": [], "prune": True}
    refused = [
        guarded.delete(path, headers=bearer("operator")),
        guarded.post("/api/v1/jobs/apply", json=pruning, headers=bearer("operator")),
    ]
    assert [answer.status_code for answer in refused] == [403, 403]
    assert "admin" in refused[0].json()["detail"]
    planned = guarded.post("/api/v1/jobs/apply", json={**pruning, "dry_run": True}, headers=bearer("operator"))
    assert planned.status_code == 200, "planning deletes nothing"
    assert guarded.delete(path, headers=bearer("admin")).status_code == 204


def test_who_changed_what_is_not_for_viewers(guarded: TestClient) -> None:
    answers = {role: guarded.get("/api/v1/audit", headers=bearer(role)).status_code for role in ROLES}
    assert answers == {"viewer": 403, "operator": 200, "admin": 200}


def test_pages_take_the_token_as_the_password_of_the_browsers_login(guarded: TestClient) -> None:
    asked = guarded.get("/")
    assert asked.status_code == 401
    assert asked.headers["www-authenticate"].startswith("Basic")
    login = base64.b64encode(b"me:viewer").decode()
    for path in ("/", "/jobs", "/docs", "/openapi.json"):
        assert guarded.get(path, headers={"Authorization": f"Basic {login}"}).status_code == 200
    assert guarded.get("/", headers={"Authorization": "Basic %%%"}).status_code == 401


def test_probes_need_no_token(guarded: TestClient) -> None:
    assert guarded.get("/healthz").status_code == 200
    assert guarded.get("/readyz").status_code in (200, 503)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "example.com", "127.evil.com"])
def test_without_tokens_it_refuses_to_start_on_another_address(host: str) -> None:
    with pytest.raises(BadValues, match="ITINERARY_API_HOST"):
        check_exposure(Settings(api_host=host))


def test_with_tokens_it_starts_on_any_address() -> None:
    tokens = Settings(api_tokens=token_line("a", "viewer", "s"))  # type: ignore[arg-type]  # texts are read
    check_exposure(tokens.model_copy(update={"api_host": "0.0.0.0"}))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "LOCALHOST", "app.localhost"])
def test_these_names_mean_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "a@b[", "[::1",
        "evillocalhost", "evil-localhost", "1127.0.0.1", "127.0.0.1.1", "127.0.1", "128.0.0.1",
    ],
)  # fmt: skip
def test_without_tokens_a_rebound_name_reads_nothing(api: TestClient, host: str) -> None:
    assert api.get("/api/v1/jobs", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_cannot_change_anything(api: TestClient, headers: dict[str, str]) -> None:
    assert api.post("/api/v1/runs", json={"task": "t"}, headers=headers).status_code == 403
    assert api.get("/api/v1/runs").json()["items"] == []


def test_no_route_redirects_to_the_name_that_the_host_header_says(
    client_of: Callable[[Settings], TestClient], settings: Settings
) -> None:
    guarded = client_of(guarded_settings(settings))
    for method, path, _ in [*routes_of(guarded.app), ("GET", "/static", None)]:  # type: ignore[arg-type]
        address = f"{address_of(path).rstrip('/')}/"
        answer = guarded.request(
            method, address, headers={"Host": "evil.example", **bearer("admin")}, follow_redirects=False
        )
        assert "evil.example" not in answer.headers.get("location", ""), (method, address)
        assert answer.status_code == 404 or address == "/", (method, address)


def test_our_own_page_may(api: TestClient) -> None:
    own = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    assert api.post("/api/v1/runs", json={"task": "t"}, headers=own).status_code == 201
