"""Signing in at an identity provider, a real one on loopback: the way there and back, and every wrong answer."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from fastapi.testclient import TestClient
from httpx2 import Response

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import MINUTE, SECOND, Instant
from scheduler_service.api.app import build_app
from scheduler_service.api.context import ApiContext, system_clock
from scheduler_service.api.services.identities import groups_of
from scheduler_service.api.services.identity_provider import IdentityProvider
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.config.group_roles import GroupRole, read_group_roles
from scheduler_service.config.settings import Settings, load_settings
from scheduler_service.core.token_limits import Limits
from scheduler_service.ports.records import AuditFilter
from tests.api.test_auth import bearer, guarded_settings
from tests.support.oidc_provider import CLIENT, SECRET, RunningProvider
from tests.support.signing_in import SESSION, ask, csrf_on, sign_in, sign_out, wanted_page

pytestmark = pytest.mark.slow
Browsers = Callable[..., TestClient]


@pytest.fixture(scope="module")
def _provider() -> Iterator[RunningProvider]:
    with RunningProvider() as provider:
        yield provider


@pytest.fixture
def provider(_provider: RunningProvider) -> RunningProvider:
    _provider.behaves()
    return _provider


class Moved:
    """The clock of the API, which a test moves, or stops."""

    ahead = 0
    stopped: Instant | None = None

    def __call__(self) -> Instant:
        return (system_clock() if self.stopped is None else self.stopped) + self.ahead

    def stop(self) -> int:
        """Stand still from now on; in seconds, as the clock of a provider that stands with it."""
        self.stopped = self()
        return self.stopped // SECOND


@pytest.fixture
def clock() -> Moved:
    return Moved()


@pytest.fixture
def browsers(settings: Settings, stores: Stores, event_loop: Any, provider: RunningProvider, clock: Moved) -> Browsers:
    """Browsers at an API that sends people to the provider: ops operate, others may not enter."""

    def new(**changes: Any) -> TestClient:
        own = {
            "public_url": "http://127.0.0.1", "oidc_issuer": provider.issuer, "oidc_client_id": CLIENT,
            "oidc_client_secret": SECRET, "oidc_roles": read_group_roles("ops:operator,staff:viewer:queues=mail,sms"),
        }  # fmt: skip
        context = ApiContext(
            settings.model_copy(update=own | changes), stores, LeaderLine(stores.inbox, system_clock), clock
        )
        client = TestClient(build_app(context), base_url="http://127.0.0.1", raise_server_exceptions=False)
        client.portal = event_loop
        return client

    return new


@pytest.fixture
def browser(browsers: Browsers) -> TestClient:
    return browsers()


def provider_of(api: TestClient) -> IdentityProvider:
    found: IdentityProvider = api.app.state.provider  # type: ignore[attr-defined]  # the application itself
    return found


def to_provider(api: TestClient, wanted: str = "/") -> str:
    """Begin; where the provider is to send the browser."""
    answer = api.get("/sign-in/provider", params={"next": wanted}, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    back = requests.get(answer.headers["location"], timeout=60, allow_redirects=False)
    assert back.status_code == 302, back.text
    return back.headers["location"].removeprefix("http://127.0.0.1")


def through_provider(api: TestClient, wanted: str = "/") -> Response:
    """Sign in there and come back."""
    answer: Response = api.get(to_provider(api, wanted), follow_redirects=False)
    return answer


def test_a_browser_goes_to_the_provider_and_back_to_its_page(browser: TestClient, provider: RunningProvider) -> None:
    wanted = wanted_page(ask(browser, "/jobs?state=paused"))
    assert f"Sign in at {provider.issuer.removeprefix('http://')}" in ask(browser, "/sign-in").text
    answer = through_provider(browser, wanted)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?state=paused")
    page = ask(browser, "/jobs")
    assert page.status_code == 200
    assert f"jane@example.com ({provider.issuer}), operator" in page.text


def test_what_is_asked_of_the_provider(browser: TestClient, provider: RunningProvider) -> None:
    answer = browser.get("/sign-in/provider", follow_redirects=False)
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    assert set(query) == {
        "response_type", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge",
        "code_challenge_method",
    }  # fmt: skip
    assert query["redirect_uri"] == ["http://127.0.0.1/sign-in/callback"]
    again = parse_qs(urlsplit(browser.get("/sign-in/provider", follow_redirects=False).headers["location"]).query)
    for name in ("state", "nonce", "code_challenge"):
        assert query[name] != again[name], name


WRONG = [
    ({"nonce": "another"}, "nonce"),
    ({"expires_in": -61}, "expired"),
    ({"issued_in": 61, "expires_in": 999}, "future"),
    ({"algorithm": "none"}, "not accepted"),
    ({"algorithm": "HS256"}, "not accepted"),
    ({"audience": "somebody-else"}, "aud"),
    ({"audience": [CLIENT, "other"], "azp": "other"}, "azp"),
    ({"audience": [CLIENT, "other"]}, "azp"),
    ({"issuer": "http://127.0.0.1:1"}, "iss"),
    ({"unknown_key": True}, "signature"),
    ({"id_token": False}, "no identity token"),
    ({"answer_issuer": "http://127.0.0.1:1"}, "another issuer"),
    ({"error": "access_denied"}, "refused: &lt;b&gt;no&lt;/b&gt; &amp; no"),
    ({"subject": ""}, "names nobody"),
]


@pytest.mark.parametrize(("how", "said"), WRONG, ids=[str(how) for how, _ in WRONG])
def test_a_wrong_answer_signs_nobody_in(
    browser: TestClient, provider: RunningProvider, clock: Moved, how: dict[str, Any], said: str
) -> None:
    provider.behaves(**how, now=clock.stop())
    answer = through_provider(browser, "/jobs")
    assert answer.status_code == 403
    assert said in answer.text
    assert 'href="/sign-in/provider?next=/jobs"' in answer.text, "to begin again"
    assert SESSION not in browser.cookies
    assert wanted_page(ask(browser, "/")) == "/"


def test_clocks_may_differ_by_a_minute(browser: TestClient, provider: RunningProvider, clock: Moved) -> None:
    for how in ({"expires_in": -59}, {"issued_in": 60, "expires_in": 99}):
        provider.behaves(**how, now=clock.stop())
        assert through_provider(browser).status_code == 303, how


def test_keys_may_be_rotated_and_are_not_asked_for_with_each_wrong_token(
    browser: TestClient, provider: RunningProvider
) -> None:
    assert through_provider(browser).status_code == 303
    provider.behaves(rotate=True)
    assert through_provider(browser).status_code == 403, "asked for less than ten seconds ago"
    now = provider_of(browser)._clock() + 11
    provider_of(browser)._clock = lambda: now
    assert through_provider(browser).status_code == 303
    provider.behaves(unknown_key=True)
    for _ in range(3):
        assert through_provider(browser).status_code == 403
    assert [path for path in provider.behaves() if path == "/jwks"] == []


def test_an_answer_counts_once(browser: TestClient) -> None:
    back = to_provider(browser)
    assert browser.get(back, follow_redirects=False).status_code == 303
    again = browser.get(back, follow_redirects=False)
    assert again.status_code == 403
    assert "used before" in again.text


def test_a_code_counts_once_whatever_state_it_comes_with(browser: TestClient, provider: RunningProvider) -> None:
    first, second = to_provider(browser), to_provider(browser)
    code = parse_qs(urlsplit(first).query)["code"][0]
    browser.get(first, follow_redirects=False)
    state = parse_qs(urlsplit(second).query)["state"][0]
    answer = browser.get(f"/sign-in/callback?code={code}&state={state}", follow_redirects=False)
    assert answer.status_code == 403
    assert "did not accept the code (invalid_grant)" in answer.text


def test_an_answer_counts_in_the_browser_that_was_sent_alone(browser: TestClient, browsers: Browsers) -> None:
    """Else somebody could have a victim's browser signed in as themselves."""
    victim = browsers()
    ask(victim, "/sign-in/provider")
    answer = victim.get(to_provider(browser), follow_redirects=False)
    assert answer.status_code == 403
    assert SESSION not in victim.cookies


