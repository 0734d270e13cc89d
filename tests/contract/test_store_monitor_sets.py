"""The monitors of a file on both databases: in the plan and in the transaction of its jobs."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from itinerary.protocol.errors import Conflict
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.job_plan import JobSet, JobSets, plan_body
from scheduler_service.core.contract.monitor_json import read_monitor
from scheduler_service.core.contract.monitor_plan import WantedMonitor, read_wanted
from scheduler_service.core.monitors.model import MonitorState, PingOutcome
from scheduler_service.ports.records import AuditFilter
from scheduler_service.sql.audit import SqlAuditLog
from scheduler_service.sql.job_sets import SqlJobSets
from scheduler_service.sql.monitor_tables import monitors
from scheduler_service.sql.monitors import SqlMonitorStore
from tests.support.store_bed import StoreBed, a_job

BY = AuditedChange("ci", "admin", "job.apply")
HOURLY: dict[str, Any] = {"schedule": {"kind": "interval", "every": "1h"}}


@pytest.fixture
def sets(sql_stores: StoreBed) -> JobSets:
    return SqlJobSets(sql_stores.by_role["api"])


@pytest.fixture
def store(sql_stores: StoreBed) -> SqlMonitorStore:
    return SqlMonitorStore(sql_stores.by_role["api"])


def wanted(monitor_id: str, **more: Any) -> WantedMonitor:
    return read_wanted(monitor_id, {**HOURLY, **more}, 0)


def of(*found: WantedMonitor, source: str | None = "shop", prune: bool = False, take_over: bool = False) -> JobSet:
    return JobSet(source, [], prune, take_over, found)


def listed(store: SqlMonitorStore) -> dict[str, tuple[int, str | None]]:
    return {one.monitor_id: (one.version, one.source) for one in store.list(100, None).items}


def test_they_are_created_owned_changed_and_pruned_with_the_jobs(
    sets: JobSets, store: SqlMonitorStore, sql_stores: StoreBed
) -> None:
    store.put("by-hand", wanted("by-hand").content, "secret", by=BY)
    both = JobSet("shop", [a_job("a")], monitors=[wanted("backup"), wanted("sync", grace="1h")])
    assert len(sets.apply(both, None, by=BY).monitors.added) == 2
    again = sets.apply(both, None, by=BY)
    assert (again.is_empty, again.monitors.unchanged) == (True, 2)
    changed = sets.apply(of(wanted("sync", grace="2h"), prune=True), None, by=BY)
    assert [(c.there.monitor_id, c.fields[0].field) for c in changed.monitors.changed] == [("sync", "grace")]
    assert listed(store) == {"by-hand": (1, None), "sync": (2, "shop")}
    assert sql_stores.database is not None
    entries = SqlAuditLog(sql_stores.database).list(AuditFilter(action="monitor.apply"), 10, None).items
    assert [(one.actor, one.subject, bool(one.before), bool(one.after)) for one in reversed(entries)] == [
        ("ci", "backup", False, True), ("ci", "sync", False, True),
        ("ci", "sync", True, True), ("ci", "backup", True, False),
    ]  # fmt: skip


def test_a_set_that_names_none_leaves_them_and_one_without_pruning_says_so(
    sets: JobSets, store: SqlMonitorStore
) -> None:
    sets.apply(of(wanted("backup")), None)
    assert sets.apply(JobSet("shop", [], prune=True), None).is_empty
    assert sets.apply(of(), None).monitors.left == ("backup",)
    assert listed(store) == {"backup": (1, "shop")}
    assert [one.monitor_id for one in sets.apply(of(prune=True), None).monitors.removed] == ["backup"]
    assert listed(store) == {}


def test_nobody_knows_the_token_of_a_new_one_until_it_is_renewed(
    sets: JobSets, store: SqlMonitorStore, sql_stores: StoreBed
) -> None:
    plan = sets.apply(of(wanted("backup"), wanted("sync")), None)
    assert "token" not in str(plan_body(plan, applied=True))
    with sql_stores.by_role["api"].read() as connection:
        one, other = connection.execute(select(monitors.c.token)).scalars()
    assert (len(one), len(other), one != other) == (64, 64, True)
    store.renew_token("backup", "digest", by=BY)
    assert store.ping("backup", "digest", PingOutcome.SUCCESS, None) is not None
    sets.apply(of(wanted("backup", title="new"), wanted("sync")), None)
    assert store.ping("backup", "digest", PingOutcome.SUCCESS, None) is not None, "an edit keeps it"


def test_a_pause_that_the_file_does_not_name_stays(sets: JobSets, store: SqlMonitorStore) -> None:
    sets.apply(of(wanted("backup")), None)
    store.put("backup", read_monitor("backup", {**HOURLY, "paused": True}, 0), "-", by=BY)
    assert sets.apply(of(wanted("backup")), None).is_empty
    assert store.get("backup").state is MonitorState.PAUSED
    sets.apply(of(wanted("backup", paused=False)), None)
    assert store.get("backup").state is MonitorState.NEW


def test_one_of_another_source_stops_the_whole_apply_until_it_is_taken_over(
    sets: JobSets, store: SqlMonitorStore, sql_stores: StoreBed
) -> None:
    sets.apply(of(wanted("backup"), source="other"), None)
    mine = JobSet("shop", [a_job("a")], monitors=[wanted("backup")])
    with pytest.raises(Conflict, match=r"these monitors belong to another source: backup \(other\)"):
        sets.apply(mine, None)
    assert [job.job_id for job in sets.plan(replace(mine, monitors=None)).added] == ["a"]
    sets.apply(replace(mine, take_over=True), None)
    assert listed(store) == {"backup": (1, "shop")}, "a new owner makes no version"


@pytest.mark.parametrize("meanwhile", ["edited", "deleted", "created", "owned", "created again"])
def test_what_changed_since_the_plan_stops_the_apply(sets: JobSets, store: SqlMonitorStore, meanwhile: str) -> None:
    sets.apply(of(wanted("backup")), None)
    mine = of(wanted("backup", title="mine"), wanted("sync"), prune=True)
    planned = sets.plan(mine).version
    match meanwhile:
        case "edited":
            store.put("backup", wanted("backup", title="theirs").content, "-", by=BY)
        case "deleted":
            store.delete("backup", by=BY)
        case "created":
            store.put("sync", wanted("sync").content, "-", by=BY)
        case "owned":
            sets.apply(of(wanted("third"), wanted("backup")), None)
        case _:
            store.delete("backup", by=BY)
            sets.apply(of(wanted("backup")), None)
    with pytest.raises(Conflict, match="plan again"):
        sets.apply(mine, planned)
    sets.apply(mine, sets.plan(mine).version)
    assert set(listed(store)) == {"backup", "sync"}


def test_a_ping_between_the_plan_and_its_transaction_is_kept(sql_stores: StoreBed, store: SqlMonitorStore) -> None:
    class PingedOnceRead(SqlJobSets):
        def _read(self, wanted: JobSet) -> Any:
            stored = super()._read(wanted)
            assert store.ping("backup", "digest", PingOutcome.SUCCESS, None) is not None
            return stored

    store.put("backup", wanted("backup").content, "digest", by=BY)
    PingedOnceRead(sql_stores.by_role["api"]).apply(of(wanted("backup", title="mine")), None)
    kept = store.get("backup")
    assert (kept.state, kept.last_outcome, kept.version) == (MonitorState.UP, PingOutcome.SUCCESS, 2)
    assert len(store.pings("backup", 10)) == 1


def test_an_edit_between_the_plan_and_its_transaction_stops_it(sql_stores: StoreBed, store: SqlMonitorStore) -> None:
    class EditedOnceRead(SqlJobSets):
        def _read(self, wanted: JobSet) -> Any:
            stored = super()._read(wanted)
            store.put("backup", read_monitor("backup", {**HOURLY, "title": "theirs"}, 0), "-", by=BY)
            return stored

    store.put("backup", wanted("backup").content, "-", by=BY)
    sets = EditedOnceRead(sql_stores.by_role["api"])
    mine = of(wanted("backup", title="mine"))
    with pytest.raises(Conflict, match="plan again"):
        sets.apply(mine, SqlJobSets(sql_stores.by_role["api"]).plan(mine).version)
    content = store.get("backup").content
    assert content is not None
    assert content.title == "theirs"
