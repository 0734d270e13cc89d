"""Tokens that nobody has: each counted, and logged with the address that they came from."""

import threading

import structlog

from scheduler_service.observability.repeated_events import Seldom

log = structlog.get_logger(__name__)


class FailedLogins:
    """The count of this process, and the log of it; the token itself is never kept or shown."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seldom = Seldom()
        self.total = 0

    def add(self, address: str) -> None:
        """A request from this address bore a token that is not known."""
        with self._lock:
            self.total += 1
        count = self._seldom.count(address)
        if count:
            log.warning("login failed, the token is not known", client=address, count=count)

    def exposition(self) -> str:
        """The count in Prometheus text format."""
        return (
            "# HELP scheduler_api_failed_logins_total Requests to this API process with a token that is not known.\n"
            "# TYPE scheduler_api_failed_logins_total counter\n"
            f"scheduler_api_failed_logins_total {self.total}\n"
        )
