"""Logout tokens of a real identity provider on loopback: what ends, and every token that ends nothing."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from scheduler_service.bootstrap.parts import Stores
from scheduler_service.ports.records import AuditFilter
from tests.api.test_identity_provider import (
    Browsers,
    Moved,
    _provider,
    browser,
    browsers,
    clock,
    provider,
    through_provider,
)
from tests.support.oidc_provider import CLIENT, RunningProvider
from tests.support.signing_in import ask, wanted_page

__all__ = ["_provider", "browser", "browsers", "clock", "provider"]  # fixtures
pytestmark = pytest.mark.slow
ADDRESS = "/sign-in/back-channel-logout"
EVENT = "http://schemas.openid.net/event/backchannel-logout"


def told(api: TestClient, token: str) -> Response:
    """What the provider does: nothing of a browser comes along."""
    answer: Response = api.post(ADDRESS, data={"logout_token": token}, headers={"cookie": ""})
    return answer


@pytest.fixture
def signed_in(browser: TestClient) -> TestClient:
    assert through_provider(browser).status_code == 303
    assert ask(browser, "/").status_code == 200
    return browser


def test_the_provider_ends_the_sessions_of_a_person(
    signed_in: TestClient, browsers: Browsers, provider: RunningProvider, stores: Stores
) -> None:
    second, other = browsers(), browsers()
    through_provider(second)
    provider.behaves(subject="u-2")
    through_provider(other)
    answer = told(other, provider.logout_token())
    assert (answer.status_code, answer.text, answer.headers["cache-control"]) == (200, "", "no-store")
    assert [wanted_page(ask(one, "/")) for one in (signed_in, second)] == ["/", "/"]
    assert ask(other, "/").status_code == 200
    (entry, again) = stores.audit.list(AuditFilter(action="session.provider-sign-out"), 9, None).items
    assert (entry.actor, entry.role, again.actor) == (provider.issuer.removeprefix("http://"), "system", entry.actor)


def test_one_session_is_ended_by_its_name_there(
    browser: TestClient, browsers: Browsers, provider: RunningProvider
) -> None:
    second = browsers()
    for sid, one in (("s-1", browser), ("s-2", second)):
        provider.behaves(sid=sid)
        assert through_provider(one).status_code == 303
    assert told(browser, provider.logout_token(sub=None, sid="s-1")).status_code == 200
    assert wanted_page(ask(browser, "/")) == "/"
    assert ask(second, "/").status_code == 200
    assert told(browser, provider.logout_token(sid="s-2")).status_code == 200
    assert wanted_page(ask(second, "/")) == "/"


def test_a_token_counts_once(signed_in: TestClient, provider: RunningProvider) -> None:
    token = provider.logout_token()
    assert told(signed_in, token).status_code == 200
    assert through_provider(signed_in).status_code == 303
    again = told(signed_in, token)
    assert (again.status_code, again.json()["error"]) == (400, "invalid_request")
    assert "used before" in again.json()["error_description"]
    assert ask(signed_in, "/").status_code == 200
    assert told(signed_in, provider.logout_token(jti="another")).status_code == 200


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"iss": "http://127.0.0.1:1"}, {}, "iss"),
    ({"iss": None}, {}, "iss"),
    ({"aud": "somebody-else"}, {}, "aud"),
    ({"aud": None}, {}, "aud"),
    ({"iat": 61}, {}, "future"),
    ({"iat": None}, {}, "iat"),
    ({"iat": -3661}, {}, "an hour ago"),
    ({"exp": -61}, {}, "expired"),
    ({"exp": None}, {}, "exp"),
    ({"jti": None}, {}, "jti"),
    ({"jti": ""}, {}, "jti"),
    ({"jti": 7}, {}, "jti"),
    ({"events": None}, {}, "events"),
    ({"events": {}}, {}, "events"),
    ({"events": {"other": {}}}, {}, "events"),
    ({"events": {EVENT: "yes"}}, {}, "events"),
    ({"events": [EVENT]}, {}, "events"),
    ({"nonce": "n"}, {}, "nonce"),
    ({"nonce": ""}, {}, "nonce"),
    ({"sub": None}, {}, "neither sub nor sid"),
    ({"sub": 7}, {}, "sub"),
    ({"sub": ""}, {}, "neither sub nor sid"),
    ({"sub": None, "sid": 7}, {}, "neither sub nor sid"),
    ({"typ": "at+jwt"}, {}, "typ"),
    ({}, {"algorithm": "none"}, "not accepted"),
    ({}, {"algorithm": "HS256"}, "not accepted"),
    ({}, {"unknown_key": True}, "not accepted"),
]


@pytest.mark.parametrize(("claims", "how", "said"), WRONG, ids=[f"{claims}{how}" for claims, how, _ in WRONG])
def test_a_wrong_token_ends_nothing(
    signed_in: TestClient,
    provider: RunningProvider,
    clock: Moved,
    claims: dict[str, Any],
    how: dict[str, Any],
    said: str,
) -> None:
    provider.behaves(**how, now=clock.stop())
    answer = told(signed_in, provider.logout_token(**claims))
    assert answer.status_code == 400
    assert said in answer.json()["error_description"]
    assert ask(signed_in, "/").status_code == 200


@pytest.mark.parametrize("token", ["", "no token", "a.b.c", "é"])
def test_what_is_no_token_at_all_ends_nothing(signed_in: TestClient, token: str) -> None:
    assert told(signed_in, token).status_code == 400
    assert ask(signed_in, "/").status_code == 200


def test_an_identity_token_ends_nothing(signed_in: TestClient, stores: Stores) -> None:
    (session,) = stores.sessions.list(0, 1 << 60, 9)
    assert session.who.id_token is not None
    assert told(signed_in, session.who.id_token).status_code == 400
    assert ask(signed_in, "/").status_code == 200


def test_clocks_may_differ_by_a_minute_and_audiences_may_be_several(
    signed_in: TestClient, provider: RunningProvider, clock: Moved
) -> None:
    provider.behaves(now=clock.stop())
    for claims in ({"iat": 60}, {"exp": -59}, {"aud": ["other", CLIENT]}, {"typ": "JWT"}, {"typ": None}):
        assert told(signed_in, provider.logout_token(**claims)).status_code == 200, claims


def test_while_the_provider_has_no_keys_it_may_say_it_again(
    browsers: Browsers, signed_in: TestClient, provider: RunningProvider
) -> None:
    token = provider.logout_token()
    fresh = browsers()
    provider.behaves(down=True)
    answer = told(fresh, token)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    provider.behaves()
    assert told(fresh, token).status_code == 200
    assert wanted_page(ask(signed_in, "/")) == "/"


def test_without_a_provider_there_is_no_such_page(browsers: Browsers) -> None:
    plain = browsers(oidc_issuer=None, oidc_client_id=None, oidc_roles=(), oidc_client_secret=None)
    assert plain.post(ADDRESS, data={"logout_token": "x"}).status_code == 404
