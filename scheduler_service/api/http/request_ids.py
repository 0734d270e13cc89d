"""A request id: in the answer, in its problem document, and in every line that is logged meanwhile."""

import re
from typing import Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uuid_utils.compat import uuid7

HEADER: Final = "X-Request-Id"
_TAKEN: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NAME: Final = "request_id"


def request_id() -> str | None:
    """Return the id of the request being answered; None outside of one."""
    return structlog.contextvars.get_contextvars().get(_NAME)


class RequestId:
    """ASGI middleware: takes the caller's own id if it is plain, so that a proxy's log leads here, else a new one.

    The id stays bound at the end: the request's task ends with it, and a crash is answered after this.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        own = given if _TAKEN.fullmatch(given) else str(uuid7())
        structlog.contextvars.bind_contextvars(**{_NAME: own})

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = own
            await send(message)

        await self._app(scope, receive, with_id)
