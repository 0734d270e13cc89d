"""The page of sessions: who sees whose, and who ends them."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from itinerary.protocol.instants import HOUR
from scheduler_service.api.app import build_app
from scheduler_service.api.context import ApiContext, system_clock
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.config.settings import Settings
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.sessions import SignedIn
from scheduler_service.ports.records import AuditFilter
from tests.api.test_auth import guarded_settings, token_line
from tests.support.signing_in import ask, csrf_on, sign_in, wanted_page

Signed = Callable[..., TestClient]


@pytest.fixture
def signed(settings: Settings, stores: Stores, event_loop: Any) -> Signed:
    """A browser of its own that is signed in with a token, at an API over the same stores."""
    own = guarded_settings(settings)
    limited = Settings(api_tokens=token_line("mail", "admin", "mail") + ":queues=mail").api_tokens  # type: ignore[arg-type]
    more = own.model_copy(update={"api_tokens": (*own.api_tokens, *limited)})

    def new(token: str, agent: str = "Firefox") -> TestClient:
        app = build_app(ApiContext(more, stores, LeaderLine(stores.inbox, system_clock), system_clock))
        client = TestClient(app, base_url="http://127.0.0.1", headers={"User-Agent": agent})
        client.portal = event_loop
        assert sign_in(client, token).status_code == 303
        return client

    return new


def end(browser: TestClient, session_id: int, **fields: str) -> Response:
    form = {"csrf": csrf_on(ask(browser, "/sessions").text), **fields}
    answer: Response = browser.post(f"/sessions/{session_id}/end", data=form, follow_redirects=False)
    return answer


def ids(stores: Stores) -> dict[str, int]:
    return {one.agent: one.session_id for one in stores.sessions.list(system_clock(), 1 << 60, 99)}


def test_everybody_sees_and_ends_their_own_sessions(signed: Signed, stores: Stores) -> None:
    here, there, other = signed("viewer", "Firefox"), signed("viewer", "Safari"), signed("operator", "Chrome")
    page = ask(here, "/sessions").text
    assert "<h1>Your sessions</h1>" in page
    assert [agent in page for agent in ("Firefox", "Safari", "Chrome")] == [True, True, False]
    assert page.count("(this one)") == 1
    assert "testclient" in page, "the address"
    assert 'href="/sessions"' in ask(here, "/jobs").text
    assert end(here, ids(stores)["Chrome"]).status_code == 404
    assert ask(other, "/").status_code == 200
    ended = end(here, ids(stores)["Safari"])
    assert (ended.status_code, ended.headers["location"]) == (303, "/sessions?done=session-ended")
    assert wanted_page(ask(there, "/")) == "/"
    assert ask(here, "/").status_code == 200
    end(here, ids(stores)["Firefox"])
    assert wanted_page(ask(here, "/sessions")) == "/sessions"


def test_an_admin_sees_all_and_ends_all_of_a_person(signed: Signed, stores: Stores) -> None:
    admin, one, two, other = signed("admin", "A"), signed("viewer", "B"), signed("viewer", "C"), signed("operator", "D")
    page = ask(admin, "/sessions").text
    assert "<h1>Sessions</h1>" in page
    for name in ("a-admin", "a-viewer", "a-operator"):
        assert name in page
    assert page.count("End all 2</button>") == 2
    assert end(admin, ids(stores)["B"], everywhere="yes").headers["location"] == "/sessions?done=sessions-ended"
    assert [wanted_page(ask(browser, "/")) for browser in (one, two)] == ["/", "/"]
    assert [ask(browser, "/").status_code for browser in (admin, other)] == [200, 200]
    entries = stores.audit.list(AuditFilter(action="session.end"), 9, None).items
    assert [(entry.actor, entry.subject) for entry in entries] == [("a-admin", "a-viewer")] * 2


def test_a_limited_admin_sees_those_of_its_own_token(signed: Signed, stores: Stores) -> None:
    mail, admin = signed("mail", "A"), signed("admin", "B")
    page = ask(mail, "/sessions").text
    assert "a-admin" not in page
    assert end(mail, ids(stores)["B"]).status_code == 404
    assert ask(admin, "/").status_code == 200
    second, now = signed("mail", "C"), system_clock()
    by = AuditedChange("mail", "admin", "session.sign-in")
    wider = SignedIn("a token of before, without limits", "mail", "mail")
    stores.sessions.begin(wider, "a" * 64, "D", "192.0.2.1", now, now + HOUR, by=by)
    end(mail, ids(stores)["C"], everywhere="yes")
    assert set(ids(stores)) == {"B", "D"}
    assert wanted_page(ask(second, "/")) == "/"


def test_a_form_of_another_site_ends_nothing(signed: Signed, stores: Stores) -> None:
    browser = signed("viewer", "A")
    assert browser.post(f"/sessions/{ids(stores)['A']}/end", data={"csrf": "x"}).status_code == 403
    assert ask(browser, "/").status_code == 200


def test_where_nobody_signs_in_the_page_says_so(api: TestClient) -> None:
    assert "Nobody needs to sign in" in api.get("/sessions").text
