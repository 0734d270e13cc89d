"""The requests that this process is answering. What computes in the background gives way to them between its steps.

The threads of a process take turns at its interpreter, five milliseconds each. A page that reads from the database
thirty times waits thirty turns of a thread that computes; they are half a millisecond meanwhile. Promises that such a
thread makes progress all the same: each step waits 50 ms at most.
"""

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LONGEST: Final = 0.05
_SHORT_TURN: Final = 0.0005
T = TypeVar("T")


@contextmanager
def short_turns() -> Iterator[None]:
    """Shorten the turns of this process's threads while one of them computes; one caller at a time."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, _SHORT_TURN))
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


class RequestsUnderWay:
    """How many there are; `longest` is how long a step in the background waits for their answers."""

    def __init__(self, longest: float = _LONGEST) -> None:
        self._longest = longest
        self._number = 0
        self._changed = threading.Condition()

    @property
    def any(self) -> bool:
        """Whether a request is being answered."""
        return self._number > 0

    def begin(self) -> None:
        """Count one more request."""
        with self._changed:
            self._number += 1

    def end(self) -> None:
        """Count one request less: its answer has begun."""
        with self._changed:
            self._number -= 1
            self._changed.notify_all()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Leave a request out while it waits for what is computed in the background."""
        self.end()
        try:
            yield
        finally:
            self.begin()

    def give_way(self) -> None:
        """Wait until all are answered, or for the longest time."""
        with self._changed:
            self._changed.wait_for(lambda: not self.any, self._longest)

    def between(self, items: Iterable[T], at_once: int) -> Iterator[T]:
        """Yield the items, and give way before each so many of them."""
        left = iter(items)
        while some := tuple(islice(left, at_once)):
            self.give_way()
            yield from some


class UnderWay:
    """ASGI middleware: counts a request until its answer begins; a stream that a browser follows is not waited for."""

    def __init__(self, app: ASGIApp, requests: RequestsUnderWay) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            if not begun:
                begun = True
                self._requests.end()
            await send(message)

        self._requests.begin()
        try:
            await self._app(scope, receive, sent)
        finally:
            if not begun:
                self._requests.end()
