"""Requests to the API for the client: which may be repeated, when, and the errors they end in.

Promises that a request which the API may have carried out is repeated only if that changes nothing. Between tries it
waits as long as the API asks for. Standard library only; light to import.
"""

import http.client
import json
import random
import threading
import time
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from itinerary.client.http_pool import Answer, Pool, Unsent
from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.telemetry.tracing import caller_traceparent
from itinerary.version import VERSION

_PREFIX: Final = "/api/v1"
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 30.0


class ApiError(ItineraryError):
    """The API refused; `problem` is its problem document, `status` the HTTP status."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = problem
        messages = "; ".join(str(error.get("msg", "")) for error in problem.get("errors") or [])
        detail = messages or problem.get("detail") or problem.get("title") or "no explanation"
        super().__init__(f"{detail} (HTTP {status})")


class NoAnswer(ItineraryError):
    """The API did not answer; it may or may not have carried out the request."""


class Transport:
    """One API; `retries` is how often a request may be repeated, `total` the seconds for it with its repeats.

    Threads may share it.
    """

    def __init__(
        self, base_url: str, token: str | None, timeout: float, retries: int, total: float | None = None
    ) -> None:
        if token and not (token.isascii() and token.isprintable()):
            raise BadValue("token", "...", "give printable ASCII")
        for name, seconds in given(timeout=timeout, total_timeout=total).items():
            _check_seconds(name, seconds)
        self._headers = {"User-Agent": f"itinerary/{VERSION}", "Accept": "application/json"}
        self.base_url = base_url.rstrip("/")
        self._retries = retries
        self._total = total
        where = _read_url(self.base_url)
        if token or where.username:
            self._headers["Authorization"] = f"Bearer {token}" if token else _basic(where)
        self._path = where.path + _PREFIX
        self._pool = Pool(where, timeout)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def object(self, method: str, path: str, *, again: bool = False, **request: Any) -> dict[str, Any]:
        """The JSON object in the API's answer."""
        answer = _object(self.send(method, path, again=again, **request))
        if answer is None:
            raise NoAnswer(f"the server at {self.base_url} is not Itinerary's API; check base_url")
        return answer

    def send(
        self,
        method: str,
        path: str,
        *,
        again: bool = False,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Send a request and return the answer; `again`: repeating it has no more effect. Reads may always be repeated.

        NoAnswer or ApiError once no try is left.
        """
        target = f"{self._path}{path}{_query(given(**(params or {})))}"
        sent, body = {**self._headers, **(headers or {}), **given(traceparent=caller_traceparent())}, None
        if json is not None:
            sent["Content-Type"], body = "application/json", _encoded(json)
        _check(sent)
        repeatable = again or method == "GET"
        deadline = None if self._total is None else time.monotonic() + self._total
        tried = 0
        while True:
            pause = _FIRST_PAUSE * 2.0**tried * random.uniform(0.5, 1.5)
            last = tried == self._retries
            try:
                answer = self._pool.ask(method, target, body, sent, timeout, deadline)
            except (OSError, http.client.HTTPException) as exc:
                if last or _is_over(deadline, pause) or not (repeatable or isinstance(exc, Unsent)):
                    message = str(exc) or type(exc).__name__
                    raise NoAnswer(f"no answer from the API at {self.base_url}: {message}") from exc
            else:
                if 200 <= answer.status < 300:
                    return answer
                pause = max(pause, _asked_for(answer))
                last = last or pause > _LONGEST_PAUSE or _is_over(deadline, pause)
                if last or not _may_succeed_later(answer.status, repeatable):
                    raise ApiError(answer.status, self._problem(answer, target))
            tried += 1
            time.sleep(pause)

    def _problem(self, answer: Answer, target: str) -> dict[str, Any]:
        place = self.base_url + target.removeprefix(self._path.removesuffix(_PREFIX))
        return _object(answer) or {"title": f"{answer.reason}, and not by Itinerary's API, at {place}"}


def _may_succeed_later(status: int, repeatable: bool) -> bool:
    """Whether to retry: the API answers 429 before it does anything, 503 perhaps after."""
    return status == 429 or (status == 503 and repeatable)


def _is_over(deadline: float | None, pause: float) -> bool:
    """Whether no time would be left after this pause."""
    return deadline is not None and time.monotonic() + pause >= deadline


def given(**values: Any) -> dict[str, Any]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def segment(text: str) -> str:
    """The text, encoded as one segment of a path."""
    return quote(text, safe="")


def _read_url(base_url: str) -> SplitResult:
    allowed = "give an address such as http://127.0.0.1:8080"
    try:
        where = urlsplit(base_url)
        port = where.port
    except ValueError as exc:
        raise BadValue("base_url", base_url, f"{allowed} ({exc})") from exc
    plain = base_url.isascii() and base_url.isprintable() and " " not in base_url
    is_origin = where.scheme in ("http", "https") and where.hostname and port != 0
    if not (plain and is_origin) or where.query or where.fragment:
        raise BadValue("base_url", base_url, allowed)
    return where


def _basic(where: SplitResult) -> str:
    """User and password of the address, for a proxy before the API."""
    pair = f"{unquote(where.username or '')}:{unquote(where.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def _query(values: Mapping[str, Any]) -> str:
    """The query of an address; booleans are written as in JSON."""
    parameters = {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}
    return f"?{urlencode(parameters, doseq=True)}" if parameters else ""


def _object_of(value: Any) -> dict[str, Any]:
    """A mapping, such as a result of ours that is sent back, as JSON takes it."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON")


def _encoded(value: Any) -> bytes:
    try:
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_object_of
        ).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise BadValue("request", None, f"give plain JSON ({str(exc)[:80]})") from exc


def _check(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise BadValue(name, value, "give one line of printable ASCII")


def _check_seconds(name: str, value: Any) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= threading.TIMEOUT_MAX:
        raise BadValue(name, value, "give seconds above 0")


def _asked_for(answer: Answer) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _object(answer: Answer) -> dict[str, Any] | None:
    try:
        found = json.loads(answer.body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
