"""Forms of the dashboard, sent as a browser sends them."""

import html
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


def as_shown(page: str) -> dict[str, str]:
    """What a browser would send of a form as it is shown."""
    fields: dict[str, str] = {}
    for tag in re.findall(r"<input [^>]*>", page):
        name = re.search(r'name="([^"]+)"', tag)
        value = re.search(r'value="([^"]*)"', tag)
        ticks = 'type="radio"' in tag or 'type="checkbox"' in tag
        if name and (not ticks or " checked" in tag):
            fields[name[1]] = html.unescape(value[1]) if value else "on"
    for name_of, inside in re.findall(r'<select name="([^"]+)"[^>]*>(.*?)</select>', page, re.DOTALL):
        options = re.findall(r'<option(?:( value=)"([^"]*)")?( selected)?>([^<]*)', inside)
        with_value, value_of, _, text = next((option for option in options if option[2]), options[0])
        fields[name_of] = value_of if with_value else text
    for name_of, inside in re.findall(r'<textarea name="([^"]+)"[^>]*>(.*?)</textarea>', page, re.DOTALL):
        fields[name_of] = html.unescape(inside)
    fields.pop("csrf")
    return fields
