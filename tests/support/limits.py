"""Limits for tests of what names them."""

from typing import Final

from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.limits import Bounds, Limit
from scheduler_service.ports.limits import LimitStore

API: Final = Limit("api", Bounds(1))
TENANT: Final = Limit("tenant", Bounds(2), per_key=True)
_BY: Final = AuditedChange("test", "admin", "limit.put")


def define(store: LimitStore) -> None:
    """Store API and TENANT."""
    store.edit(API.name, lambda _: API, by=_BY)
    store.edit(TENANT.name, lambda _: TENANT, by=_BY)
