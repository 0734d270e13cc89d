"""The delivery worker: seals notices into messages, and retries each delivery until it succeeds or is given up.

Promises at-least-once delivery, whichever process delivers. A target that fails is skipped for the rest of the round,
so that it delays no other for long. If we die after sending and before recording it, the target gets the same id again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.notifications.notices import Message, Topic, Waiting, next_try, ready
from scheduler_service.core.notifications.routing import JobLabels, addressed
from scheduler_service.ports.notices import (
    Delivery,
    DeliveryFailed,
    DeliveryRefused,
    NoticeMeter,
    Outbox,
    Target,
)

log = structlog.get_logger(__name__)

# Longer than a try takes: when a claim ends, any process may try its delivery again.
CLAIM: Final[Duration] = 30 * SECOND


@dataclass(frozen=True, slots=True)
class DeliveryWorker:
    """The deliveries of one process; `quiet` as in the settings."""

    outbox: Outbox
    targets: Sequence[Target]
    meter: NoticeMeter
    quiet: Duration
    new_id: Callable[[], str]

    def round(self) -> None:
        """Seal the notices that are ready, then try the deliveries that are due."""
        labelled = any(target.route.by_label for target in self.targets)
        sealed = self.outbox.seal(self.quiet, self._decide, labelled=labelled)
        if sealed:
            log.info("notifications made", count=sealed)
        asked = {target.name: target for target in self.targets}
        while asked and (delivery := self.outbox.claim(list(asked), CLAIM)) is not None:
            if not self._try(asked[delivery.target], delivery):
                del asked[delivery.target]

    def tidy(self) -> None:
        """Give up and delete old deliveries, and report the backlog."""
        self.outbox.tidy(self.quiet)
        self.meter.backlogged(self.outbox.backlog())

    def _decide(
        self,
        waiting: Sequence[Waiting],
        labels: Mapping[str, JobLabels],
        last: Mapping[Topic, Instant],
        now: Instant,
    ) -> list[Message]:
        routes = {target.name: target.route for target in self.targets}
        return addressed(ready(waiting, last, now, self.quiet), labels, routes, now, self.new_id)

    def _try(self, target: Target, delivery: Delivery) -> bool:
        about = {"message_id": delivery.message_id, "topic": delivery.topic.value, "target": target.name}
        try:
            answer = target.deliver(delivery)
        except DeliveryFailed as exc:
            return self._failed(delivery, str(exc), next_try(delivery.attempts, delivery.created_at, self.outbox.now()))
        except DeliveryRefused as exc:
            return self._failed(delivery, str(exc), None)
        except Exception as exc:  # whatever it is, the other targets still get theirs
            log.exception("notification failed unforeseen", **about)
            following = next_try(delivery.attempts, delivery.created_at, self.outbox.now())
            return self._failed(delivery, type(exc).__name__, following)
        # If we die here, it is sent again with the same id.
        self.outbox.sent(delivery)
        self.meter.delivered("sent")
        log.info("notification sent", **about, attempt=delivery.attempts, said=answer)
        return True

    def _failed(self, delivery: Delivery, answer: str, next_at: Instant | None) -> bool:
        about = {"message_id": delivery.message_id, "topic": delivery.topic.value, "target": delivery.target}
        self.outbox.failed(delivery, answer, next_at)
        self.meter.delivered("failed" if next_at is not None else "dead")
        if next_at is None:
            log.error("notification given up", **about, attempts=delivery.attempts, reason=answer)
        else:
            log.warning("notification failed, to be tried again", **about, attempts=delivery.attempts, reason=answer)
        return False
