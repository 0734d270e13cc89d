"""Queues as a limited token sees them: those that its limits name. See limited."""

from collections.abc import Callable, Collection

from itinerary.protocol.instants import Instant
from scheduler_service.api.services.limited import first_with_some, out_of_scope
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.controls import Queue, QueueDefinition
from scheduler_service.core.token_limits import Limits
from scheduler_service.ports.queues import QueueStore
from scheduler_service.ports.stores import Page


class LimitedQueues(QueueStore):
    """The queues within limits; only a token without other limits changes one, since others' runs wait there too."""

    def __init__(self, queues: QueueStore, limits: Limits) -> None:
        self._queues = queues
        self._limits = limits

    def get(self, queue: str) -> Queue:
        if not self._limits.sees_queue(queue):
            raise out_of_scope("this queue")
        return self._queues.get(queue)

    def list(self, limit: int, cursor: str | None, known: Collection[str] = ()) -> Page[Queue]:
        return first_with_some(
            lambda place: self._queues.list(limit, place, known),
            lambda queue: self._limits.sees_queue(queue.name),
            limit,
            cursor,
        )

    def define(self, queue: str, change: Callable[[QueueDefinition], QueueDefinition], *, by: AuditedChange) -> Queue:
        self._check(queue)
        return self._queues.define(queue, change, by=by)

    def pause(self, queue: str, reason: str, until: Instant | None, *, by: AuditedChange) -> Queue:
        self._check(queue)
        return self._queues.pause(queue, reason, until, by=by)

    def resume(self, queue: str, *, by: AuditedChange) -> Queue:
        self._check(queue)
        return self._queues.resume(queue, by=by)

    def _check(self, queue: str) -> None:
        if not self._limits.has_all_of(queue):
            raise out_of_scope("a change of this queue")
