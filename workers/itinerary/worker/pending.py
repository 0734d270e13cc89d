"""The sends of the main process itself that are yet to be done: reports for killed children, refusals of messages.

Promises that one which breaks, or which Redis refuses, keeps no later one out.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import redis

from itinerary.worker.claim import Verdict
from itinerary.worker.connection import AWAY
from itinerary.worker.outbox import REFUSALS

log = logging.getLogger("itinerary.worker")


@dataclass(frozen=True, slots=True)
class PendingSend:
    """An action that must reach Redis and may be repeated; with `pid`, only once that process or greenlet is gone."""

    task_id: str
    action: Callable[[], object]
    pid: int | None = None
    refusals: int = 0

    def perform(self) -> "PendingSend | None":
        """Do it; what is to be repeated after the next heartbeat is returned. Raises if Redis is away."""
        try:
            return self if self.action() is Verdict.WAIT else None
        except redis.ResponseError as exc:
            if self.refusals < REFUSALS:
                return replace(self, refusals=self.refusals + 1)
            log.error("redis refuses a report, which is given up: %s: %s", self.task_id, exc)
        except AWAY:
            raise
        except Exception:
            log.exception("a report cannot be sent and is given up")  # it would block all later ones
        return None
