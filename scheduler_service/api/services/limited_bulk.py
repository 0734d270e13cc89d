"""Bulk operations as a limited token sees them: its own, which change only what is within its limits. See limited."""

from itinerary.protocol.errors import NotFound
from scheduler_service.api.services.limited import out_of_scope
from scheduler_service.core.audit import Caller
from scheduler_service.core.bulk import BulkOperation, BulkOrder
from scheduler_service.ports.bulk import BulkStore, Stepped
from scheduler_service.ports.history import Total
from scheduler_service.ports.stores import Page


class LimitedBulk(BulkStore):
    """The caller's own operations; another's is refused without saying whether there is one."""

    def __init__(self, bulk: BulkStore, who: Caller) -> None:
        self._bulk = bulk
        self._who = who

    def begin(
        self, order: BulkOrder, total: Total, who: Caller, key: str | None = None, request_hash: str | None = None
    ) -> tuple[BulkOperation, bool]:
        return self._bulk.begin(order, total, who, key, request_hash)

    def step(self, operation_id: str | None = None) -> Stepped | None:
        return self._bulk.step(operation_id)

    def get(self, operation_id: str) -> BulkOperation:
        try:
            found = self._bulk.get(operation_id)
        except NotFound:
            found = None
        if found is None or found.actor != self._who.name:
            raise out_of_scope("this bulk operation")
        return found

    def list(self, actor: str | None, limit: int, cursor: str | None) -> Page[BulkOperation]:
        return self._bulk.list(self._who.name, limit, cursor)

    def stop(self, operation_id: str, who: Caller) -> BulkOperation:
        self.get(operation_id)
        return self._bulk.stop(operation_id, who)
