"""SessionStore on each database, with the rights of an API: begin, find, end, prune."""

from dataclasses import replace
from secrets import token_hex

import pytest

from itinerary.protocol.errors import NotFound, RowRefused
from itinerary.protocol.instants import HOUR, MINUTE, SECOND
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.pruning import Past
from scheduler_service.core.sessions import SignedIn, SignedOut
from scheduler_service.sql.pruning import SqlPruning
from scheduler_service.sql.sessions import SqlSessionStore
from tests.support.store_bed import StoreBed

NOW = 1_800_000_000 * SECOND
BY = AuditedChange("olga", "operator", "session.sign-in")
OLGA = SignedIn("grant", "olga (https://id.example)", "1", "https://id.example", "header.payload.signature")
TOKEN = SignedIn("other", "ci", "1")


def test_a_session_is_found_by_its_digest_until_it_ends(sql_stores: StoreBed) -> None:
    store = SqlSessionStore(sql_stores.by_role["api"])
    begun = store.begin(OLGA, "a" * 64, "Firefox", "192.0.2.1", NOW, NOW + HOUR, by=BY)
    assert begun == store.find("a" * 64, NOW)
    assert store.find("b" * 64, NOW) is None
    assert store.find("a" * 64, NOW + HOUR) is None
    store.seen(begun.session_id, NOW + MINUTE)
    store.seen(begun.session_id, NOW)  # of a slower request
    assert store.find("a" * 64, NOW + MINUTE) == replace(begun, seen_at=NOW + MINUTE)
    assert store.end(begun.session_id, NOW + 2 * MINUTE, by=BY).session_id == begun.session_id
    assert store.find("a" * 64, NOW + 2 * MINUTE) is None
    with pytest.raises(NotFound, match=f"no session {begun.session_id}"):
        store.end(begun.session_id, NOW + 3 * MINUTE, by=BY)
    with pytest.raises(RowRefused):
        store.begin(OLGA, "a" * 64, "", "", NOW, NOW + HOUR, by=BY)


def test_all_of_one_person_end_and_nobody_else_s(sql_stores: StoreBed) -> None:
    store = SqlSessionStore(sql_stores.by_role["api"])
    for number, who in enumerate((OLGA, OLGA, replace(OLGA, subject="2"), TOKEN)):
        store.begin(who, str(number), "", "", NOW + number, NOW + HOUR, by=BY)
    assert [each.who.name for each in store.list(NOW + 9, MINUTE, 2)] == ["ci", OLGA.name]
    assert store.end_all("1", OLGA.issuer, NOW + MINUTE, by=BY) == 2
    assert store.end_all("1", None, NOW + MINUTE, by=BY) == 1
    assert [each.who.subject for each in store.list(NOW + MINUTE, HOUR, 9)] == ["2"]
    assert store.list(NOW + MINUTE, MINUTE - 3, 9) == []


def test_sessions_that_ended_long_ago_are_pruned(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    store, pruning = SqlSessionStore(sql_stores.by_role["api"]), SqlPruning(sql_stores.by_role["leader"])
    old = store.begin(OLGA, "a", "", "", lease.now, lease.now + HOUR, by=BY)
    new = store.begin(OLGA, "b", "", "", lease.now, lease.now + 2 * HOUR, by=BY)
    before = lease.now + HOUR + 1
    assert pruning.scan(Past.SESSIONS, before, None, 10).may_go == (old.session_id,)
    assert pruning.prune(lease, Past.SESSIONS, (old.session_id, new.session_id), before) == 1
    assert store.find("b", lease.now) == new


def said(
    token: str = "t", subject: str | None = "1", sid: str | None = None, issuer: str = "https://id.example"
) -> SignedOut:
    return SignedOut(token, NOW + HOUR, issuer, subject, sid)


def test_the_provider_ends_those_that_it_names_and_a_token_of_it_counts_once(sql_stores: StoreBed) -> None:
    store = SqlSessionStore(sql_stores.by_role["api"])

    def begin() -> None:
        people = (
            replace(OLGA, sid="s1"), replace(OLGA, sid="s2"), OLGA, replace(OLGA, subject="2", sid="s3"),
            replace(OLGA, issuer="https://other.example", sid="s1"), TOKEN,
        )  # fmt: skip
        for who in people:
            store.begin(who, token_hex(32), "", "", NOW, NOW + HOUR, by=BY)

    def left() -> list[tuple[str, str | None]]:
        there = sorted(store.list(NOW + 1, HOUR, 99), key=lambda session: session.session_id)
        return [(session.who.subject, session.who.sid) for session in there]

    begin()
    assert store.sign_out(said("a", None, "s1"), NOW + 1, by=BY) == 1
    assert left() == [("1", "s2"), ("1", None), ("2", "s3"), ("1", "s1"), ("1", None)]
    assert store.sign_out(said("a", "1"), NOW + 1, by=BY) is None, "the token was used"
    assert store.sign_out(said("b", "1", "s2"), NOW + 1, by=BY) == 2, "that of the name, and one without a name"
    assert left() == [("2", "s3"), ("1", "s1"), ("1", None)]
    begin()
    assert store.sign_out(said("c", "1"), NOW + 1, by=BY) == 3
    assert left() == [("2", "s3"), ("1", "s1"), ("1", None)] * 1 + [("2", "s3"), ("1", "s1"), ("1", None)]
    assert store.sign_out(said("d", "nobody"), NOW + 1, by=BY) == 0
    assert store.sign_out(said("c", "1"), NOW + HOUR, by=BY) == 0, "a token that is too old is refused elsewhere"


def test_sessions_of_one_person_are_listed_alone(sql_stores: StoreBed) -> None:
    store = SqlSessionStore(sql_stores.by_role["api"])
    for number, who in enumerate((OLGA, replace(OLGA, subject="2"), TOKEN, OLGA)):
        store.begin(who, str(number), "Firefox", "192.0.2.1", NOW + number, NOW + HOUR, by=BY)
    assert [(one.who, one.address) for one in store.list(NOW + 9, HOUR, 9, OLGA)] == [(OLGA, "192.0.2.1")] * 2
    assert [one.who for one in store.list(NOW + 9, HOUR, 9, TOKEN)] == [TOKEN]
