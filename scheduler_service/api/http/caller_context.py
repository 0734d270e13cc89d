"""Trace propagation: requests continue their caller's trace (the W3C headers), if tracing is on."""

from opentelemetry.context import attach, detach
from opentelemetry.propagate import extract
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send


class CallerContext:
    """ASGI middleware: runs each request in its caller's trace context."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        before = attach(extract(Headers(scope=scope)))
        try:
            await self._app(scope, receive, send)
        finally:
            detach(before)
