"""Who reaches Flower: the guard's verdicts, and the tickets that lead from the dashboard to a session."""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import HOUR, MINUTE, SECOND
from scheduler_service.api.context import system_clock
from scheduler_service.config.settings import Settings, load_settings
from scheduler_service.flower_server.guard import Admitted, Asked, Guard, LoggedIn, Refused, SentToDashboard
from scheduler_service.flower_server.tickets import (
    LOGIN_PATH,
    Ticket,
    is_local_path,
    new_ticket,
    opened,
    sealed,
    session_of,
)
from tests.support.signing_in import ask, sign_in

PASSWORD = "open sesame ü"
NOW = 1_800_000_000 * SECOND
HOST = {"Host": "127.0.0.1:5555"}


def login(password: str = PASSWORD, user: str = "itinerary") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def verdict(guard: Guard, method: str = "GET", path: str = "/", **headers: str) -> object:
    asked = Asked(method, path, {**HOST, **{name.replace("_", "-"): value for name, value in headers.items()}})
    return guard.judge(asked, NOW)


@pytest.fixture
def guard() -> Guard:
    return Guard(PASSWORD, "127.0.0.1")


def status(found: object) -> int:
    return found.status if isinstance(found, Refused) else 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:5555", "127.0.0.1.evil.example", "10.1.2.3", "", "[::1"]
)
def test_on_loopback_only_names_of_this_machine_are_answered(guard: Guard, host: str) -> None:
    assert status(guard.judge(Asked("GET", "/", {"Host": host, **login()}), NOW)) == 403
    assert status(guard.judge(Asked("GET", "/healthcheck", {"Host": host}), NOW)) == 403


@pytest.mark.parametrize("host", ["127.0.0.1:15555", "localhost", "[::1]:5555", "flower.localhost"])
def test_loopback_names_are_answered_on_any_port_that_is_forwarded(guard: Guard, host: str) -> None:
    assert status(guard.judge(Asked("GET", "/", {"Host": host, **login()}), NOW)) == 200


def test_on_an_open_address_it_answers_to_addresses_and_to_the_name_that_was_told() -> None:
    guard = Guard(PASSWORD, "0.0.0.0", "https://flower.example/f")
    hosts = (
        "10.1.2.3:5555",
        "[fd00::7]:5555",
        "flower.example",
        "localhost:5555",
        "evil.example",
        "flower.example.evil",
    )
    found = [status(guard.judge(Asked("GET", "/", {"Host": host, **login()}), NOW)) for host in hosts]
    assert found == [200, 200, 200, 200, 403, 403]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:8080"},
        {"Origin": "http://[bad"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"},
        {"Sec_Fetch_Site": "new-kind"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
def test_a_page_of_another_site_is_refused_even_with_the_password(
    guard: Guard, method: str, headers: dict[str, str]
) -> None:
    for path in ("/", "/healthcheck", "/metrics", "/static/x.css", LOGIN_PATH, "/api/workers", "/nowhere"):
        assert status(verdict(guard, method, path, **headers, **login())) == 403


def test_a_link_of_another_site_leads_here_but_posts_nothing(guard: Guard) -> None:
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert status(verdict(guard, "GET", **link, **login())) == 200
    assert status(verdict(guard, "POST", **link, **login())) == 403


def test_our_own_pages_may_do_everything(guard: Guard) -> None:
    own = {"Origin": "http://127.0.0.1:5555", "Sec_Fetch_Site": "same-origin"}
    assert verdict(guard, "POST", "/api/task/revoke/x", **own, **login()) == Admitted()


@pytest.mark.parametrize("path", ["/", "/metrics", "/static/x", "/api/tasks", "/nowhere", "/login", "//healthcheck"])
def test_without_a_login_nothing_but_the_health_check_answers(guard: Guard, path: str) -> None:
    assert status(verdict(guard, path=path)) == 401
    assert status(verdict(guard, path="/healthcheck")) == 200


@pytest.mark.parametrize(
    "headers",
    [login("wrong"), login(user="admin"), login(""), {"Authorization": "Basic !"}, {"Authorization": "Bearer x"},
     {"Authorization": "Basic"}],
)  # fmt: skip
def test_a_wrong_login_is_refused_and_counted(guard: Guard, headers: dict[str, str]) -> None:
    found = verdict(guard, **headers)
    assert isinstance(found, Refused)
    assert (found.status, found.failed_login) == (401, True)


def test_whoever_guesses_waits_and_the_others_do_not(guard: Guard) -> None:
    guess = Asked("GET", "/", {**HOST, **login("guess")}, sender="10.0.0.1")
    right = replace(guess, headers={**HOST, **login()})
    assert [status(guard.judge(guess, NOW + n)) for n in range(11)] == [401] * 10 + [429]
    assert status(guard.judge(right, NOW + 20)) == 429  # else a guesser would learn which one is right
    assert status(guard.judge(replace(right, sender="10.0.0.2"), NOW + 20)) == 200
    assert status(guard.judge(right, NOW + 11 * SECOND)) == 200


def ticket(role: str = "operator", path: str = "/tasks") -> str:
    return sealed(new_ticket("me", role, path, NOW, "ticket"), PASSWORD, "ticket")


def redeem(guard: Guard, text: str, now: int = NOW) -> object:
    return guard.judge(Asked("GET", LOGIN_PATH, HOST, ticket=text), now)


def test_what_is_no_get_does_not_use_a_ticket_up(guard: Guard) -> None:
    text = ticket()
    for method in ("HEAD", "OPTIONS", "POST", "PUT", "DELETE"):
        assert status(guard.judge(Asked(method, LOGIN_PATH, HOST, ticket=text), NOW)) == 405
    assert isinstance(redeem(guard, text), LoggedIn)


def test_a_ticket_counts_once(guard: Guard) -> None:
    text = ticket()
    found = redeem(guard, text)
    assert isinstance(found, LoggedIn)
    assert (found.ticket.name, found.ticket.role, found.ticket.path) == ("me", "operator", "/tasks")
    assert status(redeem(guard, text)) == 403
    assert status(redeem(guard, text, NOW + MINUTE)) == 403


def test_a_ticket_counts_once_also_where_flower_started_anew() -> None:
    assert status(redeem(Guard(PASSWORD, "127.0.0.1", since=NOW + 1), ticket())) == 403
    assert isinstance(redeem(Guard(PASSWORD, "127.0.0.1", since=NOW), ticket()), LoggedIn)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "x.y",
        ticket()[:-1] + "z",
        ticket() + "é",
        sealed(new_ticket("me", "admin", "/", NOW, "session"), PASSWORD, "session"),
        sealed(new_ticket("me", "admin", "/", NOW, "ticket"), "another password", "ticket"),
        sealed(new_ticket("me", "admin", "//evil.example", NOW, "ticket"), PASSWORD, "ticket"),
        sealed(new_ticket("me", "admin", "/", NOW - 2 * MINUTE, "ticket"), PASSWORD, "ticket"),
    ],
)
def test_what_is_no_fresh_ticket_is_refused(guard: Guard, text: str) -> None:
    assert status(redeem(guard, text)) == 403


