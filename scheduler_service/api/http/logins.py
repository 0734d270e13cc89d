"""Failed logins: counts each unknown token and logs the address that it came from. Never keeps or logs the token."""

import threading

import structlog

from scheduler_service.observability.repeated_events import Seldom

log = structlog.get_logger(__name__)


class FailedLogins:
    """The count of this process, and its log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seldom = Seldom()
        self.total = 0

    def add(self, address: str) -> None:
        """Count a request from this address with an unknown token."""
        with self._lock:
            self.total += 1
        count = self._seldom.count(address)
        if count:
            log.warning("login failed, the token is not known", client=address, count=count)

    def exposition(self) -> str:
        """Return the count in Prometheus text format."""
        return (
            "# HELP scheduler_api_failed_logins_total Requests to this API process with a token that is not known.\n"
            "# TYPE scheduler_api_failed_logins_total counter\n"
            f"scheduler_api_failed_logins_total {self.total}\n"
        )
