"""SavedViewStore: a name is one address for each owner, changes are recorded, no owner has too many."""

import pytest

from itinerary.protocol.errors import Conflict, NotFound
from scheduler_service.core.audit import Caller
from scheduler_service.core.saved_views import SHARED
from scheduler_service.ports.records import AuditFilter
from scheduler_service.sql.audit import SqlAuditLog
from scheduler_service.sql.saved_views import SqlSavedViewStore
from tests.support.store_bed import StoreBed

OLGA = Caller("olga", "operator")
SAVE, DELETE = OLGA.audited_change("view.save"), OLGA.audited_change("view.delete")


@pytest.fixture
def store(sql_stores: StoreBed) -> SqlSavedViewStore:
    """The views, by the rights of an API."""
    return SqlSavedViewStore(sql_stores.by_role["api"])


def test_a_name_is_one_address_for_each_owner(store: SqlSavedViewStore, sql_stores: StoreBed) -> None:
    first = store.save(SHARED, "failed", "/runs?state=failed", by=SAVE)
    mine = store.save("olga", "failed", "/runs?state=failed&queue=mail", by=SAVE)
    assert (first.is_personal, mine.is_personal, first.saved_by) == (False, True, "olga")
    assert store.save(SHARED, "failed", "/runs?state=failed", by=SAVE) == first, "nothing changed"
    later = store.save(SHARED, "failed", "/runs?state=missed", by=SAVE)
    assert store.get(SHARED, "failed") == later
    assert store.list(SHARED, "olga") == [later, mine]
    assert store.list("eve") == []
    store.delete(SHARED, "failed", by=DELETE)
    for act in (lambda: store.get(SHARED, "failed"), lambda: store.delete(SHARED, "failed", by=DELETE)):
        with pytest.raises(NotFound):
            act()
    assert store.list(SHARED, "olga") == [mine]
    entries = SqlAuditLog(sql_stores.by_role["api"]).list(AuditFilter(subject="failed"), 10, None).items
    assert [(entry.action, entry.before, entry.after) for entry in reversed(entries)] == [
        ("view.save", None, {"address": "/runs?state=failed", "personal": False}),
        ("view.save", None, {"address": "/runs?state=failed&queue=mail", "personal": True}),
        ("view.save", {"address": "/runs?state=failed", "personal": False},
         {"address": "/runs?state=missed", "personal": False}),
        ("view.delete", {"address": "/runs?state=missed", "personal": False}, None),
    ]  # fmt: skip


def test_an_owner_has_so_many_views_at_most(store: SqlSavedViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_service.sql.saved_views.MOST_VIEWS", 2)
    for name in ("a", "b"):
        store.save(SHARED, name, "/runs", by=SAVE)
    with pytest.raises(Conflict, match="delete some"):
        store.save(SHARED, "c", "/runs", by=SAVE)
    store.save(SHARED, "b", "/jobs", by=SAVE)
    store.save("olga", "c", "/runs", by=SAVE)
