"""The audit log: a row for each change, in its transaction, and no way to change or lose one. And who led when."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

from itinerary.protocol.errors import Conflict, RowRefused, StoreUnavailable
from itinerary.protocol.instants import MINUTE
from scheduler_service.core.audit import AuditedChange, AuditEntry
from scheduler_service.core.contract.job_plan import JobSet
from scheduler_service.ports.records import AuditFilter
from scheduler_service.sql.audit import SqlAuditLog, record_all
from scheduler_service.sql.job_sets import SqlJobSets
from scheduler_service.sql.record_tables import leaderships
from tests.support.fake_leader import FakeLeaderStore
from tests.support.store_bed import StoreBed, a_job, one_off

EVERYTHING = AuditFilter()


def by(action: str, actor: str = "ann") -> AuditedChange:
    return AuditedChange(actor, "operator", action)


def entries(bed: StoreBed) -> list[AuditEntry]:
    """What was recorded, oldest first."""
    if bed.database is None:
        assert isinstance(bed.leader, FakeLeaderStore)
        return bed.leader._tables.audit
    return SqlAuditLog(bed.database).list(EVERYTHING, 1000, None).items[::-1]


def test_each_change_of_a_job_is_recorded_with_who_made_it_and_before_and_after(bed: StoreBed) -> None:
    bed.jobs.create(a_job(), by=by("job.create"))
    bed.jobs.replace(a_job(title="New"), None, by=by("job.put", "bob"))
    bed.jobs.set_paused("job", True, "audit", None, by=by("job.pause"))
    bed.jobs.delete("job", None, by=by("job.delete"))
    told = [(e.actor, e.role, e.action, e.subject) for e in entries(bed)]
    assert told == [
        ("ann", "operator", "job.create", "job"),
        ("bob", "operator", "job.put", "job"),
        ("ann", "operator", "job.pause", "job"),
        ("ann", "operator", "job.delete", "job"),
    ]
    made, put, paused, deleted = entries(bed)
    assert (made.before, made.after["version"]) == (None, 1)
    assert (put.before["title"], put.after["title"]) == ("", "New")
    assert (paused.before["paused"], paused.after["paused"], paused.after["pause_reason"]) == (False, True, "audit")
    assert (deleted.before["paused"], deleted.after) == (True, None)
    bed.jobs.create(a_job(), by=by("job.create"))
    assert entries(bed)[-1].before is None, "a job that was deleted is made anew"


def test_what_changes_nothing_or_is_refused_is_not_recorded(bed: StoreBed) -> None:
    bed.jobs.create(a_job(), by=by("job.create"))
    bed.jobs.replace(a_job(), None, by=by("job.put"))
    bed.jobs.set_paused("job", False, None, None, by=by("job.resume"))
    with pytest.raises(Conflict):
        bed.jobs.create(a_job(), by=by("job.create"))
    assert [e.action for e in entries(bed)] == ["job.create"]


def test_nobody_in_particular_leaves_no_row(bed: StoreBed) -> None:
    bed.jobs.create(a_job())
    bed.runs.enqueue([one_off(0)])
    assert entries(bed) == []


def test_enqueues_and_cancels_are_recorded_where_they_do_something(bed: StoreBed) -> None:
    keyed = one_off(0, idempotency_key="k", request_hash="h")
    ((run, _),) = bed.runs.enqueue([keyed], by=by("run.enqueue"))
    bed.runs.enqueue([one_off(0, idempotency_key="k", request_hash="h")], by=by("run.enqueue"))
    both = bed.runs.enqueue([one_off(0), one_off(0)], by=by("run.enqueue"))
    for _ in range(2):
        bed.runs.request_cancel(run.run_id, by=by("run.cancel"))
    one, two, cancel = entries(bed)
    assert (one.subject, one.after["task"], one.after["idempotency_key"]) == (run.run_id, "pkg.task", "k")
    assert (two.subject, two.after["run_ids"]) == (None, [made.run_id for made, _ in both])
    assert (cancel.subject, cancel.before, cancel.after) == (
        run.run_id,
        {"state": "scheduled"},
        {"state": "cancelled"},
    )


def test_the_history_of_a_job_names_who_made_each_version(sql_stores: StoreBed) -> None:
    sql_stores.jobs.create(a_job(), by=by("job.create"))
    sql_stores.jobs.set_paused("job", True, None, None, by=by("job.pause", "bob"))
    sql_stores.jobs.set_paused("job", False, None, None)
    assert sql_stores.database is not None
    with sql_stores.database.read() as connection:
        actors = connection.execute(text("SELECT actor FROM job_versions ORDER BY version")).scalars().all()
    assert actors == ["ann", "bob", None]


def test_jobs_applied_together_are_recorded_one_by_one(sql_stores: StoreBed) -> None:
    assert sql_stores.database is not None
    sets = SqlJobSets(sql_stores.database)
    sets.apply(JobSet("file", [a_job("a"), a_job("b")], prune=True), None, by=by("job.apply"))
    sets.apply(JobSet("file", [a_job("a", title="x")], prune=True), None, by=by("job.apply", "bob"))
    told = {(e.actor, e.subject, e.before is None, e.after is None) for e in entries(sql_stores)}
    assert told == {
        ("ann", "a", True, False), ("ann", "b", True, False), ("bob", "a", False, False), ("bob", "b", False, True),
    }  # fmt: skip


@pytest.mark.parametrize("wanted", [EVERYTHING, AuditFilter(since=0)], ids=["by id", "by time"])
def test_pages_go_on_where_they_ended_whatever_is_written_meanwhile(sql_stores: StoreBed, wanted: AuditFilter) -> None:
    database = sql_stores.database
    assert database is not None
    log, rebalanced = SqlAuditLog(database), by("scheduler.rebalance")
    log.record(rebalanced, None, None, {"n": 0})
    with database.write() as connection:  # one instant for three of them
        changes = [(f"job{n}", None, {"n": n}) for n in (1, 2, 3)]
        record_all(connection, database.read_clock(connection), rebalanced, changes)
    log.record(rebalanced, None, None, {"n": 4})
    first = log.list(wanted, 2, None)
    log.record(rebalanced, None, None, {"n": 5})
    second = log.list(wanted, 2, first.next_cursor)
    last = log.list(wanted, 2, second.next_cursor)
    assert [e.after["n"] for page in (first, second, last) for e in page.items] == [4, 3, 2, 1, 0]
    assert last.next_cursor is None


def test_the_log_can_be_asked_for_a_subject_an_actor_an_action_and_a_time(sql_stores: StoreBed) -> None:
    assert sql_stores.database is not None
    log = SqlAuditLog(sql_stores.database)
    log.record(by("a", "ann"), "x", None, None)
    log.record(by("b", "bob"), "y", None, None)
    at = log.list(EVERYTHING, 9, None).items[0].at
    asked: list[tuple[AuditFilter, list[str]]] = [
        (AuditFilter(subject="x"), ["a"]), (AuditFilter(actor="bob"), ["b"]), (AuditFilter(action="a"), ["a"]),
        (AuditFilter(since=at, actor="bob"), ["b"]), (AuditFilter(until=at, actor="bob"), []),
        (AuditFilter(subject="\x00"), []),
    ]  # fmt: skip
    for wanted, found in asked:
        assert [e.action for e in log.list(wanted, 9, None).items] == found


@pytest.mark.parametrize(
    "statement", ["UPDATE audit_log SET actor = 'nobody'", "DELETE FROM audit_log", "TRUNCATE audit_log"]
)
def test_no_row_can_be_changed_or_deleted(sql_stores: StoreBed, statement: str) -> None:
    if sql_stores.kind == "sqlite" and statement.startswith("TRUNCATE"):
        pytest.skip("SQLite has no TRUNCATE")
    assert sql_stores.database is not None
    sql_stores.jobs.create(a_job(), by=by("job.create"))
    with pytest.raises((StoreUnavailable, RowRefused), match="append-only"), sql_stores.database.write() as connection:
        connection.execute(text(statement))
    assert [e.actor for e in entries(sql_stores)] == ["ann"]


def test_a_takeover_records_the_term_that_it_ends_and_how_it_ended(sql_stores: StoreBed) -> None:
    first = sql_stores.lead("one")
    second = sql_stores.take_over(first)
    assert sql_stores.database is not None
    with sql_stores.database.write() as connection:
        past: Callable[[str], str] = {
            "postgresql": lambda column: f"{column} - interval '1 hour'",
            "sqlite": lambda column: f"{column} - 3600000000",
        }[sql_stores.kind]
        connection.execute(text(f"UPDATE leases SET expires_at = {past('expires_at')}"))
    third = sql_stores.leases.acquire(0, "three", MINUTE)
    view = sql_stores.leases.peek(0)
    assert third is not None
    assert sql_stores.leases.acquire(0, "four", MINUTE) is None
    assert sql_stores.leases.acquire(0, "four", MINUTE, view) is not None
    with sql_stores.database.read() as connection:
        rows = connection.execute(leaderships.select().order_by(leaderships.c.term)).all()
    assert [(row.term, row.holder, row.ending) for row in rows] == [
        (first.term, "one", "resigned"),
        (second.term, "successor", "lapsed"),
        (third.term, "three", "stood still"),
    ]
    assert all(row.began_at <= row.ended_at for row in rows if row.ending != "lapsed")
    assert rows[1].confirmed_at == rows[1].ended_at - 10 * MINUTE
