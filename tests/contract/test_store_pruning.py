"""Pruning: what is old goes in short steps, what is still needed stays, on both databases."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Table, event, func, insert, select, text, update

from itinerary.protocol.errors import Conflict, LeaseLost, NotFound, StoreUnavailable
from itinerary.protocol.instants import DAY, HOUR, SECOND, Duration, Instant
from scheduler_service.core.contract.pruning import Past, horizon, next_horizon
from scheduler_service.core.explain.job import explain_occurrence
from scheduler_service.core.invariants.check import violations
from scheduler_service.core.leader.commands import CreateRuns
from scheduler_service.core.model import Lease, NewRun, RunKind
from scheduler_service.loops.pruner import sweep
from scheduler_service.sql.database import Database
from scheduler_service.sql.evidence import SqlEvidence
from scheduler_service.sql.history import read_history
from scheduler_service.sql.pruning import SqlPruning
from scheduler_service.sql.record_tables import audit_log, leaderships
from scheduler_service.sql.tables import gaps, job_versions, jobs, run_attempts, runs
from tests.support.old_runs import keep, kept_of, old_run
from tests.support.store_bed import StoreBed, a_job

KEPT = 30 * DAY


def go_on(_: Duration) -> bool:
    return True


def database_of(bed: StoreBed) -> Database:
    assert bed.database is not None
    return bed.database


def swept(bed: StoreBed, lease: Lease | None, now: Instant) -> dict[Past, int]:
    """How many rows one whole sweep deleted of each table."""
    gone: dict[Past, int] = {}
    for past, rows in sweep(SqlPruning(bed.by_role["leader"]), lease, now - KEPT, KEPT, go_on):
        gone[past] = gone.get(past, 0) + rows
    return gone


def number_of(bed: StoreBed, table: Table) -> int:
    with database_of(bed).read() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def test_final_runs_go_when_their_time_and_their_end_are_old_and_attempts_go_with_them(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    old, young = lease.now - 31 * DAY, lease.now - 29 * DAY
    database = database_of(sql_stores)
    going = keep(database, *(old_run(old + n, state=s) for n, s in enumerate(("completed", "failed", "cancelled"))))
    going += keep(database, old_run(old, state="missed"), old_run(old, state="skipped"))
    staying = keep(
        database,
        old_run(young),
        old_run(old, finished_at=young),
        old_run(lease.now + DAY, state="cancelled", finished_at=old),
        *(old_run(old, state=s, finished_at=None) for s in ("scheduled", "pending", "running", "retrying")),
    )
    with database.write() as connection:
        rows = [{"run_id": run_id, "attempt": 1, "outcome": "failed"} for run_id in (going[0], staying[0])]
        connection.execute(insert(run_attempts), rows)
    assert SqlPruning(database).count(Past.RUNS, lease.now - KEPT, 100) == 5
    assert SqlPruning(database).count(Past.RUNS, lease.now - KEPT, 3) == 3
    assert swept(sql_stores, lease, lease.now) == {Past.RUNS: 5}
    assert kept_of(database, going + staying) == staying
    assert number_of(sql_stores, run_attempts) == 1
    assert swept(sql_stores, lease, lease.now) == {}, "doing it again changes nothing"


def test_the_newest_run_of_a_job_stays_while_the_job_does(sql_stores: StoreBed) -> None:
    lease, database = sql_stores.lead(), database_of(sql_stores)
    yearly, gone = sql_stores.planned_job(lease, "yearly"), sql_stores.planned_job(lease, "gone")
    old = lease.now - 400 * DAY
    ids = keep(
        database,
        *(
            old_run(old + n, kind="occurrence", job_id=job.job_id, job_version=1, run_id=f"{job.job_id}-{n}")
            for job in (yearly, gone)
            for n in range(3)
        ),
    )
    sql_stores.jobs.delete("gone", None)
    assert swept(sql_stores, lease, lease.now) == {Past.RUNS: 5}
    assert kept_of(database, ids) == ["yearly-2"]
    assert sql_stores.history.latest_of(["yearly"], lease.now, 5)["yearly"][0].run_id == "yearly-2"


def test_gaps_terms_and_audit_rows_go_too_the_last_after_ninety_days(sql_stores: StoreBed) -> None:
    lease, database = sql_stores.lead(), database_of(sql_stores)
    ages = [29, 31, 89, 91]
    with database.write() as connection:
        for age in ages:
            at = lease.now - age * DAY
            missed_range = {"job_id": "x", "start_at": at - DAY, "end_at": at, "count": 1, "reason": f"{age}"}
            connection.execute(insert(gaps), missed_range)
        for age in reversed(ages):
            at = lease.now - age * DAY
            said = {"at": at, "actor": "ann", "role": "admin", "action": "x", "subject": f"{age}"}
            connection.execute(insert(audit_log), said)
            led = {"shard": 0, "term": -age, "holder": "x", "began_at": at, "confirmed_at": at, "ended_at": at}
            connection.execute(insert(leaderships), {**led, "ending": "resigned"})
    assert swept(sql_stores, lease, lease.now) == {Past.GAPS: 3, Past.AUDIT_LOG: 1, Past.LEADERSHIPS: 3}
    assert [number_of(sql_stores, table) for table in (gaps, audit_log, leaderships)] == [1, 3, 1]


def test_an_idempotency_key_names_its_run_as_long_as_that_is_kept_and_is_free_then(sql_stores: StoreBed) -> None:
    lease, database = sql_stores.lead(), database_of(sql_stores)
    keep(database, old_run(lease.now - 31 * DAY, idempotency_key="old", request_hash="h"))
    keep(database, old_run(lease.now - 29 * DAY, idempotency_key="young", request_hash="h"))
    assert swept(sql_stores, lease, lease.now) == {Past.RUNS: 1}

    def asked(key: str, request_hash: str) -> bool:
        new = NewRun(f"again-{key}", RunKind.ADHOC, "pkg.task", 0, 0, idempotency_key=key, request_hash=request_hash)
        return sql_stores.runs.enqueue([new])[0][1]

    assert asked("old", "other")
    assert not asked("young", "h")
    with pytest.raises(Conflict):
        asked("young", "other")


@pytest.mark.postgres
def test_a_key_whose_run_is_pruned_at_this_very_moment_is_asked_for_again(postgres_stores: StoreBed) -> None:
    lease, database, api = postgres_stores.lead(), database_of(postgres_stores), postgres_stores.by_role["api"]
    keep(database, old_run(lease.now - 31 * DAY, idempotency_key="old", request_hash="h"))
    other = postgres_stores.beside()

    def prune_now(_connection: Any, _cursor: Any, words: str, *_: Any) -> None:
        if words.startswith("SELECT") and "request_hash" in words:
            swept(other, lease, lease.now)

    again = NewRun("again", RunKind.ADHOC, "pkg.task", 0, 0, idempotency_key="old", request_hash="h")
    with listening(api, prune_now), pytest.raises(StoreUnavailable, match="pruned just now; try again"):
        postgres_stores.runs.enqueue([again])
    assert postgres_stores.runs.enqueue([again])[0][1]


def test_a_leader_of_the_past_deletes_nothing(sql_stores: StoreBed) -> None:
    lease, database = sql_stores.lead(), database_of(sql_stores)
    ids = keep(database, old_run(lease.now - 31 * DAY))
    sql_stores.take_over(lease)
    with pytest.raises(LeaseLost):
        swept(sql_stores, lease, lease.now)
    assert kept_of(database, ids) == ids
    assert SqlPruning(database).last_sweep().pruned_until is None


@pytest.mark.slow
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_sweep_that_was_killed_is_simply_gone_on_with(sql_stores: StoreBed, steps: int) -> None:
    lease, database = sql_stores.lead(), database_of(sql_stores)
    keep(database, *(old_run(lease.now - 31 * DAY + n, state="failed") for n in range(3_000)))
    store, before = SqlPruning(database), lease.now - KEPT
    going = sweep(store, lease, before, KEPT, go_on)
    cut = sum(rows for _, (_, rows) in zip(range(steps), going, strict=False))
    assert number_of(sql_stores, runs) == 3_000 - cut
    # Said before the first row was gone, and never that a sweep was over which was not.
    assert store.last_sweep().pruned_until == (before if steps else None)
    assert store.last_sweep().ended_at is None
    assert swept(sql_stores, lease, lease.now).get(Past.RUNS) == 3_000 - cut
    ended_at = store.last_sweep().ended_at
    assert ended_at is not None
    assert ended_at >= lease.now


def test_a_stopped_leader_leaves_the_rest_to_the_next(sql_stores: StoreBed) -> None:
    lease, database = sql_stores.lead(), database_of(sql_stores)
    keep(database, *(old_run(lease.now - 31 * DAY + n) for n in range(1_500)))
    done = list(sweep(SqlPruning(database), lease, lease.now - KEPT, KEPT, lambda rest: False))
    assert len(done) == 1
    assert 0 < number_of(sql_stores, runs) < 1_500


def test_what_is_not_planned_yet_holds_back_the_horizon(sql_stores: StoreBed) -> None:
    lease, store = sql_stores.lead(), SqlPruning(database_of(sql_stores))
    assert horizon(store.needs(), lease.now, KEPT) is None, "nothing was ever planned"
    job = sql_stores.planned_job(lease)
    needs = store.needs()
    assert (needs.cursor, needs.unplanned_since) == (lease.now, None)
    changed, _ = sql_stores.jobs.replace(replace(job, title="another"), None)
    assert store.needs().unplanned_since == changed.effective_from
    sql_stores.leader.create_runs(lease, CreateRuns((), lease.now, planned=(("job", changed.version),)))
    assert store.needs().unplanned_since is None


def test_a_year_that_the_only_clock_jumps_ahead_costs_a_day_of_the_oldest_history_a_sweep(sql_stores: StoreBed) -> None:
    lease, database = sql_stores.lead(), database_of(sql_stores)
    store, jumped = SqlPruning(database), lease.now + 365 * DAY
    ids = keep(database, *(old_run(lease.now - 20 * DAY + n * HOUR) for n in (0, 23, 47, 60, 300)))
    sql_stores.leader.create_runs(lease, CreateRuns((), jumped))
    for left in (3, 2, 1, 1):
        before = next_horizon(replace(store.needs(), now=jumped), jumped, KEPT)
        assert before is not None
        for _ in sweep(store, lease, before, KEPT, go_on):
            pass
        assert kept_of(database, ids) == ids[-left:]
    assert store.needs().history_since == lease.now - 16 * DAY, "also where a day had nothing"
    assert next_horizon(store.needs(), lease.now, KEPT) == lease.now - KEPT


def test_the_invariants_do_not_call_lost_what_was_pruned(sql_stores: StoreBed) -> None:
    lease, database = sql_stores.lead(), database_of(sql_stores)
    sql_stores.planned_job(lease, schedule={"kind": "interval", "every": "1h"})
    with database.write() as connection:
        created_at = database_instant(database, lease.now - 40 * DAY)
        for table in ("jobs", "job_versions"):
            connection.execute(text(f"UPDATE {table} SET effective_from = {created_at}, created_at = {created_at}"))
    hours = range((lease.now - 40 * DAY) // HOUR * HOUR + HOUR, lease.now, HOUR)
    keep(
        database,
        *(old_run(at, kind="occurrence", job_id="job", job_version=1, run_id=f"job_{at}") for at in hours),
    )

    def broken() -> list[Any]:
        with read_history(database) as history:
            return list(violations(history))

    assert broken() == []
    gone = swept(sql_stores, lease, lease.now)[Past.RUNS]
    assert 9 * 24 <= gone <= 10 * 24
    assert broken() == []
    with database.write() as connection:
        last = hours[-1] // SECOND * SECOND
        connection.execute(text("DELETE FROM runs WHERE run_id = :run_id"), {"run_id": f"job_{last}"})
    assert [finding.rule for finding in broken()] == ["lost"], "one that is missing without having been pruned"


def database_instant(database: Database, at: Instant) -> str:
    return str(at) if database.dialect == "sqlite" else f"to_timestamp({at / SECOND})"


@pytest.mark.postgres
@pytest.mark.slow
def test_each_step_is_a_short_walk_through_an_index_among_many_runs(postgres_stores: StoreBed) -> None:
    lease, database = postgres_stores.lead(), database_of(postgres_stores)
    with database.write() as connection:
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text(MANY))
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE runs"))
    before = lease.now - KEPT
    store = SqlPruning(database)
    said: list[tuple[str, Any]] = []
    with listening(database, lambda _connection, _cursor, words, values, *_: said.append((words, values))):
        first = store.scan(Past.RUNS, before, None, 1_000)
        second = store.scan(Past.RUNS, before, first.last, 1_000)
        assert len(first.may_go) == len(second.may_go) == 1_000
        with database.write() as connection:
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            # The statistics do not know of it: the planner thinks that hardly any run is so old.
            connection.execute(text("UPDATE runs SET scheduled_at = scheduled_at - interval '90 days'"))
        store.prune(lease, Past.RUNS, first.may_go, before)
    walks = [(words, values) for words, values in said if "may_go" in words]
    (deleting,) = [(words, values) for words, values in said if words.startswith("DELETE")]
    for words, values in (*walks, deleting):
        plan = explained(database, words, values)
        assert "Seq Scan on runs" not in plan, plan
    assert "ix_runs_newest" not in explained(database, *deleting), "it would walk all that is old"
    assert "pk_runs" in explained(database, *deleting)


@contextmanager
def listening(database: Database, hook: Callable[..., None]) -> Iterator[None]:
    """Call it before each statement."""
    event.listen(database.engine, "before_cursor_execute", hook)
    try:
        yield
    finally:
        event.remove(database.engine, "before_cursor_execute", hook)


def explained(database: Database, words: str, values: Any) -> str:
    with database.read() as connection:
        return "\n".join(connection.exec_driver_sql(f"EXPLAIN {words}", values).scalars())


MANY = """
INSERT INTO runs (run_id, kind, job_id, job_version, task, args, kwargs, queue, priority, scheduled_at, due_at, state,
                  finished_at, created_at)
