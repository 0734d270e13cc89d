"""Forms of the dashboard, sent as a browser sends them."""

import re
from typing import Any

from fastapi.testclient import TestClient
from httpx2 import Response


def token(api: TestClient) -> dict[str, str]:
    """The header that scripts of a page send; the client keeps the cookie that belongs to it."""
    found = re.search(r'"X-Itinerary-CSRF": "([0-9a-f]{64})"', api.get("/load").text)
    assert found is not None
    return {"X-Itinerary-CSRF": found[1]}


def submit(api: TestClient, path: str, **fields: Any) -> Response:
    """Send a form with its token; where it leads to is not followed."""
    guarded = {"csrf": token(api)["X-Itinerary-CSRF"], **fields}
    answer: Response = api.post(path, data=guarded, follow_redirects=False)
    return answer
