"""Request bodies: limits on size and depth, and strict JSON, checked before a body is interpreted.

Promises: a body is never buffered past the limit, however it is sent. What passes is plain JSON that every database,
Celery message and JavaScript reader accepts: unique keys, finite numbers, 64-bit integers, no NUL, no lone surrogate.
"""

import asyncio
import json
from collections import Counter
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import SECOND, format_duration
from itinerary.protocol.json_text import is_storable
from scheduler_service.api.http.problems import Problem, malformed, problem_response

MAX_BODY: Final = 1024 * 1024
MAX_DEPTH: Final = 64
_TOO_LARGE: Final = f"the body may have {MAX_BODY} bytes"
_TOO_DEEP: Final = f"the JSON may be nested {MAX_DEPTH} levels deep"


class BodyLimit:
    """ASGI middleware: 413 for a body over MAX_BODY, by its header or, without one, while it arrives."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif _announced(scope) > MAX_BODY:
            response = problem_response(Problem(413, _TOO_LARGE, headers={"Connection": "close"}))
            await response(scope, receive, send)
        else:
            await self._app(scope, _counting(receive), send)


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


def _counting(receive: Receive) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MAX_BODY:
            raise Problem(413, _TOO_LARGE, headers={"Connection": "close"})
        return message

    return counted


async def raw_body(request: Request) -> bytes:
    """Return the whole body; 408 if its sender is too slow."""
    within = request.app.state.context.settings.api_receive_timeout
    try:
        async with asyncio.timeout(within / SECOND):
            return await request.body()
    except TimeoutError:
        message = f"the body did not come within {format_duration(within)}"
        raise Problem(408, message, headers={"Connection": "close"}) from None


def json_object(raw: Annotated[bytes, Depends(raw_body)]) -> dict[str, Any]:
    """Return the body as a JSON object; parses in a worker thread, so that a large body delays no other request."""
    return read_object(raw)


def optional_object(raw: Annotated[bytes, Depends(raw_body)]) -> dict[str, Any]:
    """Like `json_object`; an absent body is an empty object."""
    return read_object(raw) if raw.strip() else {}


JsonObject = Annotated[dict[str, Any], Depends(json_object)]
OptionalJsonObject = Annotated[dict[str, Any], Depends(optional_object)]


def read_object(raw: bytes) -> dict[str, Any]:
    """Parse strictly: Problem 400 for anything but JSON as described above, 422 for text that cannot be stored."""
    try:
        value = _parsed(raw.decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise malformed("the body is not UTF-8") from exc
    except ValueError as exc:
        raise malformed(f"the body is not accepted as JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise malformed("the body must be a JSON object")
    return value


def read_json(text: str, field: str) -> Any:
    """Parse the JSON in a form field as strictly as a body; BadValue."""
    try:
        return _parsed(text)
    except ValueError as exc:
        raise BadValue(field, text[:100], f"give JSON ({exc})") from exc
    except Problem as exc:
        raise BadValue(field, text[:100], str(exc.errors[0]["msg"] if exc.errors else exc.detail)) from exc


def _parsed(text: str) -> Any:
    try:
        value = json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, parse_int=_bounded, object_pairs_hook=_unique
        )
    except RecursionError as exc:
        raise malformed(_TOO_DEEP) from exc
    if isinstance(value, dict | list):
        _check(value)
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return number


def _bounded(text: str) -> int:
    number = int(text) if len(text) <= 20 else None
    if number is None or not -(2**63) <= number < 2**63:
        shown = text if len(text) <= 20 else f"{text[:20]}..."
        raise ValueError(f"the whole number {shown} does not fit 64 bits; send it as text")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"an object has the key {json.dumps(twice[:100])} twice")
    return value


def _check(value: dict[str, Any] | list[Any]) -> None:
    """Visit every value without recursion; the parser's own depth limit is far above ours."""
    waiting: list[tuple[Any, tuple[str, ...]]] = [(value, ())]
    while waiting:
        item, loc = waiting.pop()
        if len(loc) >= MAX_DEPTH:
            raise malformed(_TOO_DEEP)
        for key, child in item.items() if isinstance(item, dict) else enumerate(item):
            if isinstance(key, str):
                check_text(key, loc, key)
            if isinstance(child, str):
                check_text(child, loc, key)
            elif isinstance(child, dict | list):
                waiting.append((child, (*loc, str(key))))


def check_text(text: str, loc: tuple[str, ...], key: str | int) -> None:
    """Raise Problem 422 for text that no database can store; `loc` and `key` name its place."""
    if not is_storable(text):
        shown = [part.encode("utf-8", "backslashreplace").decode() for part in (*loc, str(key))]
        message = f"{'.'.join(shown)}: text must hold no NUL and no half of a surrogate pair"
        raise Problem(422, "some values are not accepted", [{"loc": shown, "msg": message}])