SELECT 'many-' || n, 'occurrence', 'job-' || n % 100, 1, 'pkg.task', '[]', '{}', 'default', 5, at, at, 'completed',
       at, at
FROM (SELECT n, now() - interval '60 days' + n * interval '1 minute' AS at FROM generate_series(1, 80000) n) AS made
"""


def aged(bed: StoreBed, job_id: str, began: dict[int, Instant]) -> None:
    """The versions of a job as though they had begun then."""
    with database_of(bed).write() as connection:
        for version, at in began.items():
            named = (job_versions.c.job_id == job_id, job_versions.c.version == version)
            connection.execute(update(job_versions).where(*named).values(effective_from=at))
        connection.execute(update(jobs).where(jobs.c.job_id == job_id).values(effective_from=max(began.values())))


def versions_of(bed: StoreBed, job_id: str) -> list[int]:
    wanted = select(job_versions.c.version).where(job_versions.c.job_id == job_id).order_by(job_versions.c.version)
    with database_of(bed).read() as connection:
        return list(connection.execute(wanted).scalars())


def edited(bed: StoreBed, lease: Lease, job_id: str, edits: int, *, planned: bool = True) -> None:
    bed.jobs.create(a_job(job_id))
    for number in range(edits):
        bed.jobs.replace(replace(a_job(job_id), title=f"edit {number}"), None)
    if planned:
        bed.leader.create_runs(lease, CreateRuns((), lease.now, planned=((job_id, edits + 1),)))


def test_versions_that_hold_for_nothing_kept_go_and_what_is_kept_is_explained_by_its_own(sql_stores: StoreBed) -> None:
    lease, database = sql_stores.lead(), database_of(sql_stores)
    old = lease.now - 400 * DAY
    edited(sql_stores, lease, "often", 4)
    aged(sql_stores, "often", {n: old + n * DAY for n in (1, 2, 3)} | {4: lease.now - 40 * DAY, 5: lease.now - DAY})
    edited(sql_stores, lease, "unplanned", 2, planned=False)
    keep(database, old_run(old + 2 * DAY + HOUR, kind="occurrence", job_id="often", job_version=2, run_id="kept"))
    assert swept(sql_stores, lease, lease.now) == {Past.JOB_VERSIONS: 2}
    assert versions_of(sql_stores, "often") == [2, 4, 5], "the newest run of a job is kept, and what it was a run of"
    assert versions_of(sql_stores, "unplanned") == [1, 2, 3]
    assert swept(sql_stores, lease, lease.now) == {}, "doing it again changes nothing"
    assert [history.versions[-1].version for history in sql_stores.leader.job_histories(None)] == [5, 3]
    facts = SqlEvidence(database).of_occurrence("often", old + DAY)
    assert "before version 2 was pruned" in explain_occurrence("often", old + DAY, facts).because[0].message


def test_a_deleted_job_goes_when_nothing_of_it_is_kept_and_may_come_back_as_new(sql_stores: StoreBed) -> None:
    lease, database = sql_stores.lead(), database_of(sql_stores)
    old = lease.now - 60 * DAY
    for job_id in ("gone", "with-a-run", "with-a-gap", "back", "young"):
        edited(sql_stores, lease, job_id, 1)
        sql_stores.jobs.delete(job_id, None)
        sql_stores.leader.create_runs(lease, CreateRuns((), lease.now, planned=((job_id, 3),)))
        if job_id != "young":
            aged(sql_stores, job_id, {1: old, 2: old + HOUR, 3: old + 2 * HOUR})
    sql_stores.jobs.create(a_job("back"))
    keep(database, old_run(lease.now - DAY, kind="occurrence", job_id="with-a-run", job_version=2))
    with database.write() as connection:
        lies = {"start_at": lease.now - 2 * DAY, "end_at": lease.now - DAY, "count": 1, "reason": "x"}
        connection.execute(insert(gaps), {"job_id": "with-a-gap", **lies})
    assert swept(sql_stores, lease, lease.now)[Past.JOBS] == 1
    assert versions_of(sql_stores, "gone") == []
    assert all(versions_of(sql_stores, job_id) for job_id in ("with-a-run", "with-a-gap", "back", "young"))
    with pytest.raises(NotFound):
        SqlEvidence(database).of_occurrence("gone", old)
    assert sql_stores.jobs.create(a_job("gone")).version == 1
    assert swept(sql_stores, lease, lease.now) == {}