def test_two_tabs_sign_in_beside_each_other(browser: TestClient) -> None:
    first, second = to_provider(browser, "/jobs"), to_provider(browser, "/runs")
    assert browser.get(second, follow_redirects=False).headers["location"] == "/runs"
    assert browser.get(first, follow_redirects=False).headers["location"] == "/jobs"
    assert ask(browser, "/").status_code == 200


def test_a_sign_in_takes_ten_minutes_at_most(browser: TestClient, clock: Moved) -> None:
    back = to_provider(browser)
    clock.ahead = 10 * MINUTE
    assert "more than ten minutes" in browser.get(back, follow_redirects=False).text


def test_however_many_begin_to_sign_in_the_next_one_still_can(
    browser: TestClient, clock: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_service.sql.sign_ins._MOST", 2)
    for _ in range(3):
        clock.ahead += SECOND
        assert browser.get("/sign-in/provider", follow_redirects=False).status_code == 303
    assert through_provider(browser, "/jobs").headers["location"] == "/jobs"


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", "/\\evil.example", "/sign-out"])
def test_the_provider_leads_back_to_no_other_site(browser: TestClient, path: str) -> None:
    assert through_provider(browser, path).headers["location"] == "/"


def test_who_is_in_no_group_is_told_which_one_is_missing(browser: TestClient, provider: RunningProvider) -> None:
    provider.behaves(groups=["dev", "<b>"])
    answer = through_provider(browser)
    assert answer.status_code == 403
    assert "Ask for one of: ops, staff." in answer.text
    assert "The claim groups of the identity token has dev, &lt;b&gt;." in answer.text
    assert SESSION not in browser.cookies


def test_a_default_role_lets_everybody_in(browsers: Browsers, provider: RunningProvider) -> None:
    browser = browsers(oidc_default_role="viewer")
    provider.behaves(groups=None)
    assert through_provider(browser).status_code == 303
    assert ", viewer" in ask(browser, "/").text


def test_a_group_can_be_limited_to_queues(browser: TestClient, provider: RunningProvider) -> None:
    provider.behaves(groups="staff")
    through_provider(browser)
    assert ask(browser, "/flower").status_code == 403


def test_a_session_ends_when_the_rule_behind_it_changes(browser: TestClient, browsers: Browsers) -> None:
    through_provider(browser)
    for rules in ("ops:viewer,staff:viewer", "dev:operator"):
        other = browsers(oidc_roles=read_group_roles(rules))
        other.cookies.set(SESSION, browser.cookies[SESSION])
        assert wanted_page(ask(other, "/")) == "/"
        through_provider(browser)


def test_only_a_verified_address_is_a_name(browser: TestClient, provider: RunningProvider, stores: Stores) -> None:
    for verified in (False, "true", None):
        provider.behaves(verified=verified)
        through_provider(browser)
        assert f"u-1 ({provider.issuer}), operator" in ask(browser, "/").text
    actors = {entry.actor for entry in stores.audit.list(AuditFilter(action="session.sign-in"), 10, None).items}
    assert actors == {f"u-1 ({provider.issuer})"}


def test_tokens_keep_working_beside(browsers: Browsers, settings: Settings) -> None:
    browser = browsers(api_tokens=guarded_settings(settings).api_tokens)
    assert sign_in(browser, "viewer").status_code == 303
    assert "a-viewer, viewer" in ask(browser, "/").text
    assert browser.get("/api/v1/jobs", headers=bearer("viewer")).status_code == 200


def test_without_tokens_the_rest_api_is_open_to_nobody(browser: TestClient) -> None:
    through_provider(browser)
    assert browser.get("/api/v1/jobs").status_code == 401
    assert browser.get("/api/v1/jobs", headers=bearer("anything")).status_code == 401
    form = {"csrf": csrf_on(ask(browser, "/").text), "token": "", "next": "/"}
    assert browser.post("/sign-in", data=form, follow_redirects=False).status_code == 403


def test_signing_out_leads_on_to_the_provider(browser: TestClient, provider: RunningProvider) -> None:
    through_provider(browser)
    answer = sign_out(browser)
    assert answer.status_code == 200
    assert SESSION not in browser.cookies
    assert f'http-equiv="refresh" content="1;url={provider.issuer}/logout?client_id={CLIENT}' in answer.text
    assert "id_token_hint=" in answer.text
    assert "post_logout_redirect_uri=http%3A%2F%2F127.0.0.1%2Fsign-in%3Fdone%3Dsigned-out" in answer.text
    assert wanted_page(ask(browser, "/")) == "/"


@pytest.mark.parametrize("how", [{"down": True}, {"discovery_issuer": "http://127.0.0.1:1"}])
def test_while_the_provider_is_down_those_signed_in_stay_and_the_page_says_so(
    browsers: Browsers, provider: RunningProvider, how: dict[str, Any]
) -> None:
    browser = browsers()
    through_provider(browser)
    provider.behaves(**how)
    late = browsers()
    answer = ask(late, "/sign-in/provider?next=/jobs")
    assert answer.status_code == 503
    assert "those who are signed in stay so until the session ends" in answer.text
    late.cookies.set(SESSION, browser.cookies[SESSION])
    assert ask(late, "/").status_code == 200
    assert sign_out(late).status_code == 303, "from here alone"


def test_a_provider_that_fails_at_the_code_is_down(browser: TestClient, provider: RunningProvider) -> None:
    provider.behaves(token_status=500)
    answer = through_provider(browser)
    assert answer.status_code == 503, answer.text


def test_where_no_provider_is_set_there_is_no_such_page(api: TestClient) -> None:
    assert ask(api, "/sign-in/provider").status_code == 404
    assert ask(api, "/sign-in/callback?code=a&state=b").status_code == 404


def test_groups_lie_in_a_claim_or_in_one_within_another() -> None:
    assert groups_of({"groups": ["a", 1, None]}, "groups") == ("a",)
    assert groups_of({"realm_access": {"roles": ["a"]}}, "realm_access.roles") == ("a",)
    assert groups_of({"https://x.example/roles": ["a"]}, "https://x.example/roles") == ("a",)
    for claims in ({}, {"groups": 7}, {"groups": {"a": 1}}, {"realm_access": "roles"}):
        assert groups_of(claims, "realm_access.roles" if "realm_access" in claims else "groups") == ()


def test_rules_are_read_with_commas_within_and_between() -> None:
    text = "ops:operator, /a:b/c:viewer:queues=x,y;tasks=shop.*,team:admin"
    assert read_group_roles(text) == (
        GroupRole("ops", "operator"),
        GroupRole("/a:b/c", "viewer", Limits(("x", "y"), ("shop.*",))),
        GroupRole("team", "admin"),
    )
    assert read_group_roles(["cn=ops,dc=example:operator"]) == (GroupRole("cn=ops,dc=example", "operator"),)
    for wrong in ("ops", "ops:enqueuer", ":viewer", "ops:viewer:queues=", "ops:boss,a:viewer"):
        with pytest.raises(ValueError, match=r"give group:role|invalid limits"):
            read_group_roles(wrong)


WHOLE = {
    "OIDC_ISSUER": "https://id.example", "OIDC_CLIENT_ID": "itinerary", "PUBLIC_URL": "https://itinerary.example",
    "OIDC_ROLES": "ops:operator",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"OIDC_ISSUER": "http://id.example"}, "ITINERARY_OIDC_ISSUER.*https://"),
        ({"OIDC_ISSUER": "https://id.example/?a=b"}, "ITINERARY_OIDC_ISSUER"),
        ({"OIDC_ISSUER": ""}, "ITINERARY_OIDC_CLIENT_ID.*set ITINERARY_OIDC_ISSUER too"),
        ({"OIDC_CLIENT_ID": ""}, "ITINERARY_OIDC_CLIENT_ID.*needs it"),
        ({"PUBLIC_URL": ""}, "ITINERARY_PUBLIC_URL.*needs it"),
        ({"PUBLIC_URL": "https://itinerary.example/path"}, "ITINERARY_PUBLIC_URL"),
        ({"OIDC_ROLES": ""}, "ITINERARY_OIDC_ROLES.*nobody could enter"),
        ({"OIDC_ROLES": "ops"}, "ITINERARY_OIDC_ROLES.*group:role"),
        ({"OIDC_SCOPES": "profile"}, "ITINERARY_OIDC_SCOPES.*openid"),
        ({"OIDC_CLIENT_SECRET": "a", "OIDC_CLIENT_SECRET_FILE": "/b"}, "not both"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, str], said: str
) -> None:
    for name, value in (WHOLE | change).items():
        monkeypatch.setenv(f"ITINERARY_{name}", value)
    with pytest.raises(BadValues, match=said):
        load_settings()


def test_the_secret_may_lie_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name, value in (WHOLE | {"OIDC_CLIENT_SECRET_FILE": str(tmp_path / "secret")}).items():
        monkeypatch.setenv(f"ITINERARY_{name}", value)
    settings = load_settings()
    with pytest.raises(BadValue, match=r"ITINERARY_OIDC_CLIENT_SECRET_FILE.*give a readable file"):
        settings.read_oidc_secret()
    (tmp_path / "secret").write_text("of a file\n")
    assert settings.read_oidc_secret() == "of a file"
    monkeypatch.delenv("ITINERARY_OIDC_CLIENT_SECRET_FILE")
    monkeypatch.setenv("ITINERARY_OIDC_CLIENT_SECRET", "never shown")
    assert "never shown" not in repr(load_settings())
