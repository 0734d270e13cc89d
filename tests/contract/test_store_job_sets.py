"""JobSets on both databases: a whole source is applied in one transaction, after what was planned."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import event

from itinerary.protocol.errors import Conflict, StoreBusy
from itinerary.protocol.instants import MINUTE, SECOND
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.balancing.placements import PlaceJobs, Placement
from scheduler_service.core.contract.job_plan import JobSet, JobSets
from scheduler_service.core.model import Job
from scheduler_service.ports.records import AuditFilter
from scheduler_service.ports.stores import JobFilter
from scheduler_service.sql.audit import SqlAuditLog
from scheduler_service.sql.database import Bounds, Database, again_when_busy
from scheduler_service.sql.job_sets import SqlJobSets
from tests.support.processes import wait_until
from tests.support.store_bed import StoreBed, a_job, one_off


@pytest.fixture
def sets(sql_stores: StoreBed) -> JobSets:
    return SqlJobSets(sql_stores.by_role["api"])


def of(*jobs: Job, source: str | None = "shop", **flags: bool) -> JobSet:
    return JobSet(source, jobs, **flags)


def owned(bed: StoreBed, source: str) -> dict[str, int]:
    page = bed.jobs.list(JobFilter(source=source), 100, None)
    return {job.job_id: job.version for job in page.items}


def test_an_applied_set_is_stored_owned_and_applies_to_no_change(sets: JobSets, sql_stores: StoreBed) -> None:
    wanted = of(a_job("a", kwargs={"x": 1e16}), a_job("b", title="B"))
    assert len(sets.apply(wanted, None).added) == 2
    assert owned(sql_stores, "shop") == {"a": 1, "b": 1}
    again = sets.apply(wanted, None)
    assert again.is_empty
    assert again.unchanged == 2
    assert owned(sql_stores, "shop") == {"a": 1, "b": 1}


def test_each_change_is_a_version_and_pause_and_birth_stay(sets: JobSets, sql_stores: StoreBed) -> None:
    sets.apply(of(a_job("a"), a_job("b")), None)
    before = sql_stores.jobs.set_paused("a", True, "audit", None)
    sets.apply(of(a_job("a", title="new"), a_job("b")), None)
    after = sql_stores.jobs.get("a")
    assert (after.title, after.version, after.paused, after.pause_reason) == ("new", 3, True, "audit")
    assert after.created_at == before.created_at
    assert after.effective_from > before.effective_from
    assert set(sql_stores.leader.unplanned_jobs(10)) == {"a", "b"}
    (history,) = sql_stores.leader.histories_of(["a"], None)
    assert [version.title for version in history.versions] == ["", "", "new"]


def test_pruning_deletes_what_the_source_owns_and_nothing_else(sets: JobSets, sql_stores: StoreBed) -> None:
    sql_stores.jobs.create(a_job("by-hand"))
    sets.apply(of(a_job("other"), source="other"), None)
    sets.apply(of(a_job("a"), a_job("b")), None)
    plan = sets.apply(of(a_job("b"), prune=True), None)
    assert [job.job_id for job in plan.removed] == ["a"]
    assert owned(sql_stores, "shop") == {"b": 1}
    assert owned(sql_stores, "other") == {"other": 1}
    assert sql_stores.jobs.get("by-hand").source is None


def test_a_deleted_job_that_comes_back_goes_on_counting_versions(sets: JobSets, sql_stores: StoreBed) -> None:
    sets.apply(of(a_job("a")), None)
    sets.apply(of(prune=True), None)
    sets.apply(of(a_job("a")), None)
    assert sql_stores.jobs.get("a").version == 3
    sql_stores.jobs.delete("a", None)
    assert sql_stores.jobs.create(a_job("a")).source is None


def test_taking_a_job_in_makes_no_version(sets: JobSets, sql_stores: StoreBed) -> None:
    sql_stores.jobs.create(a_job("a"))
    sets.apply(of(a_job("a")), None)
    assert owned(sql_stores, "shop") == {"a": 1}
    sql_stores.jobs.replace(a_job("a", title="edited by hand"), None)
    assert owned(sql_stores, "shop") == {"a": 2}


def test_every_change_of_an_apply_is_in_the_audit_log(sets: JobSets, sql_stores: StoreBed) -> None:
    assert sql_stores.database is not None
    by = AuditedChange("ci", "admin", "job.apply")
    sql_stores.jobs.create(a_job("mine"))
    sets.apply(of(a_job("mine"), a_job("a")), None, by=by)
    sets.apply(of(a_job("mine", title="new"), prune=True), None, by=by)
    entries = SqlAuditLog(sql_stores.database).list(AuditFilter(), 10, None).items
    told = [(entry.actor, entry.subject, entry.before, entry.after) for entry in reversed(entries)]
    assert [(actor, subject, bool(before), bool(after)) for actor, subject, before, after in told] == [
        ("ci", "a", False, True), ("ci", "mine", True, True), ("ci", "mine", True, True), ("ci", "a", True, False),
    ]  # fmt: skip
    assert (told[1][2]["source"], told[1][3]["source"]) == (None, "shop")
    assert (told[2][2]["title"], told[2][3]["title"]) == ("", "new")


def test_a_job_of_another_source_stops_the_whole_apply(sets: JobSets, sql_stores: StoreBed) -> None:
    sets.apply(of(a_job("a"), source="other"), None)
    with pytest.raises(Conflict):
        sets.apply(of(a_job("a"), a_job("b")), None)
    assert owned(sql_stores, "shop") == {}


@pytest.mark.parametrize("meanwhile", ["edited", "deleted", "made", "owned"])
def test_what_changed_since_the_plan_stops_the_apply(sets: JobSets, sql_stores: StoreBed, meanwhile: str) -> None:
    sets.apply(of(a_job("a")), None)
    wanted = of(a_job("a", title="mine"), a_job("b"), prune=True)
    planned = sets.plan(wanted)
    match meanwhile:
        case "edited":
            sql_stores.jobs.replace(a_job("a", title="theirs"), None)
        case "deleted":
            sql_stores.jobs.delete("a", None)
        case "made":
            sql_stores.jobs.create(a_job("b"))
        case _:
            sets.apply(of(a_job("c")), None)
    with pytest.raises(Conflict, match="plan again"):
        sets.apply(wanted, planned.version)
    sets.apply(wanted, sets.plan(wanted).version)
    assert set(owned(sql_stores, "shop")) == {"a", "b"}


def test_two_applies_at_once_leave_one_of_them_whole(sets: JobSets, sql_stores: StoreBed) -> None:
    together = threading.Barrier(2)
    names = {"one": ["a", "b", "c"], "two": ["b", "c", "d"]}

    def apply(title: str) -> None:
        other = SqlJobSets(sql_stores.beside().by_role["api"])
        together.wait(60)
        other.apply(of(*(a_job(name, title=title) for name in names[title]), prune=True), None)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(apply, names))
    page = sql_stores.jobs.list(JobFilter(), 100, None)
    (title,) = {job.title for job in page.items}
    assert [job.job_id for job in page.items] == names[title]


def test_a_balanced_job_keeps_its_place_through_an_apply(sets: JobSets, sql_stores: StoreBed) -> None:
    spec = {"kind": "interval", "every": "1h", "balanced": True}
    sets.apply(of(a_job("a", schedule=spec)), None)
    lease = sql_stores.lead()
    anchor = sql_stores.jobs.get("a").created_at + 7 * MINUTE
    placement = Placement("a", version=1, anchor=anchor, replaces=None)
    assert not sql_stores.leader.place_jobs(lease, PlaceJobs((placement,), at=lease.now))
    sets.apply(of(a_job("a", schedule=spec, title="new")), None)
    assert sql_stores.jobs.get("a").placed_anchor == anchor


def test_a_set_without_a_source_owns_and_removes_nothing(sets: JobSets, sql_stores: StoreBed) -> None:
    sets.apply(of(a_job("a")), None)
    sets.apply(of(a_job("a", title="new"), a_job("b"), source=None), None)
    assert owned(sql_stores, "shop") == {"a": 2}
    assert sql_stores.jobs.get("b").source is None


def waiting(bed: StoreBed) -> int:
    """How many statements wait for a lock."""
    assert bed.database is not None
    asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with bed.database.read() as connection:
        return int(connection.exec_driver_sql(asked).scalar_one())


@pytest.mark.postgres
def test_an_apply_that_a_deadlock_undid_is_done_again(postgres_stores: StoreBed) -> None:
    """Somebody who locks in another order, as nobody of ours does: he goes on, and the apply is not refused."""
    assert postgres_stores.database is not None
    sets = SqlJobSets(postgres_stores.by_role["api"])
    sets.apply(of(a_job("a"), a_job("b")), None)
    lock = "SELECT 1 FROM jobs WHERE job_id = '{}' FOR UPDATE"
    with closing(Database(postgres_stores.database.url, bounds=Bounds(lock=10 * SECOND))) as other:
        with ThreadPoolExecutor(1) as pool, other.write() as connection:
            connection.exec_driver_sql(lock.format("b"))
            applied = pool.submit(sets.apply, of(a_job("a", title="new"), a_job("b", title="new")), None)
            wait_until(lambda: waiting(postgres_stores), what="the apply to wait")
            connection.exec_driver_sql(lock.format("a"))
        assert len(applied.result(60).changed) == 2
    assert owned(postgres_stores, "shop") == {"a": 2, "b": 2}


@pytest.mark.postgres
def test_a_deadlock_again_and_again_is_told_as_one(postgres_stores: StoreBed) -> None:
    assert postgres_stores.database is not None
    tried = []

    @again_when_busy
    def write(database: Database) -> None:
        tried.append(1)
        with database.write() as connection:
            connection.exec_driver_sql("DO $$ BEGIN RAISE EXCEPTION 'undone' USING ERRCODE = '40P01'; END $$")

    with pytest.raises(StoreBusy):
        write(postgres_stores.database)
    assert len(tried) == 3


def test_keys_of_a_batch_are_inserted_in_their_order(sql_stores: StoreBed) -> None:
    """Two batches with the same keys wait for each other in one order only."""
    engine = sql_stores.by_role["api"].engine
    keys: list[list[str]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        if statement.startswith("INSERT INTO runs"):
            texts = parameters.values() if isinstance(parameters, dict) else parameters
            keys.append(re.findall(r"key-\d", " ".join(str(text) for text in texts)))

    event.listen(engine, "before_cursor_execute", note)
    made = [one_off(0, idempotency_key=f"key-{n}", request_hash="h") for n in (2, 0, 1)]
    sql_stores.runs.enqueue(made)
    event.remove(engine, "before_cursor_execute", note)
    assert keys == [["key-0", "key-1", "key-2"]]
