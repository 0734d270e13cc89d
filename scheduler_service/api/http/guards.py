"""Guards for every request and answer: against foreign web pages, and for safe headers.

Promises: a page of another site can neither read nor change anything through its visitor's browser (by Origin,
Sec-Fetch-Site and Host). No answer is sniffed, framed by others or cached, except static files.
"""

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scheduler_service.api.http.problems import Problem, problem_response
from scheduler_service.runtime.addresses import hostname, is_loopback, netloc

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# `same-site` is another host under the same registrable domain: not ours either.
_FOREIGN: Final = ("cross-site", "same-site")
_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}


class SafeHeaders:
    """ASGI middleware: adds the headers that every answer has."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caching = "max-age=3600" if scope["path"].startswith("/static/") else "no-store"

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in (*_HEADERS.items(), ("Cache-Control", caching)):
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


class SameSite:
    """ASGI middleware: 403 for requests that a foreign page triggers, by Origin, Sec-Fetch-Site and Host."""

    def __init__(self, app: ASGIApp, *, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope["method"], Headers(scope=scope)) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await problem_response(Problem(403, refusal, kind="foreign-page"))(scope, receive, send)

    def _refusal(self, method: str, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if self._loopback_only and not is_loopback(hostname(f"//{host}")):
            return "without tokens this API answers to names of this machine only"
        if method in _SAFE:
            return None
        origin = headers.get("origin")
        if headers.get("sec-fetch-site") in _FOREIGN or (origin is not None and netloc(origin) != host.lower()):
            return "a page of another site may not do this"
        return None
