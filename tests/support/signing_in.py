"""A browser that signs in, played by a client: it keeps cookies, sends forms, and asks for pages as a browser does."""

import re
from urllib.parse import parse_qs, urlsplit

from fastapi.testclient import TestClient
from httpx2 import Response

AS_BROWSER = {"Accept": "text/html,application/xhtml+xml"}
SESSION = "itinerary_session"


def ask(api: TestClient, path: str) -> Response:
    """Ask for a page; where it leads to is not followed."""
    answer: Response = api.get(path, headers=AS_BROWSER, follow_redirects=False)
    return answer


def csrf_on(page: str) -> str:
    """The token of the first form on a page."""
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)
    assert found is not None, page
    return found[1]


def sign_in(api: TestClient, token: str, wanted: str = "/", headers: dict[str, str] | None = None) -> Response:
    """Type a token on the sign-in page."""
    form = {"csrf": csrf_on(api.get("/sign-in").text), "token": token, "next": wanted}
    answer: Response = api.post("/sign-in", data=form, headers=headers, follow_redirects=False)
    return answer


def sign_out(api: TestClient, **fields: str) -> Response:
    """Push the button on the start page."""
    form = {"csrf": csrf_on(ask(api, "/").text), **fields}
    answer: Response = api.post("/sign-out", data=form, follow_redirects=False)
    return answer


def wanted_page(answer: Response) -> str:
    """The page that the sign-in page is to lead to; the answer must lead there."""
    assert answer.status_code == 303, answer.text
    place = urlsplit(answer.headers["location"])
    assert (place.netloc, place.path) == ("", "/sign-in")
    return parse_qs(place.query)["next"][0]
