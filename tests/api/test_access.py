"""Sessions and share links over HTTP, by the client and by the command line."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from scheduler_service.bootstrap.parts import Stores
from scheduler_service.config.settings import Settings
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.sessions import SignedIn
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.sessions import SqlSessionStore
from tests.api.test_auth import bearer, guarded_settings, token_line
from tests.support.command_line import Itinerary
from tests.support.processes import free_port, project_env
from tests.support.signing_in import ask, sign_in, wanted_page
from tests.support.warm_command import ServiceChild

DAY = 24 * 3600 * 1_000_000


@pytest.fixture
def api(client_of: Callable[[Settings], TestClient], settings: Settings) -> TestClient:
    """An API with one token for each role and an operator and admin limited to queue mail; it shares pages."""
    lines = [token_line(f"mail-{role}", role, f"mail-{role}") + ":queues=mail" for role in ("operator", "admin")]
    own = guarded_settings(settings)
    more = Settings(api_tokens=",".join(lines)).api_tokens  # type: ignore[arg-type]  # a text is read
    return client_of(own.model_copy(update={"share_links": True, "api_tokens": (*own.api_tokens, *more)}))


def numbers(api: TestClient, what: str, token: str, field: str) -> list[int]:
    return [one[field] for one in api.get(f"/api/v1/{what}", headers=bearer(token)).json()["items"]]


def test_an_admin_sees_who_is_signed_in_and_ends_a_session(api: TestClient) -> None:
    sign_in(api, "operator")
    (session,) = api.get("/api/v1/sessions", headers=bearer("admin")).json()["items"]
    assert (session["name"], session["issuer"]) == ("a-operator", None)
    assert "secret" not in str(session)
    path = f"/api/v1/sessions/{session['session_id']}"
    assert api.delete(path, headers=bearer("operator")).status_code == 403
    assert api.get("/api/v1/sessions", headers=bearer("operator")).status_code == 403
    assert api.delete(path, headers=bearer("admin")).status_code == 204
    assert wanted_page(ask(api, "/")) == "/"
    assert numbers(api, "sessions", "admin", "session_id") == []
    for gone in (path, "/api/v1/sessions/999", "/api/v1/sessions/x"):
        assert api.delete(gone, headers=bearer("admin")).status_code == 404


def test_a_limited_admin_knows_sessions_of_its_own_token_alone(api: TestClient) -> None:
    sign_in(api, "operator")
    (other,) = numbers(api, "sessions", "admin", "session_id")
    assert numbers(api, "sessions", "mail-admin", "session_id") == []
    assert api.delete(f"/api/v1/sessions/{other}", headers=bearer("mail-admin")).status_code == 404
    assert ask(api, "/").status_code == 200


def test_an_operator_shares_lists_and_revokes(api: TestClient) -> None:
    created = api.post("/api/v1/share-links", json={"page": "/jobs?q=a", "for": "1d"}, headers=bearer("operator"))
    assert created.status_code == 201
    link = created.json()
    assert link["page"] == "/jobs?q=a"
    assert ask(api, link["path"]).status_code == 200
    (listed,) = api.get("/api/v1/share-links", headers=bearer("operator")).json()["items"]
    assert listed == {name: value for name, value in link.items() if name != "path"}
    assert numbers(api, "share-links", "mail-operator", "link_id") == []
    path = f"/api/v1/share-links/{link['link_id']}"
    assert api.delete(path, headers=bearer("mail-operator")).status_code == 404
    assert api.delete(path, headers=bearer("viewer")).status_code == 403
    assert api.delete(path, headers=bearer("operator")).status_code == 204
    assert ask(api, link["path"]).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "page"),
        ({"page": 7}, "page"),
        ({"page": "/audit"}, "page"),
        ({"page": "/jobs", "for": "1m"}, "for"),
        ({"page": "/jobs", "fro": "1d"}, "fro"),
    ],
)
def test_a_body_that_does_not_fit_is_refused_by_field(api: TestClient, body: dict[str, Any], field: str) -> None:
    answer = api.post("/api/v1/share-links", json=body, headers=bearer("operator"))
    assert answer.status_code == 422
    assert field in answer.text


def test_where_pages_are_not_shared_the_calls_say_so(
    client_of: Callable[[Settings], TestClient], settings: Settings
) -> None:
    off = client_of(guarded_settings(settings))
    for answer in (
        off.get("/api/v1/share-links", headers=bearer("operator")),
        off.post("/api/v1/share-links", json={"page": "/jobs"}, headers=bearer("operator")),
        off.delete("/api/v1/share-links/1", headers=bearer("operator")),
    ):
        assert answer.status_code == 404
        assert "ITINERARY_SHARE_LINKS is off" in answer.text


@pytest.mark.slow
def test_the_command_line_shows_and_ends_both(sqlite_url: str, redis_url: str, stores: Stores) -> None:
    token = "admin-of-the-test"
    env = project_env(
        ITINERARY_REDIS_URL=redis_url, ITINERARY_DATABASE_URL=sqlite_url, ITINERARY_API_PORT=str(free_port()),
        ITINERARY_API_TOKENS=f"me:admin:{hashlib.sha256(token.encode()).hexdigest()}", ITINERARY_SHARE_LINKS="on",
        ITINERARY_API_TOKEN=token,
    )  # fmt: skip
    now = host_now()
    store = SqlSessionStore(Database(sqlite_url, pool_size=1))
    who, by = SignedIn("grant", "jane", "1"), AuditedChange("jane", "viewer", "session.sign-in")
    session = store.begin(who, "a", "Firefox", "192.0.2.1", now, now + DAY, by=by)
    with ServiceChild("api", env=env) as api:
        api.wait_for_line("api starting")
        itinerary = Itinerary(env)
        listed = itinerary.done("sessions", "list")
        assert "jane" in listed
        assert "192.0.2.1" in listed
        assert f"session {session.session_id} is ended" in itinerary.done("sessions", "end", str(session.session_id))
        assert json.loads(itinerary.done("sessions", "list", "--json")) == []
        assert f":{env['ITINERARY_API_PORT']}/shared/" in itinerary.done("share", "create", "/jobs", "--for", "2h")
        assert "/jobs" in itinerary.done("share", "list")
        assert "link 1 is revoked" in itinerary.done("share", "revoke", "1")
        assert json.loads(itinerary.done("share", "list", "--json")) == []
