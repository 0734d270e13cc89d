"""Requests to the API and what came of them, for the client: what may be sent again, when, and its errors.

Promises: a request that the API may have carried out is sent again only where that changes nothing; between tries it
waits as long as the API asks for. Light to import.
"""

import random
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import httpx2

from scheduler_service.core.errors import BadValue, ItineraryError
from scheduler_service.tracing import caller_traceparent

_PREFIX: Final = "/api/v1"
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 30.0
_UNSENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class ApiError(ItineraryError):
    """The API refused; `problem` is its problem document, `status` the HTTP status."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = problem
        complaints = "; ".join(str(error.get("msg", "")) for error in problem.get("errors") or [])
        detail = complaints or problem.get("detail") or problem.get("title") or "no explanation"
        super().__init__(f"{detail} (HTTP {status})")


class NoAnswer(ItineraryError):
    """The API did not answer; whether it carried out the request is unknown."""


class Transport:
    """One API; `retries` is how often a request may be sent again. Threads may share it."""

    def __init__(self, base_url: str, token: str | None, timeout: float, retries: int) -> None:
        if token and not (token.isascii() and token.isprintable()):
            raise BadValue("token", "...", "give printable ASCII")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.base_url = base_url.rstrip("/")
        self._retries = retries
        try:
            self._http = httpx2.Client(base_url=self.base_url, headers=headers, timeout=timeout, trust_env=False)
        except httpx2.InvalidURL as exc:
            raise BadValue("base_url", base_url, f"give an address such as http://127.0.0.1:8080 ({exc})") from exc

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def object(self, method: str, path: str, *, again: bool = False, **request: Any) -> dict[str, Any]:
        """The JSON object that the API answers with."""
        answer = _object(self.send(method, path, again=again, **request))
        if answer is None:
            raise NoAnswer(f"what answers at {self.base_url} is not Itinerary's API")
        return answer

    def send(self, method: str, path: str, *, again: bool = False, **request: Any) -> httpx2.Response:
        """The API's answer; `again`: sending this twice does no more than once. Reading always may be repeated.

        NoAnswer or ApiError once no try is left.
        """
        if "params" in request:
            request["params"] = given(**request["params"])
        request["headers"] = {**request.get("headers", {}), **given(traceparent=caller_traceparent())}
        repeatable = again or method == "GET"
        tried = 0
        while True:
            pause = _FIRST_PAUSE * 2.0**tried * random.uniform(0.5, 1.5)
            last = tried == self._retries
            try:
                response = self._http.request(method, f"{_PREFIX}{path}", **request)
            except httpx2.HTTPError as exc:
                if last or not (repeatable or isinstance(exc, _UNSENT)):
                    raise NoAnswer(f"no answer from the API at {self.base_url}: {exc}") from exc
            else:
                if response.is_success:
                    return response
                pause = max(pause, _asked_for(response))
                if last or pause > _LONGEST_PAUSE or not _may_succeed_later(response.status_code, repeatable):
                    raise ApiError(response.status_code, _problem(response))
            tried += 1
            time.sleep(pause)


def _may_succeed_later(status: int, repeatable: bool) -> bool:
    """429 is said before anything is done, 503 perhaps after it."""
    return status == 429 or (status == 503 and repeatable)


def given(**values: Any) -> dict[str, Any]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def segment(text: str) -> str:
    """A text as one part of an address."""
    return quote(text, safe="")


def _asked_for(response: httpx2.Response) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _problem(response: httpx2.Response) -> dict[str, Any]:
    return _object(response) or {"title": f"{response.reason_phrase}, and not by Itinerary's API, at {response.url}"}


def _object(response: httpx2.Response) -> dict[str, Any] | None:
    try:
        found = response.json()
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
