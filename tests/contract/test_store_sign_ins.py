"""Sign-ins under way and links that share pages, on each database with the rights of an API."""

import pytest

from itinerary.protocol.errors import Conflict, NotFound
from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.pruning import Past
from scheduler_service.core.share_links import ShareLink
from scheduler_service.core.sign_ins import SignIn
from scheduler_service.sql.pruning import SqlPruning
from scheduler_service.sql.share_links import SqlShareLinkStore
from scheduler_service.sql.sign_ins import SqlSignInStore
from tests.support.store_bed import StoreBed

NOW = 1_800_000_000 * SECOND
BY = AuditedChange("olga", "operator", "share.create")
FLOW = SignIn("nonce", "verifier", "/jobs")


def test_a_sign_in_is_taken_once_by_its_browser_in_time(sql_stores: StoreBed) -> None:
    store = SqlSignInStore(sql_stores.by_role["api"])
    store.begin("state", "browser", FLOW, NOW)
    assert store.take("state", "other", NOW) is None
    assert store.take("other", "browser", NOW) is None
    assert store.take("state", "browser", NOW + 10 * MINUTE) is None
    assert store.take("state", "browser", NOW + 10 * MINUTE - 1) == FLOW
    assert store.take("state", "browser", NOW) is None


def test_those_that_took_too_long_are_forgotten(sql_stores: StoreBed) -> None:
    store = SqlSignInStore(sql_stores.by_role["api"])
    store.begin("state", "browser", FLOW, NOW)
    store.begin("later", "browser", FLOW, NOW + 10 * MINUTE)
    assert store.take("state", "browser", NOW) is None
    assert store.take("later", "browser", NOW + 10 * MINUTE) == FLOW


def test_one_more_than_the_most_takes_the_place_of_the_oldest(
    sql_stores: StoreBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_service.sql.sign_ins._MOST", 2)
    store = SqlSignInStore(sql_stores.by_role["api"])
    for number, state in enumerate(("first", "second", "third")):
        store.begin(state, "browser", FLOW, NOW + number)
    found = {state: store.take(state, "browser", NOW + 3) for state in ("first", "second", "third")}
    assert found == {"first": None, "second": FLOW, "third": FLOW}


def test_a_link_is_found_until_it_ends_or_is_revoked(sql_stores: StoreBed) -> None:
    store = SqlShareLinkStore(sql_stores.by_role["api"])
    link = store.create("/jobs?q=a", "grant", "a" * 64, NOW, NOW + DAY, by=BY)
    assert link == ShareLink(link.link_id, "/jobs?q=a", "grant", "olga", NOW, NOW + DAY)
    other = store.create("/runs", "grant", "b" * 64, NOW, NOW + HOUR, by=BY)
    assert store.find("a" * 64, NOW) == link
    assert store.find("b" * 64, NOW + HOUR) is None
    assert store.list(NOW) == [other, link]
    assert store.list(NOW + HOUR) == [link]
    store.revoke(link.link_id, NOW + 1, by=BY)
    assert store.find("a" * 64, NOW + 1) is None
    with pytest.raises(NotFound, match=f"no link {link.link_id}"):
        store.revoke(link.link_id, NOW + 2, by=BY)


def test_so_many_links_last_at_most(sql_stores: StoreBed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_service.sql.share_links._MOST", 1)
    store = SqlShareLinkStore(sql_stores.by_role["api"])
    store.create("/", "grant", "a", NOW, NOW + DAY, by=BY)
    with pytest.raises(Conflict, match="there are 1 links already; revoke some"):
        store.create("/", "grant", "b", NOW, NOW + DAY, by=BY)
    assert store.create("/", "grant", "b", NOW + DAY, NOW + 2 * DAY, by=BY).address == "/"


def test_links_that_ended_long_ago_are_pruned(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    store, pruning = SqlShareLinkStore(sql_stores.by_role["api"]), SqlPruning(sql_stores.by_role["leader"])
    old = store.create("/", "grant", "a", lease.now, lease.now + HOUR, by=BY)
    before = lease.now + HOUR + 1
    assert pruning.scan(Past.SHARE_LINKS, before, None, 10).may_go == (old.link_id,)
    assert pruning.prune(lease, Past.SHARE_LINKS, (old.link_id,), before) == 1
