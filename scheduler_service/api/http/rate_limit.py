"""Rate limit: requests a second for each token; 429 with Retry-After beyond it.

Promises: a request over the rate costs one comparison and takes nothing from another token's share. Counts in this
process. Callers without a token share one count for each address, those with a wrong token a smaller one.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from scheduler_service.api.http.auth import presented_token, token_of
from scheduler_service.api.http.problems import Problem, problem_response
from scheduler_service.config.settings import ApiToken, Settings
from scheduler_service.runtime.addresses import is_loopback

DEFAULT_RATE: Final = 200
GUESSES: Final = 20
_BURST_SECONDS: Final = 2
_MOST_KEPT: Final = 10_000
_FREE: Final = ("/healthz", "/readyz", "/static/")


def rate_of(settings: Settings) -> int:
    """Return the requests a second; 0 is no limit, the default on loopback without tokens.

    With tokens, loopback is most often a proxy with all callers behind it.
    """
    if settings.api_rate_limit is not None:
        return settings.api_rate_limit
    return 0 if is_loopback(settings.api_host) and not settings.asks_who else DEFAULT_RATE


class Buckets:
    """A bucket for each key that holds two seconds' worth of requests and refills at `rate`."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._most = float(rate * _BURST_SECONDS)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> int:
        """Return 0 if the request may pass, else the whole seconds until one may."""
        with self._lock:
            now = self._clock()
            left, at = self._buckets.get(key, (self._most, now))
            left = min(self._most, left + (now - at) * self._rate)
            if left < 1:
                self._keep(key, left, now)
                return max(1, math.ceil((1 - left) / self._rate))
            self._keep(key, left - 1, now)
            return 0

    def _keep(self, key: str, left: float, now: float) -> None:
        """Drop full buckets, and if there are too many, the one used least recently."""
        self._buckets[key] = (left, now)
        self._buckets.move_to_end(key)
        while next(iter(self._buckets.values()))[1] <= now - _BURST_SECONDS or len(self._buckets) > _MOST_KEPT:
            self._buckets.popitem(last=False)


class RateLimit:
    """ASGI middleware: limits every request but probes and static files."""

    def __init__(self, app: ASGIApp, *, rate: int, tokens: tuple[ApiToken, ...]) -> None:
        self._app = app
        self._tokens = tokens
        self._buckets = Buckets(rate)
        self._guesses = Buckets(min(rate, GUESSES))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wait = 0
        if scope["type"] == "http" and not scope["path"].startswith(_FREE):
            wait = self._take(scope)
        if not wait:
            await self._app(scope, receive, send)
            return
        message = "too many requests; retry after the seconds in Retry-After"
        await problem_response(Problem(429, message, headers={"Retry-After": str(wait)}))(scope, receive, send)

    def _take(self, scope: Scope) -> int:
        """Take from the bucket of the token, of wrong tokens from this address, or of callers there without a token."""
        presented = presented_token(Headers(scope=scope).get("authorization", ""))
        token = token_of(self._tokens, presented) if presented else None
        if token is not None:
            return self._buckets.take(f"token {token.name}")
        client = scope.get("client")
        buckets = self._guesses if presented and self._tokens else self._buckets
        return buckets.take(f"address {client[0] if client else ''}")
