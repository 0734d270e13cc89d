"""Links that share one page: what they show, and everything that they do not."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from sqlalchemy import select

from itinerary.protocol.errors import BadValues
from itinerary.protocol.instants import DAY, HOUR, Instant
from scheduler_service.api.app import build_app
from scheduler_service.api.context import ApiContext, system_clock
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.config.settings import Settings, load_settings
from scheduler_service.ports.records import AuditFilter
from scheduler_service.sql.database import Database
from scheduler_service.sql.sign_in_tables import share_links
from tests.api.test_auth import bearer, guarded_settings, token_line
from tests.support.signing_in import ask, csrf_on, sign_in, wanted_page

Browsers = Callable[..., TestClient]


class Moved:
    """The clock of the API, which a test moves."""

    ahead = 0

    def __call__(self) -> Instant:
        return system_clock() + self.ahead


@pytest.fixture
def clock() -> Moved:
    return Moved()


@pytest.fixture
def browsers(settings: Settings, stores: Stores, clock: Moved, event_loop: Any) -> Browsers:
    """Browsers at APIs over the same stores, which share pages."""

    def new(**changes: Any) -> TestClient:
        own = guarded_settings(settings).model_copy(update={"share_links": True} | changes)
        context = ApiContext(own, stores, LeaderLine(stores.inbox, system_clock), clock)
        client = TestClient(build_app(context), base_url="http://127.0.0.1", raise_server_exceptions=False)
        client.portal = event_loop
        return client

    return new


@pytest.fixture
def operator(browsers: Browsers, job: dict[str, Any]) -> TestClient:
    """Signed in, with two jobs there."""
    browser = browsers()
    for job_id in ("a.job", "b.job"):
        answer = browser.post("/api/v1/jobs", json=job | {"job_id": job_id}, headers=bearer("operator"))
        assert answer.status_code == 201
    sign_in(browser, "operator")
    return browser


def create(browser: TestClient, page: str, lasts: str = "7d") -> Response:
    form = {"csrf": csrf_on(ask(browser, "/").text), "page": page, "for": lasts}
    answer: Response = browser.post("/links", data=form, follow_redirects=False)
    return answer


def shared(browser: TestClient, page: str, lasts: str = "7d") -> str:
    """The path of a new link."""
    found = re.search(r'value="http://127.0.0.1(/shared/[\w-]+)"', create(browser, page, lasts).text)
    assert found is not None
    return found[1]


def test_a_link_shows_its_page_to_somebody_without_a_login(operator: TestClient, browsers: Browsers) -> None:
    assert 'href="/links/new?page=/jobs/a.job"' in ask(operator, "/jobs/a.job").text
    assert "<code>/jobs/a.job</code>" in ask(operator, "/links/new?page=/jobs/a.job").text
    link = shared(operator, "/jobs/a.job")
    guest = browsers()
    answer = ask(guest, link)
    assert answer.status_code == 200
    assert "a.job" in answer.text
    assert "Shared page, to read only" in answer.text
    assert f'hx-get="{link}"' in answer.text
    assert 'method="post"' not in answer.text
    assert answer.headers["x-robots-tag"] == "noindex, nofollow"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    refreshed = guest.get(link, headers={"HX-Request": "true"})
    assert refreshed.status_code == 200
    assert "<html" not in refreshed.text
    assert guest.get("/static/itinerary.css").status_code == 200


def test_the_query_of_the_page_belongs_to_it(operator: TestClient, browsers: Browsers) -> None:
    link = shared(operator, "/jobs?q=b.job&done=made")
    answer = ask(browsers(), link)
    assert "b.job" in answer.text
    assert "a.job" not in answer.text
    assert ask(browsers(), f"{link}?q=a.job").status_code == 422


@pytest.mark.parametrize(
    "path", ["/", "/jobs", "/jobs/b.job", "/jobs/a.job/edit", "/audit", "/docs", "/links", "/flower"]
)
def test_a_link_shows_no_other_page(operator: TestClient, browsers: Browsers, path: str) -> None:
    link = shared(operator, "/jobs/a.job")
    guest = browsers()
    ask(guest, link)
    assert wanted_page(ask(guest, path)) == path
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://127.0.0.1{link}"}
    answer = guest.get(path, headers=headers, follow_redirects=False)
    assert answer.status_code == 401
    assert "hx-redirect" not in answer.headers
    assert "www-authenticate" not in answer.headers
    below = f"{link}{path}"
    assert wanted_page(ask(guest, below)) == below


def test_a_link_shows_the_parts_that_its_page_loads_and_those_of_no_other(
    operator: TestClient, browsers: Browsers
) -> None:
    guest = browsers()
    for page, wanted in (("/", 200), ("/jobs", 401)):
        current = {"HX-Request": "true", "HX-Current-URL": f"http://127.0.0.1{shared(operator, page)}"}
        assert (guest.get("/parts/distribution", headers=current).status_code != 401) is (wanted == 200), page
        assert guest.get("/parts/palette?q=job", headers=current).status_code == 401, "it finds what other pages show"
        assert guest.post("/parts/distribution", headers=current).status_code in (401, 405)
    forged = {"HX-Request": "true", "HX-Current-URL": "http://127.0.0.1/shared/" + "x" * 43}
    assert guest.get("/parts/distribution", headers=forged).status_code == 401


def test_a_part_of_a_shared_page_shows_what_the_page_shows_and_nothing_beside(
    operator: TestClient, browsers: Browsers
) -> None:
    guest = browsers()
    wanted = {
        "": {"": 200, "?window=6h": 200, "?window=6h&tz=UTC": 200, "?window=7d": 401, "?queue=mail": 401},
        "?window=1h&queue=mail": {"?window=1h": 200, "?window=1h&queue=mail": 401},
        "?window=7d": {"?window=7d": 200, "?window=6h": 401, "?window=7d&window=6h": 401, "?of_workers=true": 401},
    }
    for query, parts in wanted.items():
        current = {"HX-Request": "true", "HX-Current-URL": f"http://127.0.0.1{shared(operator, f'/{query}')}"}
        found = {part: guest.get(f"/parts/trends{part}", headers=current).status_code for part in parts}
        assert found == parts


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_link_is_for_reading(operator: TestClient, browsers: Browsers, method: str) -> None:
    link = shared(operator, "/jobs/a.job")
    assert browsers().request(method, link).status_code == 405


@pytest.mark.parametrize(
    "page",
    ["/audit", "/flower", "/flower?to=/tasks", "/links", "/sign-in", "/docs", "/metrics", "/api/v1/jobs", "/manual",
     "//evil.example", "https://evil.example/jobs", "/jobs/../audit", "/openapi.json", "/shared/abc",
     "/static/icon.svg"],
)  # fmt: skip
def test_what_is_no_page_of_ours_is_not_shared(operator: TestClient, page: str) -> None:
    assert create(operator, page).status_code == 422
    assert ask(operator, "/links/new?page=" + page.replace("?", "%3F")).status_code == 422


@pytest.mark.parametrize(("lasts", "wanted"), [("59m", 422), ("91d", 422), ("soon", 422), ("1h", 200), ("90d", 200)])
def test_a_link_lasts_an_hour_to_ninety_days(operator: TestClient, lasts: str, wanted: int) -> None:
    assert create(operator, "/jobs", lasts).status_code == wanted


def test_a_link_ends_with_its_time(operator: TestClient, browsers: Browsers, clock: Moved) -> None:
    link = shared(operator, "/jobs", "1h")
    clock.ahead = HOUR - 1_000_000
    assert ask(browsers(), link).status_code == 200
    clock.ahead = HOUR
    answer = ask(browsers(), link)
    assert answer.status_code == 404
    assert "revoked, is too old" in answer.text
    assert answer.headers["x-robots-tag"] == "noindex, nofollow"


def test_a_link_that_is_revoked_ends_at_once_and_is_listed_no_more(operator: TestClient, browsers: Browsers) -> None:
    link = shared(operator, "/jobs")
    page = ask(operator, "/links").text
    (number,) = re.findall(r'action="/links/(\d+)/revoke"', page)
    assert link.rpartition("/")[2] not in page
    form = {"csrf": csrf_on(page)}
    assert operator.post(f"/links/{number}/revoke", data=form, follow_redirects=False).status_code == 303
    assert ask(browsers(), link).status_code == 404
    assert "Nothing is shared" in ask(operator, "/links").text
    assert operator.post(f"/links/{number}/revoke", data=form, follow_redirects=False).status_code == 404


def test_a_link_ends_with_the_token_behind_it(operator: TestClient, browsers: Browsers) -> None:
    link = shared(operator, "/jobs")
    lines = [token_line("a-operator", "viewer", "operator"), token_line("other", "admin", "x")]
    changed = Settings(api_tokens=",".join(lines)).api_tokens  # type: ignore[arg-type]  # a text is read
    assert ask(browsers(api_tokens=changed), link).status_code == 404
    assert ask(browsers(), link).status_code == 200


def test_a_link_of_a_limited_token_has_its_limits(browsers: Browsers, operator: TestClient) -> None:
    line = token_line("mail", "operator", "mailer") + ":jobs=b."
    own = operator.app.state.context.settings.api_tokens  # type: ignore[attr-defined]  # the application itself
    both = (*own, *Settings(api_tokens=line).api_tokens)  # type: ignore[arg-type]  # a text is read
    mailer = browsers(api_tokens=both)
    sign_in(mailer, "mailer")
    of_all = browsers(api_tokens=both)
    sign_in(of_all, "operator")
    shared(of_all, "/jobs/a.job")
    link = shared(mailer, "/jobs")
    assert "a.job" not in ask(mailer, "/links").text
    form = {"csrf": csrf_on(ask(mailer, "/links").text)}
    assert mailer.post("/links/1/revoke", data=form, follow_redirects=False).status_code == 404
    answer = ask(browsers(api_tokens=both), link)
    assert "b.job" in answer.text
    assert "a.job" not in answer.text


def test_a_viewer_shares_nothing(browsers: Browsers) -> None:
    viewer = browsers()
    sign_in(viewer, "viewer")
    assert "Share this page" not in ask(viewer, "/jobs").text
    assert ask(viewer, "/links").status_code == 403
    assert create(viewer, "/jobs").status_code == 403


def test_where_it_is_off_nothing_is_shared_and_links_show_nothing(operator: TestClient, browsers: Browsers) -> None:
    link = shared(operator, "/jobs")
    off = browsers(share_links=False)
    assert ask(off, link).status_code == 404
    sign_in(off, "operator")
    assert ask(off, "/links").status_code == 404
    assert create(off, "/jobs").status_code == 404
    assert "Share this page" not in ask(off, "/jobs").text


def test_a_link_does_not_make_a_signed_in_browser_anybody_else(operator: TestClient) -> None:
    link = shared(operator, "/jobs")
    assert "Sign out" not in ask(operator, link).text
    assert "Sign out" in ask(operator, "/jobs").text


def test_only_the_digest_is_stored_and_the_log_names_the_link(
    operator: TestClient, settings: Settings, stores: Stores
) -> None:
    secret = shared(operator, "/jobs").rpartition("/")[2]
    with Database(settings.database_url, pool_size=1).read() as connection:
        (row,) = connection.execute(select(share_links)).mappings().all()
    assert row["secret_hash"] == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in str(dict(row))
    (entry,) = stores.audit.list(AuditFilter(action="share.create"), 10, None).items
    assert (entry.actor, entry.subject) == ("a-operator", "/jobs")
    assert secret not in str(entry)
    assert row["ends_at"] - row["created_at"] == 7 * DAY


def test_pages_are_shared_only_where_somebody_must_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITINERARY_SHARE_LINKS", "on")
    with pytest.raises(BadValues, match=r"ITINERARY_SHARE_LINKS.*set ITINERARY_API_TOKENS or ITINERARY_OIDC_ISSUER"):
        load_settings()