def session(role: str, now: int = NOW) -> str:
    return sealed(new_ticket("me", role, "/", now, "session"), PASSWORD, "session")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "BREW"])
def test_a_viewer_looks_and_changes_nothing(guard: Guard, method: str) -> None:
    def of(role: str, method: str, path: str) -> int:
        return status(guard.judge(Asked(method, path, HOST, session=session(role)), NOW))

    assert of("viewer", "GET", "/api/workers") == 200
    assert of("viewer", "POST", "/tasks/datatable") == 200
    assert of("viewer", method, "/api/task/revoke/x") == 403
    assert of("enqueuer", method, "/api/task/revoke/x") == 403
    assert of("operator", method, "/api/task/revoke/x") == 200
    assert of("admin", method, "/api/task/revoke/x") == 200


def test_a_session_ends_after_a_working_day_and_a_ticket_is_none(guard: Guard) -> None:
    for text, now, wanted in (
        (session("admin"), NOW + 8 * HOUR - 1, 200),
        (session("admin"), NOW + 8 * HOUR, 401),
        (ticket("admin"), NOW, 401),
    ):
        assert status(guard.judge(Asked("GET", "/", HOST, session=text), now)) == wanted


LINK = {**HOST, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "same-origin"}


@pytest.mark.parametrize(
    ("renewed", "until", "lasts"),
    [
        (False, None, 8 * HOUR), (True, None, 8 * HOUR), (False, 12 * HOUR, 8 * HOUR), (False, HOUR, HOUR),
        (True, 12 * HOUR, 5 * MINUTE), (True, MINUTE, MINUTE),
    ],
)  # fmt: skip
def test_flowers_session_ends_with_the_login_behind_it(renewed: bool, until: int | None, lasts: int) -> None:
    at = None if until is None else NOW + until
    given = new_ticket("me", "viewer", "/tasks", NOW, "ticket", until=at)
    began = session_of(given, NOW, renewed=renewed)
    assert (began.expires_at - NOW, began.name, began.role) == (lasts, "me", "viewer")
    assert began.nonce != given.nonce


