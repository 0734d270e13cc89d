"""Port to the queues as users define, pause and resume them.

An implementation promises that when a pause has returned, no dispatch that was chosen before it commits. If `by` names
the actor, the same transaction records the change in the audit log. Changes nothing of a run: the leader recalls.
"""

from collections.abc import Callable, Collection
from typing import Protocol

from itinerary.protocol.instants import Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.controls import Queue, QueueDefinition
from scheduler_service.ports.stores import Page


class QueueStore(Protocol):
    """Queues, for every process but the leader. Changes raise Conflict while a leader leads that knows no pauses."""

    def get(self, queue: str) -> Queue:
        """The queue with its counts; every name has one."""

    def list(self, limit: int, cursor: str | None, known: Collection[str] = ()) -> Page[Queue]:
        """Queues by name: defined and paused ones, those with runs that wait or are in flight, and `known` ones."""

    def define(self, queue: str, change: Callable[[QueueDefinition], QueueDefinition], *, by: AuditedChange) -> Queue:
        """Store what `change` makes of the queue's present definition; a pause is left as it is."""

    def pause(self, queue: str, reason: str, until: Instant | None, *, by: AuditedChange) -> Queue:
        """Pause the queue; a pause that holds keeps its start and gets this reason and end."""

    def resume(self, queue: str, *, by: AuditedChange) -> Queue:
        """End the queue's pause, if it has one."""
