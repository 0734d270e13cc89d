"""The API's line to the leader, through the inbox.

Promises: a failed notification never fails a request, since the change is committed and the leader polls the database
anyway. A question is answered within the time given or not at all. Never knows who leads.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from uuid_utils.compat import uuid7

from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.api.http.problems import unavailable
from scheduler_service.ports.broker import Inbox

ANSWER_WITHIN: Final[Duration] = SECOND
_SPARED: Final = 1.0

log = structlog.get_logger(__name__)


class LeaderLine:
    """Notifies and queries the leader; safe to use from several threads."""

    def __init__(self, inbox: Inbox, clock: Callable[[], Instant]) -> None:
        self._inbox = inbox
        self._clock = clock
        self._lock = threading.Lock()
        self._spared_until = 0.0

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        """Append an entry to the inbox.

        After a failure none is tried for a second: a silent Redis would delay every request by its whole timeout.
        """
        if time.monotonic() < self._spared_until:
            return
        try:
            self._inbox.send(kind, self._clock(), body)
        except BrokerUnavailable as exc:
            with self._lock:
                self._spared_until = time.monotonic() + _SPARED
            log.warning("leader not told", kind=kind, error=str(exc))

    def ask(self, what: str, subject: str | None = None) -> Mapping[str, Any]:
        """Return the leader's answer; Problem 503 if none leads or Redis is unreachable."""
        return self.request("query", {"what": what, **({} if subject is None else {"subject": subject})})

    def statistics_around(self, queue: str) -> Mapping[str, Any]:
        """Return the statistics, for a caller who was shown a row of this queue."""
        return self.ask("statistics")

    def request(self, kind: str, body: Mapping[str, Any], within: Duration | None = None) -> Mapping[str, Any]:
        """Return the leader's answer to one entry of this kind, awaited for up to `within`; errors as in `ask`."""
        reply_to = f"api-{uuid7()}"
        within = ANSWER_WITHIN if within is None else within
        try:
            self._inbox.send(kind, self._clock(), {**body, "reply_to": reply_to})
            answer = self._inbox.await_reply(reply_to, within)
        except BrokerUnavailable as exc:
            log.warning("leader not asked", kind=kind, what=body.get("what"), error=str(exc))
            raise unavailable("Redis does not answer, so the leader cannot be asked", "redis-away") from exc
        if answer is None:
            raise unavailable("no leader answers; is one running? see `itinerary doctor`", "no-leader")
        if answer.get("failed"):
            raise unavailable("the leader could not answer this; its log says why", "no-leader")
        return answer
