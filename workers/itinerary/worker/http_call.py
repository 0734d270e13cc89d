"""The HTTP task's call: safe_http's, with private addresses allowed only if the worker's operator allows them."""

import os
from collections.abc import Mapping
from typing import Any, Final

from itinerary.net import safe_http
from itinerary.net.safe_http import Reach

ALLOW_PRIVATE: Final = "ITINERARY_HTTP_ALLOW_PRIVATE"


def call(url: str, method: str, headers: Mapping[str, str], body: Any, timeout: float) -> dict[str, Any]:
    """Status, headers and text of the answer; `timeout` in seconds covers all of it, redirects too."""
    reach = Reach(private=os.environ.get(ALLOW_PRIVATE) == "1", allowed_by=f"{ALLOW_PRIVATE}=1")
    return safe_http.call(url, method, headers, body, timeout, reach)
