"""LimitStore: limits as users define them; each change outdates every choice that a leader made so far."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

from itinerary.protocol.errors import BadValue, Conflict, NotFound
from itinerary.protocol.instants import SECOND
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.limits import Bounds, Limit, Rate
from scheduler_service.ports.records import AuditFilter
from scheduler_service.sql import limits as sql_limits
from scheduler_service.sql.audit import SqlAuditLog
from scheduler_service.sql.named_by_jobs import LIMITS_NAMED
from tests.support import fake_limits
from tests.support.store_bed import StoreBed

BY = AuditedChange("olga", "operator", "limit.put")
API = Limit("api", Bounds(rate=Rate(90, 10 * SECOND)))
TENANT = Limit("tenant", Bounds(2), per_key=True, overrides={"acme": Bounds(20), "ü": Bounds(rate=Rate(1, SECOND))})


def put(bed: StoreBed, limit: Limit) -> Limit:
    return bed.limits.edit(limit.name, lambda _: limit, by=BY)


def name_in_jobs(bed: StoreBed, name: str, *job_ids: str) -> None:
    if bed.database is None:
        bed.leader._tables.job_limits.update(dict.fromkeys(job_ids, frozenset({name})))  # type: ignore[attr-defined]
        return
    with bed.database.write() as connection:
        LIMITS_NAMED.write(connection, {job_id: [name] for job_id in job_ids})


def version_of(bed: StoreBed) -> int:
    controls = bed.leader.controls(-1)
    assert controls is not None
    return controls.version


def test_a_limit_is_defined_replaced_and_deleted_and_each_change_raises_the_version(bed: StoreBed) -> None:
    bed.lead()
    assert put(bed, TENANT) == TENANT
    assert bed.limits.get("tenant") == TENANT
    put(bed, API)
    controls = bed.leader.controls(0)
    assert controls is not None
    assert (controls.version, controls.limits) == (2, {"tenant": TENANT, "api": API})
    put(bed, API)
    assert version_of(bed) == 2, "an equal definition outdates no choice"
    wider = Limit("api", Bounds(5), description="wider")
    seen: list[Limit | None] = []

    def change(there: Limit | None) -> Limit:
        seen.append(there)
        return wider

    assert bed.limits.edit("api", change, by=BY) == wider
    assert seen == [API]
    assert bed.limits.get("api") == wider
    bed.limits.delete("api", by=BY)
    with pytest.raises(NotFound, match="no limit api"):
        bed.limits.get("api")
    with pytest.raises(NotFound, match="no limit api"):
        bed.limits.delete("api", by=BY)
    assert version_of(bed) == 4


def test_what_a_change_refuses_changes_nothing(bed: StoreBed) -> None:
    bed.lead()

    def refused(there: Limit | None) -> Limit:
        assert there is None
        raise NotFound("no limit api")

    with pytest.raises(NotFound):
        bed.limits.edit("api", refused, by=BY)
    assert bed.leader.controls(0) is None


def test_limits_are_listed_by_name_page_by_page(bed: StoreBed) -> None:
    bed.lead()
    for name in ("c", "a", "b"):
        put(bed, Limit(name, Bounds(1)))
    first = bed.limits.list(2, None)
    assert [limit.name for limit in first.items] == ["a", "b"]
    last = bed.limits.list(2, first.next_cursor)
    assert ([limit.name for limit in last.items], last.next_cursor) == (["c"], None)


def test_a_limit_that_a_job_names_keeps_its_keys_and_is_not_deleted(bed: StoreBed) -> None:
    bed.lead()
    put(bed, TENANT)
    put(bed, API)
    name_in_jobs(bed, "tenant", "nightly", "hourly")
    with pytest.raises(Conflict, match="limit tenant is named by hourly, nightly") as refused:
        bed.limits.delete("tenant", by=BY)
    assert refused.value.kind == "limit-in-use"
    with pytest.raises(Conflict, match="limit tenant is named by hourly, nightly"):
        put(bed, Limit("tenant", Bounds(2)))
    assert version_of(bed) == 2
    put(bed, Limit("tenant", Bounds(3), per_key=True))
    put(bed, Limit("api", Bounds(2), per_key=True))
    assert bed.limits.get("api").per_key


def test_a_few_of_many_jobs_are_named(sql_stores: StoreBed) -> None:
    put(sql_stores, API)
    name_in_jobs(sql_stores, "api", *(f"job-{number}" for number in range(7)))
    with pytest.raises(Conflict, match=r"named by job-0, job-1, job-2, job-3, job-4 and others, so"):
        sql_stores.limits.delete("api", by=BY)


def test_one_limit_too_many_is_refused(bed: StoreBed, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sql_limits, fake_limits):
        monkeypatch.setattr(module, "MOST_LIMITS", 2)
    put(bed, API)
    put(bed, TENANT)
    with pytest.raises(BadValue, match="name: 'more' is not accepted; 2 limits are the most"):
        put(bed, Limit("more", Bounds(1)))
    put(bed, Limit("api", Bounds(7)))
    assert [limit.name for limit in bed.limits.list(5, None).items] == ["api", "tenant"]


def test_too_many_overrides_of_all_limits_are_refused(sql_stores: StoreBed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_limits, "_MOST_OVERRIDDEN", 200)
    put(sql_stores, TENANT)
    with pytest.raises(BadValue, match="overrides: the overrides of all limits together"):
        put(sql_stores, Limit("other", Bounds(2), per_key=True, overrides={str(n): Bounds(20) for n in range(5)}))
    assert [limit.name for limit in sql_stores.limits.list(5, None).items] == ["tenant"]


def test_a_leader_that_knows_no_limits_is_a_conflict(sql_stores: StoreBed) -> None:
    sql_stores.lead()
    assert sql_stores.database is not None
    put(sql_stores, API)
    with sql_stores.database.write() as connection:
        connection.execute(text("UPDATE leases SET term = term + 1"))
    edits: tuple[Callable[[], object], ...] = (
        lambda: put(sql_stores, TENANT), lambda: sql_stores.limits.delete("api", by=BY),
    )  # fmt: skip
    for edit in edits:
        with pytest.raises(Conflict, match="update every leader first"):
            edit()


def test_each_change_is_recorded_with_what_was_before(sql_stores: StoreBed) -> None:
    assert sql_stores.database is not None
    put(sql_stores, TENANT)
    put(sql_stores, TENANT)
    put(sql_stores, Limit("tenant", Bounds(3), per_key=True))
    sql_stores.limits.delete("tenant", by=AuditedChange("otto", "operator", "limit.delete"))
    entries = SqlAuditLog(sql_stores.database).list(AuditFilter(subject="tenant"), 10, None).items
    assert [(entry.action, entry.actor) for entry in entries] == [
        ("limit.delete", "otto"), ("limit.put", "olga"), ("limit.put", "olga"),
    ]  # fmt: skip
    assert (entries[0].before["concurrency"], entries[0].after) == (3, None)
    assert entries[1].before["overrides"]["ü"] == {"rate": {"count": 1, "per": "1s"}}
    assert entries[1].after["overrides"] == {}
