"""Failed logins: counted, logged by address, and bounded for each address. Never keeps or logs the token."""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import structlog

from scheduler_service.observability.repeated_events import Seldom

_MOST: Final = 10
_WITHIN: Final = 60.0
_MOST_KEPT: Final = 10_000

log = structlog.get_logger(__name__)


class FailedLogins:
    """The count of this process, its log, and the latest ones of each address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seldom = Seldom()
        self._latest: OrderedDict[str, list[float]] = OrderedDict()
        self.total = 0

    def add(self, address: str) -> None:
        """Count a request from this address with an unknown token."""
        with self._lock:
            self.total += 1
        count = self._seldom.count(address)
        if count:
            log.warning("login failed, the token is not known", client=address, count=count)

    def add_signing_in(self, address: str) -> None:
        """Count an unknown token typed on the sign-in page, against the number that an address has in a minute."""
        self.add(address)
        with self._lock:
            self._latest[address] = [*self._of(address), self._clock()]
            self._latest.move_to_end(address)
            if len(self._latest) > _MOST_KEPT:
                self._latest.popitem(last=False)

    def wait(self, address: str) -> int:
        """Return 0 if this address may try to sign in, else the whole seconds until it may."""
        with self._lock:
            latest = self._of(address)
            return 0 if len(latest) < _MOST else max(1, math.ceil(latest[0] + _WITHIN - self._clock()))

    def locked(self, address: str, forwarded_for: str) -> None:
        """Log a proxy that is not trusted: all browsers behind it have its address, and are locked out together."""
        through = [each.strip() for each in forwarded_for.split(",")]
        if forwarded_for and address not in through and self._seldom.count(f"proxy {address}"):
            log.warning(
                "sign-in is locked for all browsers behind a proxy, name it in FORWARDED_ALLOW_IPS of the API",
                proxy=address,
            )

    def _of(self, address: str) -> list[float]:
        return [at for at in self._latest.get(address, ()) if self._clock() - at < _WITHIN]

    def exposition(self) -> str:
        """Return the count in Prometheus text format."""
        return (
            "# HELP scheduler_api_failed_logins_total Requests to this API process with a token that is not known.\n"
            "# TYPE scheduler_api_failed_logins_total counter\n"
            f"scheduler_api_failed_logins_total {self.total}\n"
        )
