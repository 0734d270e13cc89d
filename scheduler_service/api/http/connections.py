"""Bounds on the API's connections: time for a request to arrive, time for an answer to leave, and their number.

Promises: a peer that sends half a request, or reads no answer, is cut off. When connections run out, the oldest one
without a whole request is closed, so that such peers cannot exhaust the descriptors.
"""

import asyncio
import resource
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from scheduler_service.observability.repeated_events import Seldom

_MOST: Final = 1_000
_PLENTY: Final = 16_384
_ANSWER_FIRST: Final = 1.0
_TIMED_OUT: Final = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_Part = Literal["headers", "body"]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Room:
    """How many connections there may be, and how many asyncio accepts at once.

    The accepted ones come on top, a few times over, before one is closed for each. If accepting runs out of
    descriptors, asyncio retries and logs it so often that nothing else is done.
    """

    most: int
    at_once: int


def room() -> Room:
    """Compute the bounds from this process's limit of files: the database, Redis and the dashboard need theirs."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _PLENTY if allowed == resource.RLIM_INFINITY else min(allowed, _PLENTY)
    return Room(most=max(8, min(_MOST, files // 3)), at_once=max(8, files // 16))


def bounded(seconds: float, most: int) -> type[H11Protocol]:
    """Return a server's protocol with a time limit for headers and for the body, and a limit on connections."""
    return type("Bounded", (_Bounded,), {"seconds": seconds, "most": most, "half_open": {}, "seldom": Seldom()})


class _Bounded(H11Protocol):
    """uvicorn's protocol, with a timer for the part of a request that is still to come."""

    seconds: ClassVar[float]
    most: ClassVar[int]
    half_open: ClassVar[dict["_Bounded", None]]
    seldom: ClassVar[Seldom]
    _part: _Part | None = None
    _timer: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the headers of the first request; make room if the limit is reached."""
        super().connection_made(transport)
        self._await("headers")
        if len(self.connections) > self.most:
            self._report("connections are at their bound")
            oldest = next(iter(self.half_open), self)
            oldest._await(None)  # this one is closed only later, and another may need room before
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._await(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on, then restart or stop the timer."""
        super().data_received(data)
        self._await(self._missing())

    def on_response_complete(self) -> None:
        """Wait for the rest of this body, or of the next request."""
        super().on_response_complete()
        self._await(self._missing())

    def pause_writing(self) -> None:
        """Start the timer: the peer does not read, and has as long as a request has to arrive."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer: the peer reads again."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _missing(self) -> _Part | None:
        if self.transport.is_closing():
            return None
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        begun = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        return "headers" if begun else None

    def _await(self, part: _Part | None) -> None:
        """Start the timer of a part when it is first awaited; further bytes of the part do not extend it."""
        if part == self._part:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._part, self._timer = part, None
        self.half_open.pop(self, None)
        if part is not None:
            within = self.seconds if part == "headers" else self.seconds + _ANSWER_FIRST
            self._timer = self.loop.call_later(within, self._too_slow)
            self.half_open[self] = None

    def _too_slow(self) -> None:
        self._report("request cut off, it did not come in time")
        if self._part == "headers" and self.conn.trailing_data[0]:
            self.transport.write(_TIMED_OUT)
            self.transport.close()
        else:
            self.transport.abort()

    def _report(self, event: str) -> None:
        count = self.seldom.count(event)
        if count:
            log.warning(event, count=count, client=self.client[0] if self.client else None)
