"""Signing in with a token: the session of a browser, how it ends, and what does not begin or survive one."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from structlog.testing import capture_logs

from itinerary.protocol.errors import BadValues
from itinerary.protocol.instants import HOUR, MINUTE, Instant
from scheduler_service.api.app import build_app
from scheduler_service.api.context import ApiContext, system_clock
from scheduler_service.api.http.logins import FailedLogins
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.config.settings import ApiToken, Settings, load_settings
from scheduler_service.ports.records import AuditFilter
from scheduler_service.sql.database import Database
from scheduler_service.sql.sign_in_tables import sessions
from tests.api.test_auth import bearer, guarded_settings, token_line
from tests.support.signing_in import AS_BROWSER, SESSION, ask, csrf_on, sign_in, sign_out, wanted_page

ADDRESS = "testclient"


class Moved:
    """The clock of the API, which a test moves."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> Instant:
        return system_clock() + self.ahead


@pytest.fixture
def clock() -> Moved:
    return Moved()


@pytest.fixture
def browsers(settings: Settings, stores: Stores, clock: Moved, event_loop: Any) -> Callable[..., TestClient]:
    """Browsers without a cookie, each at an API of its own over the same stores."""

    def new(base_url: str = "http://127.0.0.1", **changes: Any) -> TestClient:
        own = guarded_settings(settings).model_copy(update=changes)
        context = ApiContext(own, stores, LeaderLine(stores.inbox, system_clock), clock)
        client = TestClient(build_app(context), base_url=base_url, raise_server_exceptions=False)
        client.portal = event_loop
        return client

    return new


@pytest.fixture
def browser(browsers: Callable[..., TestClient]) -> TestClient:
    return browsers()


def test_a_browser_is_led_to_the_sign_in_page_and_back_to_the_page_it_asked_for(browser: TestClient) -> None:
    wanted = wanted_page(ask(browser, "/jobs?state=paused&q=a%26b"))
    assert wanted == "/jobs?state=paused&q=a%26b"
    answer = sign_in(browser, "operator", wanted)
    assert (answer.status_code, answer.headers["location"]) == (303, wanted)
    page = ask(browser, "/jobs")
    assert page.status_code == 200
    assert "a-operator, operator" in page.text


def test_a_tool_is_asked_for_a_token_as_before(browser: TestClient) -> None:
    answer = browser.get("/jobs")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Basic realm="itinerary"')
    wrong = browser.get("/jobs", headers=AS_BROWSER | bearer("wrong"), follow_redirects=False)
    assert wrong.status_code == 401
    assert browser.get("/jobs", headers=AS_BROWSER | bearer("viewer")).status_code == 200


def test_without_tokens_nobody_is_asked(api: TestClient) -> None:
    assert ask(api, "/").status_code == 200
    assert ask(api, "/sign-in").headers["location"] == "/"
    assert "Sign out" not in ask(api, "/").text


def test_the_cookie_is_for_this_site_and_no_script(browser: TestClient, browsers: Callable[..., TestClient]) -> None:
    given = sign_in(browser, "viewer").headers["set-cookie"]
    assert given.startswith(f"{SESSION}=")
    assert "HttpOnly" in given
    assert "SameSite=lax" in given
    assert "Secure" not in given
    https = browsers("https://itinerary.example")
    given = sign_in(https, "viewer").headers["set-cookie"]
    assert given.startswith(f"__Host-{SESSION}=")
    assert "; Secure" in given
    behind_a_proxy = browsers(public_url="https://itinerary.example")
    assert "; Secure" in behind_a_proxy.get("/sign-in").headers["set-cookie"]


def test_only_the_digest_of_the_secret_is_stored(browser: TestClient, settings: Settings) -> None:
    sign_in(browser, "viewer")
    secret = browser.cookies[SESSION]
    with Database(settings.database_url, pool_size=1).read() as connection:
        (row,) = connection.execute(select(sessions)).mappings().all()
    assert row["secret_hash"] == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in str(dict(row))


def test_each_sign_in_has_a_secret_of_its_own_and_ends_the_session_before(browser: TestClient, browsers: Any) -> None:
    sign_in(browser, "viewer")
    first = browser.cookies[SESSION]
    sign_in(browser, "operator")
    assert browser.cookies[SESSION] != first
    stolen = browsers()
    stolen.cookies.set(SESSION, first)
    assert wanted_page(ask(stolen, "/")) == "/"