def test_a_session_that_is_over_is_asked_for_again_at_the_dashboard() -> None:
    guard = Guard(PASSWORD, "127.0.0.1", dashboard="https://itinerary.example/")
    old = session("viewer", NOW - 9 * HOUR)
    asked = Asked("GET", "/task/a~1", LINK, session=old)
    assert guard.judge(asked, NOW) == SentToDashboard("https://itinerary.example/flower?to=/task/a~1")
    for other in (
        Asked("GET", "/task/a~1", LINK),
        Asked("GET", "/task/a~1", HOST, session=old),
        Asked("POST", "/tasks/datatable", LINK, session=old),
    ):
        assert status(guard.judge(other, NOW)) == 401, "no ticket was taken before, or a script asks"
    assert status(Guard(PASSWORD, "127.0.0.1").judge(asked, NOW)) == 401


def test_a_ticket_of_a_token_is_read_by_a_flower_of_the_release_before() -> None:
    body = json.loads(base64.urlsafe_b64decode(ticket().partition(".")[0]))
    assert set(body) == {"name", "role", "path", "expires_at", "nonce"}


def test_the_dashboards_ticket_says_when_the_session_there_ends(
    client_of: Callable[[Settings], TestClient], settings: Settings
) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    changes = {"flower_password": PASSWORD, "api_tokens": load_settings(api_tokens=f"a:viewer:{digest}").api_tokens}
    api = client_of(settings.model_copy(update=changes))
    sign_in(api, "secret")
    text = parse_qs(urlsplit(ask(api, "/flower").headers["location"]).query)["ticket"][0]
    found = opened(text, PASSWORD, "ticket", 0)
    assert found is not None
    assert found.until is not None
    assert 12 * HOUR - MINUTE < found.until - system_clock() <= 12 * HOUR


@pytest.mark.parametrize("path", ["evil", "//evil.example", "/\\evil.example", "http://evil.example", "/a\nb", ""])
def test_a_path_leads_nowhere_else(path: str) -> None:
    assert not is_local_path(path)


# The dashboard's side.


def test_one_click_gives_a_ticket_with_the_callers_name_and_role_and_no_password(
    client_of: Callable[[Settings], TestClient], settings: Settings
) -> None:
    api = client_of(settings.model_copy(update={"flower_password": PASSWORD}))
    answer = api.get("/flower", params={"to": "/task/a~1"}, follow_redirects=False)
    assert answer.status_code == 303
    place = urlsplit(answer.headers["location"])
    assert (place.scheme, place.netloc, place.path) == ("http", "127.0.0.1:5555", LOGIN_PATH)
    (text,) = parse_qs(place.query)["ticket"]
    found = opened(text, PASSWORD, "ticket", 0)
    assert isinstance(found, Ticket)
    assert (found.name, found.role, found.path) == ("loopback", "admin", "/task/a~1")
    assert "sesame" not in str(answer.headers) + answer.text
    assert answer.headers["cache-control"] == "no-store"
    for page in ("/", "/workers"):
        assert 'href="/flower"' in api.get(page).text


def test_without_the_password_at_the_api_the_link_leads_to_flowers_own_login(api: TestClient) -> None:
    answer = api.get("/flower?to=/tasks", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "http://127.0.0.1:5555/tasks")


@pytest.mark.parametrize("path", ["//evil.example", "http://evil.example", "/\\evil.example"])
def test_the_link_leads_to_no_other_site(api: TestClient, path: str) -> None:
    assert api.get("/flower", params={"to": path}, follow_redirects=False).status_code == 422


def test_whoever_has_no_token_gets_no_ticket(client_of: Callable[[Settings], TestClient], settings: Settings) -> None:
    changes = {"flower_password": PASSWORD, "api_tokens": load_settings(api_tokens=f"a:viewer:{'0' * 64}").api_tokens}
    api = client_of(settings.model_copy(update=changes))
    assert api.get("/flower", follow_redirects=False).status_code == 401


def test_a_limited_token_gets_no_ticket_and_a_viewer_one_of_a_viewer(
    client_of: Callable[[Settings], TestClient], settings: Settings
) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    for token, wanted in ((f"a:operator:{digest}:queues=mail", 403), (f"a:viewer:{digest}", 303)):
        changes = {"flower_password": PASSWORD, "api_tokens": load_settings(api_tokens=token).api_tokens}
        api = client_of(settings.model_copy(update=changes))
        answer = api.get("/flower", headers={"Authorization": "Bearer secret"}, follow_redirects=False)
        assert answer.status_code == wanted, answer.text
    text = parse_qs(urlsplit(answer.headers["location"]).query)["ticket"][0]
    found = opened(text, PASSWORD, "ticket", 0)
    assert found is not None
    assert (found.name, found.role) == ("a", "viewer")