def test_a_session_chosen_by_somebody_else_is_none(browser: TestClient, browsers: Callable[..., TestClient]) -> None:
    """Whoever plants a cookie before the sign-in is not signed in by it."""
    planted = "planted-" + "x" * 40
    browser.cookies.set(SESSION, planted, domain="127.0.0.1", path="/")
    sign_in(browser, "admin")
    attacker = browsers()
    attacker.cookies.set(SESSION, planted)
    assert wanted_page(ask(attacker, "/")) == "/"


def test_after_signing_out_a_copied_cookie_is_worth_nothing(browser: TestClient, browsers: Any) -> None:
    sign_in(browser, "admin")
    thief = browsers()
    thief.cookies.set(SESSION, browser.cookies[SESSION])
    assert ask(thief, "/").status_code == 200
    answer = sign_out(browser)
    assert answer.headers["location"] == "/sign-in?done=signed-out"
    assert "You are signed out." in browser.get(answer.headers["location"]).text
    assert SESSION not in browser.cookies
    assert wanted_page(ask(thief, "/jobs")) == "/jobs"


def test_signing_out_everywhere_ends_the_sessions_of_that_token_alone(browsers: Callable[..., TestClient]) -> None:
    here, there, other = browsers(), browsers(), browsers()
    for one, token in ((here, "operator"), (there, "operator"), (other, "viewer")):
        sign_in(one, token)
    sign_out(here, everywhere="yes")
    assert wanted_page(ask(there, "/")) == "/"
    assert ask(other, "/").status_code == 200


def test_a_session_that_nobody_uses_ends_and_one_in_use_ends_in_time(browser: TestClient, clock: Moved) -> None:
    sign_in(browser, "viewer")
    for _ in range(14):
        assert ask(browser, "/").status_code == 200
        clock.ahead += 55 * MINUTE
    assert wanted_page(ask(browser, "/")) == "/", "12 hours are over"
    sign_in(browser, "viewer")
    clock.ahead += 59 * MINUTE
    assert ask(browser, "/").status_code == 200
    clock.ahead += HOUR
    assert wanted_page(ask(browser, "/")) == "/"


@pytest.mark.parametrize("change", ["removed", "role", "secret", "limits"])
def test_a_session_ends_with_the_token_behind_it(browsers: Callable[..., TestClient], change: str) -> None:
    before = browsers()
    sign_in(before, "operator")
    tokens = {token.name: token for token in before.app.state.context.settings.api_tokens}  # type: ignore[attr-defined]
    own = tokens["a-operator"]
    changed: dict[str, tuple[ApiToken, ...]] = {
        "removed": (),
        "role": (replace(own, role="viewer"),),
        "secret": (replace(own, sha256="0" * 64),),
        "limits": (replace(own, limits=replace(own.limits, queues=("a",))),),
    }
    rest = [token for name, token in tokens.items() if name != "a-operator"]
    after = browsers(api_tokens=(*rest, *changed[change]))
    after.cookies.set(SESSION, before.cookies[SESSION])
    assert wanted_page(ask(after, "/")) == "/"
    assert wanted_page(ask(before, "/")) == "/", "it has ended, and does not come back with the token"


def test_a_limited_tokens_session_has_its_limits(settings: Settings, browsers: Callable[..., TestClient]) -> None:
    line = token_line("mail", "operator", "mailer") + ":queues=mail"
    browser = browsers(api_tokens=Settings(api_tokens=line).api_tokens)  # type: ignore[arg-type]  # a text is read
    sign_in(browser, "mailer")
    assert ask(browser, "/flower").status_code == 403


def test_a_viewer_changes_nothing_and_an_enqueuer_has_no_pages(browser: TestClient, browsers: Any) -> None:
    sign_in(browser, "viewer")
    form = {"csrf": csrf_on(ask(browser, "/").text)}
    assert browser.post("/jobs/a.job/pause", data=form, follow_redirects=False).status_code == 403
    line = token_line("sends", "enqueuer", "sends")
    only = browsers(api_tokens=Settings(api_tokens=line).api_tokens)  # type: ignore[arg-type]  # a text is read
    answer = sign_in(only, "sends")
    assert answer.status_code == 403
    assert "only enqueues" in answer.text
    assert SESSION not in only.cookies


def test_the_rest_api_takes_no_cookie(browser: TestClient) -> None:
    sign_in(browser, "admin")
    assert browser.get("/api/v1/jobs").status_code == 401
    assert browser.get("/metrics").status_code == 401


def test_a_form_of_another_session_or_site_is_refused(browser: TestClient, browsers: Callable[..., TestClient]) -> None:
    sign_in(browser, "operator")
    old = csrf_on(ask(browser, "/").text)
    sign_in(browser, "operator")
    for csrf in (old, "", "0" * 64):
        answer = browser.post("/sign-out", data={"csrf": csrf}, follow_redirects=False)
        assert answer.status_code == 403
    own = {"csrf": csrf_on(ask(browser, "/").text)}
    foreign = browser.post("/sign-out", data=own, headers={"Origin": "https://evil.example"}, follow_redirects=False)
    assert foreign.status_code == 403
    assert ask(browser, "/").status_code == 200
    assert browsers().post("/sign-in", data={"token": "viewer"}).status_code == 403, "a sign-in that a page forges"


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/sign-out", "/sign-in",
        "\\\\evil.example", "/a\nb", "", "/" + "a" * 3000,
    ],
)  # fmt: skip
def test_signing_in_leads_to_no_other_site(browser: TestClient, path: str) -> None:
    assert sign_in(browser, "viewer", path).headers["location"] == "/"
    assert 'name="next" value="/"' in browser.get("/sign-in", params={"next": path}).text


def test_a_refresh_of_an_ended_session_leads_to_the_sign_in_page_and_opens_no_window(browser: TestClient) -> None:
    shown = {"HX-Request": "true", "HX-Current-URL": "http://127.0.0.1/runs?state=failed"}
    answer = browser.get("/runs?state=failed", headers=AS_BROWSER | shown, follow_redirects=False)
    assert answer.status_code == 401
    assert answer.headers["hx-redirect"] == "/sign-in?next=/runs%3Fstate%3Dfailed"
    assert "www-authenticate" not in answer.headers


def test_a_form_of_an_ended_session_leads_back_to_its_page(browser: TestClient) -> None:
    came = AS_BROWSER | {"Referer": "http://127.0.0.1/queues?edit=a", "Origin": "http://127.0.0.1"}
    answer = browser.post("/jobs/a.job/pause", data={"csrf": "0" * 64}, headers=came, follow_redirects=False)
    assert wanted_page(answer) == "/queues?edit=a"


def test_an_address_tries_ten_unknown_tokens_a_minute(browser: TestClient) -> None:
    for _ in range(10):
        answer = sign_in(browser, "wrong")
        assert answer.status_code == 403
        assert "not known" in answer.text
        assert "wrong" not in answer.text
    answer = sign_in(browser, "viewer")
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert browser.app.state.context.logins.total == 10  # type: ignore[attr-defined]


def test_a_proxy_that_is_not_trusted_is_named_where_it_locks_everybody_out(browser: TestClient) -> None:
    for _ in range(10):
        sign_in(browser, "wrong")
    with capture_logs() as logs:
        for through in ("203.0.113.7", f"203.0.113.7, {ADDRESS}"):
            assert sign_in(browser, "wrong", headers={"X-Forwarded-For": through}).status_code == 429
        assert sign_in(browser, "wrong").status_code == 429
    (warned,) = [each for each in logs if each["log_level"] == "warning"]
    assert (warned["proxy"], "FORWARDED_ALLOW_IPS" in warned["event"]) == (ADDRESS, True)


def test_the_bound_of_one_address_is_no_other_s_and_passes() -> None:
    now = [0.0]
    logins = FailedLogins(lambda: now[0])
    for _ in range(10):
        logins.add_signing_in("10.0.0.1")
        now[0] += 1
    assert (logins.wait("10.0.0.1"), logins.wait("10.0.0.2")) == (50, 0)
    now[0] = 60
    assert logins.wait("10.0.0.1") == 0


def test_two_tabs_share_the_session_and_one_that_signs_out_ends_it_for_both(browser: TestClient) -> None:
    sign_in(browser, "operator")
    tabs = [csrf_on(ask(browser, "/").text), csrf_on(ask(browser, "/jobs").text)]
    assert browser.post("/sign-out", data={"csrf": tabs[0]}, follow_redirects=False).status_code == 303
    late = browser.post("/sign-out", data={"csrf": tabs[1]}, follow_redirects=False)
    assert late.status_code == 403, "its form belonged to the session that has ended"


def test_beginning_and_ending_are_in_the_audit_log(browser: TestClient, stores: Stores) -> None:
    sign_in(browser, "operator")
    sign_out(browser)
    entries = stores.audit.list(AuditFilter(actor="a-operator"), 10, None).items
    assert [(entry.action, entry.role, entry.subject) for entry in entries] == [
        ("session.sign-out", "operator", "a-operator"), ("session.sign-in", "operator", "a-operator"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["ITINERARY_SESSION_IDLE", "ITINERARY_SESSION_LIFETIME"])
def test_a_session_lasts_a_minute_to_thirty_days(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for value in ("59s", "31d"):
        monkeypatch.setenv(name, value)
        with pytest.raises(BadValues, match=f"{name}.*give 1m to 30d"):
            load_settings()
