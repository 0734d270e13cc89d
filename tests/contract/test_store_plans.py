"""How the databases carry out the hot statements: by the indexes that were made for them, however long the history."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from sqlalchemy import event, text, update

from itinerary.protocol.instants import DAY, HOUR, MINUTE
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.pruning import Past
from scheduler_service.core.freezes import FreezeStatus, NewFreeze, Scope
from scheduler_service.core.leader.commands import Apply, CreateRuns, Dispatch, Retract, Transition
from scheduler_service.core.leader.lane_reads import LanePage
from scheduler_service.core.model import JobHistory, Lease, MissedRange
from scheduler_service.core.run_state import ACTIVE, Event, RunState
from scheduler_service.ports.history import Total
from scheduler_service.ports.lists import Order, RunSort
from scheduler_service.ports.records import AuditFilter
from scheduler_service.ports.sla import Judged
from scheduler_service.ports.stores import RunFilter
from scheduler_service.sql.audit import SqlAuditLog
from scheduler_service.sql.backfill import known_of
from scheduler_service.sql.conditions import SqlConditions
from scheduler_service.sql.evidence import SqlEvidence
from scheduler_service.sql.outbox import SqlOutbox
from scheduler_service.sql.pruning import SqlPruning
from scheduler_service.sql.sla import SqlSlaStore, sla_misses
from scheduler_service.sql.tables import runs
from tests.support.past_freezes import fill_with_past
from tests.support.processes import wait_until
from tests.support.store_bed import StoreBed, occurrence, one_off, release, sql_bed

pytestmark = pytest.mark.slow  # whole processes, or real servers for long

_INSERT = """
    INSERT INTO runs (run_id, kind, job_id, job_version, task, args, kwargs, queue, priority, scheduled_at, due_at,
                      state, created_at)
    SELECT '{name}_' || n, '{kind}', {job_id}, 1, 'pkg.task', '[]', '{{}}', 'queue' || (n % 3), n % 10, {at}, {at},
           '{state}', {at}
    FROM {numbers}
"""
_NUMBERS = {
    "postgresql": "generate_series({first}, {last}) AS n",
    "sqlite": """(WITH RECURSIVE c(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM c WHERE n < {last})
                  SELECT n FROM c)""",
}
_AT_ONCE = 50_000
_PAST = {"postgresql": "now() - n * interval '1 second'", "sqlite": "1795000000000000 - n * 1000000"}
_FUTURE = {
    "postgresql": "now() + interval '9 years' + n * interval '1 second'",
    "sqlite": "2095000000000000 + n * 1000000",
}

_ALIKE: Final = "version, paused, effective_from, created_at, deleted"
_COPIES: Final = [
    f"""
INSERT INTO {table} ({rest}, job_id, definition)
SELECT {rest}, name, replace(definition::text, '"job"', '"' || name || '"')::json
FROM (SELECT {table}.*, 'job' || lpad(n::text, 6, '0') AS name FROM {table}, generate_series(1, 20000) AS n ORDER BY n)
     AS copies
"""
    for table, rest in (
        ("jobs", f"{_ALIKE}, tags, search_text, planned_version, updated_at"),
        ("job_versions", _ALIKE),
    )
]


def fill(bed: StoreBed, finished: int, future: int, *, out: int = 0, analyze: bool = True) -> None:
    """A long history of finished occurrences, one-offs of the far future, and occurrences that are out."""
    history = {"name": "old", "kind": "occurrence", "job_id": "'job' || (n % 50)", "state": "completed"}
    one_offs = {"name": "new", "kind": "adhoc", "job_id": "NULL", "state": "scheduled"}
    pending = {"name": "out", "kind": "occurrence", "job_id": "'out' || n", "state": "pending"}
    for rows, at, fields in ((finished, _PAST, history), (future, _FUTURE, one_offs), (out, _PAST, pending)):
        for first in range(1, rows + 1, _AT_ONCE):
            numbers = _NUMBERS[bed.kind].format(first=first, last=min(rows, first + _AT_ONCE - 1))
            _execute(bed, _INSERT.format(at=at[bed.kind], numbers=numbers, **fields))
    if analyze:
        _execute(bed, "ANALYZE")


def _execute(bed: StoreBed, statement: str) -> None:
    assert bed.database is not None
    with bed.database.write() as connection:
        if bed.kind == "postgresql":
            connection.execute(text("SET LOCAL statement_timeout = 0"))  # a slow machine fills for long
        connection.execute(text(statement))


def plan_of(bed: StoreBed, call: Callable[[], object], *tables: str) -> str:
    """The plans of all statements of `call` that concern these tables, each explained where it is carried out."""
    assert bed.database is not None
    explain = "EXPLAIN (COSTS OFF) " if bed.kind == "postgresql" else "EXPLAIN QUERY PLAN "
    plans: list[str] = []

    def note(connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        concerns = any(table in statement for table in tables or ("runs", "jobs"))
        if not statement.startswith(explain) and concerns:
            for row in connection.exec_driver_sql(explain + statement, parameters):
                plans.append(" ".join(str(column) for column in row))

    event.listen(bed.database.engine, "before_cursor_execute", note)
    try:
        call()
    finally:
        event.remove(bed.database.engine, "before_cursor_execute", note)
    return "\n".join(plans)


def assert_never_scans(plan: str, *tables: str) -> None:
    for table in tables:
        assert f"Seq Scan on {table}" not in plan, plan
        assert f"SCAN {table}" not in plan.replace(f"SCAN {table} USING", ""), plan


def assert_hot_statements_use_their_indexes(bed: StoreBed, lease: Lease) -> None:
    job = bed.planned_job(lease)
    runs = bed.make(lease, occurrence(job, lease.now), *(one_off(lease.now) for _ in range(20)))
    done = tuple(Transition(r.run_id, 1, Event.SUCCEED, RunState.COMPLETED, lease.now) for r in runs)
    again = tuple(Transition(r.run_id, 1, Event.FAIL, RunState.RETRYING, lease.now) for r in runs)
    (skipped,) = bed.make(lease, occurrence(job, lease.now + 1))
    missed_range = MissedRange("job", lease.now + 1, lease.now + 2, 1, "overlap")
    coalescing = Transition(skipped.run_id, 1, Event.SKIP, RunState.SKIPPED, lease.now, coalesce=missed_range)
    place = bed.leader.overdue_runs(lease.now + 1, 1, None)
    assert place.after is not None
    retracting = CreateRuns((), cursor=0, retracts=(Retract("job7", 2, lease.now),))
    expected: dict[str, tuple[Callable[[], object], str]] = {
        "due": (lambda: bed.leader.due_runs(lease.now + 1, 100), "ix_runs_standing"),
        "overdue": (lambda: bed.leader.overdue_runs(lease.now + 1, 3, None), "ix_runs_standing"),
        "and behind": (lambda: bed.leader.overdue_runs(lease.now + 1, 3, place.after), "ix_runs_standing"),
        "active": (lambda: bed.leader.active_runs(), "ix_runs_standing"),
        "move": (lambda: bed.leader.dispatch_runs(lease, [release(run) for run in runs], lease.now), "runs_run_id"),
        "cancels": (lambda: bed.leader.cancel_requests(10, None), "ix_runs_"),
        "again": (lambda: bed.leader.apply(lease, Apply(again[:9])), "runs_run_id"),
        "done": (lambda: bed.leader.apply(lease, Apply(done)), "runs_run_id"),
        "fold": (lambda: bed.leader.apply(lease, Apply((coalescing,))), "runs_run_id"),
        "read": (lambda: bed.leader.read_runs([run.run_id for run in runs]), "runs_run_id"),
        "retract": (lambda: bed.leader.create_runs(lease, retracting), "ix_runs_of_job"),
        "newest": (lambda: bed.runs.list(RunFilter(), 50, None), "ix_runs_newest"),
        "of a job": (lambda: bed.runs.list(RunFilter(job_id="job7"), 50, None), "ix_runs_of_job"),
        "get": (lambda: bed.runs.get(runs[0].run_id), "runs_run_id"),
        "unplanned": (lambda: bed.leader.unplanned_jobs(10), ""),
    }
    for name, (call, index) in expected.items():
        plan = plan_of(bed, call)
        assert (index in plan) or (bed.kind == "sqlite" and "autoindex_runs_1" in plan), f"{name}:\n{plan}"
        assert_never_scans(plan, "runs")


def test_hot_statements_use_their_indexes(own_stores: StoreBed) -> None:
    lease = own_stores.lead()
    fill(own_stores, finished=20_000, future=2_000)
    assert_hot_statements_use_their_indexes(own_stores, lease)


def test_ranges_of_many_jobs_that_end_together_are_lengthened_by_their_jobs(own_stores: StoreBed) -> None:
    # By their end, a thousand jobs whose runs are skipped each second would read a million rows each second.
    lease = own_stores.lead()
    ended, reason = lease.now - lease.now % DAY, "overlap skip"
    jobs = [f"job{number}" for number in range(1_000)]
    before = tuple(MissedRange(job_id, ended - 2 * HOUR, ended, 1, reason) for job_id in jobs)
    own_stores.leader.create_runs(lease, CreateRuns((), cursor=0, missed_ranges=before))
    next_ones = tuple(MissedRange(job_id, ended, ended + HOUR, 1, reason) for job_id in jobs)
    plan = plan_of(
        own_stores, lambda: own_stores.leader.create_runs(lease, CreateRuns((), 0, missed_ranges=next_ones)), "gaps"
    )
    assert "ix_gaps_of_job" in plan
    assert "ix_gaps_ended" not in plan
    assert_never_scans(plan, "gaps")


def test_what_is_out_is_found_without_history_however_much_it_is(own_stores: StoreBed) -> None:
    assert own_stores.database is not None
    now = own_stores.lead().now
    fill(own_stores, finished=40_000, future=4_000, out=16_000)
    conditions = SqlConditions(own_stores.database)
    asked: dict[str, Callable[[], object]] = {
        "active": lambda: own_stores.leader.active_runs(),
        "overdue": lambda: own_stores.leader.overdue_runs(now, 1_000, None),
        "out": lambda: conditions.in_flight(now, 1_000, None),
        "running": lambda: conditions.running(1_000, None),
        "counts": lambda: own_stores.history.active_counts(10_000),
    }
    for name, call in asked.items():
        plan = plan_of(own_stores, call)
        assert "ix_runs_standing" in plan, f"{name}:\n{plan}"
        assert_never_scans(plan, "runs")
    assert "ix_runs_unwanted" in plan_of(own_stores, lambda: own_stores.leader.cancel_requests(10, None))
    if own_stores.kind == "postgresql":
        of_all = plan_of(own_stores, lambda: own_stores.runs.list(RunFilter(states=tuple(ACTIVE)), 50, None))
        assert of_all.count("(standing = 'led'::text)") == 1
        assert plan_of(own_stores, asked["counts"]).count("Index Cond: (standing = 'led'::text)") == 1


def test_a_list_is_counted_up_to_ten_thousand_by_an_index(own_stores: StoreBed) -> None:
    fill(own_stores, finished=30_000, future=12_000, out=500)
    count = own_stores.history.count_runs
    asked = {
        "ix_runs_of_job": (RunFilter(job_id="job7"), Total(600, False)),
        "ix_runs_of_queue": (RunFilter(queue="queue1"), Total(10_000, True)),
        "ix_runs_newest": (RunFilter(), Total(10_000, True)),
        "ix_runs_standing": (RunFilter(states=(RunState.PENDING, RunState.RUNNING)), Total(500, False)),
        "otherwise": (RunFilter(job_id="job7", states=(RunState.FAILED,)), Total(0, False)),
    }
    for index, (wanted, total) in asked.items():
        plan = plan_of(own_stores, lambda wanted=wanted: count(wanted))
        assert index in plan, f"{wanted}:\n{plan}"
        assert_never_scans(plan, "runs")
        assert count(wanted) == total
    # What no index knows is judged on what was walked: never further than that.
    assert count(RunFilter(queue="nobody", states=(RunState.COMPLETED,))) == Total(0, False)
    assert count(RunFilter(states=(RunState.COMPLETED,), queue="queue1")).more


def test_a_queue_is_asked_only_for_what_stands_in_it(own_stores: StoreBed) -> None:
    lease = own_stores.lead()
    fill(own_stores, finished=0, future=3_000)  # in three queues
    due = plan_of(own_stores, lambda: own_stores.leader.due_runs(lease.now, 100))
    few, many = (4, 10) if own_stores.kind == "postgresql" else (30, 40)
    assert few <= due.count("ix_runs_standing") <= many, due
    overdue = plan_of(own_stores, lambda: own_stores.leader.overdue_runs(lease.now, 100, None))
    assert overdue.count("ix_runs_standing") < 10, "no run of theirs was planned"


def test_a_flood_of_one_lane_is_read_past_by_the_index_of_lanes(own_stores: StoreBed) -> None:
    # All that the statistics know is one lane: by time, a read of any other lane would walk the whole flood.
    lease = own_stores.lead()
    fill(own_stores, finished=0, future=30_000, analyze=False)
    past = {"postgresql": "now() - interval '1 hour'", "sqlite": "1795000000000000"}[own_stores.kind]
    _execute(own_stores, f"UPDATE runs SET lane = 'key:flood', queue = 'default', priority = 5, due_at = {past}")
    _execute(own_stores, "ANALYZE")
    (plain, other) = own_stores.make(lease, one_off(lease.now), one_off(lease.now, lane="key:other"))
    pages = [LanePage("default", lane) for lane in ("", "key:flood", "key:nobody", "key:other")]
    asked: dict[str, Callable[[], object]] = {
        "lanes": lambda: own_stores.leader.waiting_lanes("default", "", 500),
        "heads": lambda: own_stores.leader.lane_heads(lease.now + 1, pages, 64),
        "following": lambda: own_stores.leader.lane_heads(lease.now + 1, [pages[1]._replace(after=(5, 9, 9))], 64),
    }
    for name, call in asked.items():
        plan = plan_of(own_stores, call)
        assert "ix_runs_lane" in plan, f"{name}:\n{plan}"
        assert "ix_runs_standing" not in plan, f"{name}:\n{plan}"
        assert_never_scans(plan, "runs")
        if own_stores.kind == "sqlite" and name != "lanes":
            assert plan.count("(rowid=?)") == 1, f"all lanes in one statement, whole rows read once:\n{plan}"
    read = own_stores.leader.lane_heads(lease.now + 1, pages, 64)
    assert {run.run_id for run in read.runs if run.lane != "key:flood"} == {plain.run_id, other.run_id}


def test_a_takeover_walks_the_starts_of_the_windows_only(own_stores: StoreBed) -> None:
    lease = own_stores.lead()
    kept = {"api": MINUTE, "tenant": DAY}
    for name, of_a_start in (("api", 60), ("tenant", 3600), ("gone", 60)):  # 10,000 each, `api` and `gone` long over
        apart = {"postgresql": f"interval '{of_a_start} seconds'", "sqlite": f"{of_a_start} * 1000000"}[own_stores.kind]
        now = {"postgresql": "now()", "sqlite": str(lease.now)}[own_stores.kind]
        numbers = _NUMBERS[own_stores.kind].format(first=0, last=9_999)
        rows = f"SELECT '{name}', 'key' || (n % 7), {now} - n * {apart}, 1 FROM {numbers}"
        _execute(own_stores, f"INSERT INTO limit_starts (limit_name, limit_key, at, count) {rows}")
    _execute(own_stores, "ANALYZE")
    found = own_stores.leader.starts(kept).counting
    assert Counter(past.use.name for past in found) == {"api": 1, "tenant": 24}
    plan = plan_of(own_stores, lambda: own_stores.leader.starts(kept), "limit_starts")
    assert_never_scans(plan, "limit_starts")
    assert plan.count("ix_limit_starts_limit") >= 4, plan


def test_a_long_past_of_freezes_is_not_walked(own_stores: StoreBed) -> None:
    lease = own_stores.lead()
    assert own_stores.database is not None
    fill_with_past(own_stores, 20_000, lease.now - DAY)
    active = own_stores.freezes.start(
        NewFreeze(Scope(everything=True), "holds"), by=AuditedChange("olga", "operator", "freeze.start")
    )
    (run,) = own_stores.make(lease, one_off(lease.now))
    with own_stores.database.write() as connection:
        connection.execute(text("ANALYZE"))
        old = update(runs).values(due_at=lease.now - 90 * DAY, finished_at=lease.now - DAY - 2 * HOUR)
        connection.execute(old.where(runs.c.run_id == run.run_id))
    asked: dict[str, Callable[[], object]] = {
        "active": lambda: own_stores.freezes.list(FreezeStatus.ACTIVE, 10, None),
        "coming": lambda: own_stores.freezes.list(FreezeStatus.COMING, 10, None),
        "known": lambda: own_stores.leader.controls(0, lease.now - HOUR),
        "explained": lambda: SqlEvidence(own_stores.database).of_run(run.run_id),  # type: ignore[arg-type]
    }
    for name, call in asked.items():
        plan = plan_of(own_stores, call, "freezes")
        assert plan.count("ix_freezes_ends_at") == 2, f"{name}:\n{plan}"
        assert_never_scans(plan, "freezes")
    assert [one.freeze_id for one in own_stores.freezes.list(FreezeStatus.ACTIVE, 10, None).items] == [active.freeze_id]
    judging = SqlEvidence(own_stores.database).of_run(run.run_id).freezes
    assert 0 < len(judging) <= 2_000
    assert all(one.since <= lease.now - DAY - 2 * HOUR for one in judging)


@pytest.mark.slow
@pytest.mark.postgres
def test_hot_statements_use_their_indexes_in_a_long_history(postgres_url: str) -> None:
    with sql_bed(postgres_url) as stores:
        lease = stores.lead()
        fill(stores, finished=300_000, future=60_000)
        assert_hot_statements_use_their_indexes(stores, lease)


def test_jobs_without_a_plan_are_found_by_their_partial_index(own_stores: StoreBed) -> None:
    assert own_stores.database is not None
    with own_stores.database.write() as connection:
        explain = "EXPLAIN QUERY PLAN"
        if own_stores.kind == "postgresql":
            explain = "EXPLAIN"
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        wanted = "SELECT job_id FROM jobs WHERE planned_version != version LIMIT 5"
        plan = "\n".join(str(row) for row in connection.execute(text(f"{explain} {wanted}")))
    assert "ix_jobs_unplanned" in plan


def test_the_audit_log_of_a_time_is_found_without_all_that_was_before(own_stores: StoreBed) -> None:
    assert own_stores.database is not None
    numbers = _NUMBERS[own_stores.kind].format(first=1, last=20_000)
    values = f"{_PAST[own_stores.kind]}, 'somebody', 'admin', 'job.put'"
    _execute(own_stores, f"INSERT INTO audit_log (at, actor, role, action) SELECT {values} FROM {numbers}")
    _execute(own_stores, "ANALYZE")
    newest = own_stores.lead().now if own_stores.kind == "postgresql" else 1_795_000_000_000_000
    log = SqlAuditLog(own_stores.database)
    for wanted in (
        AuditFilter(since=newest - 3 * MINUTE, until=newest - MINUTE),
        AuditFilter(until=newest - 5 * HOUR),
        AuditFilter(since=newest - 3 * MINUTE),
        AuditFilter(actor="somebody", until=newest - 5 * HOUR),
    ):
        page = log.list(wanted, 100, None)
        assert page.next_cursor is not None
        for cursor in (None, page.next_cursor):
            plan = plan_of(own_stores, lambda w=wanted, c=cursor: log.list(w, 100, c), "audit_log")
            assert "ix_audit_log_at" in plan, plan
            assert_never_scans(plan, "audit_log")


def test_growing_tables_are_asked_by_their_indexes(own_stores: StoreBed) -> None:
    assert own_stores.database is not None
    numbers = _NUMBERS[own_stores.kind].format(first=1, last=50_000)
    values = f"{_PAST[own_stores.kind]}, 'actor' || (n % 2), 'admin', 'enqueue_run'"
    _execute(own_stores, f"INSERT INTO audit_log (at, actor, role, action) SELECT {values} FROM {numbers}")
    row = f"'m' || n, 't', 'x', '', {_PAST[own_stores.kind]}, 1, NULL, {_PAST[own_stores.kind]}, 'sent'"
    columns = "message_id, target, topic, body, made_at, attempts, next_at, ended_at, state"
    _execute(own_stores, f"INSERT INTO deliveries ({columns}) SELECT {row} FROM {numbers}")
    _execute(own_stores, "ANALYZE")
    log, outbox = SqlAuditLog(own_stores.database), SqlOutbox(own_stores.database)
    pruning, now = SqlPruning(own_stores.database), own_stores.lead().now
    asked: dict[str, Callable[[], object]] = {
        "ix_audit_log_actor": lambda: log.list(AuditFilter(actor="nobody"), 50, None),
        "ix_audit_log_action": lambda: log.list(AuditFilter(action="replace_job"), 50, None),
        " ix_audit_log_action": own_stores.leader.last_rebalance,
        "ix_deliveries_ended": lambda: outbox.tidy(DAY),
        "ix_jobs_deleted": lambda: pruning.scan(Past.JOBS, now, None, 500),
        "job_versions": lambda: pruning.scan(Past.JOB_VERSIONS, now, None, 500),
    }
    for index, call in asked.items():
        plan = plan_of(own_stores, call, "audit_log", "deliveries", "job_versions", "jobs")
        if own_stores.kind == "sqlite" or "jobs" not in index:  # PostgreSQL reads a table of one page as it is
            assert index.strip() in plan, plan
        assert_never_scans(plan, "audit_log", "deliveries")


def test_the_few_runs_whose_sla_has_come_are_found_among_all_that_wait(own_stores: StoreBed) -> None:
    lease = own_stores.lead()
    fill(own_stores, finished=20_000, future=50_000)
    _execute(own_stores, "UPDATE runs SET end_by = due_at WHERE kind = 'adhoc'")
    _execute(own_stores, "ANALYZE")
    late = [one_off(lease.now - HOUR, must_end_within=MINUTE) for _ in range(2)]
    own_stores.runs.enqueue(late)
    assert own_stores.database is not None
    sla, judged = SqlSlaStore(own_stores.database), list[Judged]()
    plan = plan_of(own_stores, lambda: judged.append(sla.judge(0, 1_000)))
    assert judged == [Judged(0, 2)]
    assert "ix_runs_end_by" in plan, plan
    assert_never_scans(plan, "runs")
    with own_stores.database.read() as connection:
        plan = plan_of(own_stores, lambda: sla_misses(connection, lease.now - DAY, 10))
    assert "ix_runs_sla_missed" in plan, plan


def test_a_backfill_finds_what_was_run_again_without_all_that_ran_since(own_stores: StoreBed) -> None:
    lease = own_stores.lead()
    fill(own_stores, finished=20_000, future=0)
    own_stores.make(lease, occurrence(own_stores.planned_job(lease, "job7"), lease.now - HOUR))
    assert own_stores.database is not None
    with own_stores.database.read() as connection:
        plan = plan_of(own_stores, lambda: known_of(connection, "job7", [lease.now - HOUR]))
    assert "ix_runs_tried_again" in plan, plan


def test_what_is_beside_a_run_is_found_without_the_rest_of_its_history(own_stores: StoreBed) -> None:
    lease = own_stores.lead()
    fill(own_stores, finished=20_000, future=0)
    (run,) = own_stores.make(lease, occurrence(own_stores.planned_job(lease, "job7"), lease.now - HOUR))
    plan = plan_of(own_stores, lambda: own_stores.history.relatives(run.run_id, 20))
    assert "ix_runs_again" in plan, plan
    assert "ix_runs_of_job" in plan, plan


def test_completed_runs_are_found_and_counted_without_those_to_come(own_stores: StoreBed) -> None:
    fill(own_stores, finished=300, future=12_000)
    completed = RunFilter(states=(RunState.COMPLETED,))
    asked = {
        "count": lambda: own_stores.history.count_runs(completed),
        "list": lambda: own_stores.runs.list(completed, 50, None),
        "sorted": lambda: own_stores.runs.list(completed, 50, None, Order(RunSort.DURATION)),
    }
    assert own_stores.history.count_runs(completed) == Total(300, False)
    for name, call in asked.items():
        plan = plan_of(own_stores, call, "runs")
        assert re.search(r"ix_runs_newest \(.*scheduled_at<|Index Cond: .*scheduled_at < ", plan), f"{name}:\n{plan}"


def test_runs_of_the_future_do_not_hide_what_is_due(own_stores: StoreBed) -> None:
    lease = own_stores.lead()
    fill(own_stores, finished=0, future=20_000)
    (due,) = own_stores.make(lease, one_off(lease.now, queue="queue1", priority=9))
    assert [run.run_id for run in own_stores.leader.due_runs(lease.now + DAY, 10)] == [due.run_id]


def test_named_runs_are_looked_up_by_id_before_the_statistics_know_of_those_that_wait(
    own_stores: StoreBed,
) -> None:
    lease = own_stores.lead()
    fill(own_stores, finished=5_000, future=0)
    fill(own_stores, finished=0, future=50_000, analyze=False)
    runs = own_stores.make(lease, *(one_off(lease.now) for _ in range(5)))
    asked = [release(run) for run in runs]
    plan = plan_of(own_stores, lambda: own_stores.leader.dispatch_runs(lease, asked, lease.now))
    assert "ix_runs_standing" not in plan
    assert_never_scans(plan, "runs")


@pytest.mark.postgres
def test_a_batch_does_not_read_a_table_that_has_just_grown(postgres_url: str) -> None:
    with sql_bed(postgres_url) as stores:
        lease = stores.lead()
        fill(stores, finished=100, future=0)
        runs = stores.make(lease, *(one_off(lease.now) for _ in range(3_000)))
        asked = [release(run) for run in runs[:5]]
        ended = Apply(tuple(Transition(r.run_id, 1, Event.SUCCEED, RunState.COMPLETED, lease.now) for r in runs[:5]))
        for call in (
            lambda: stores.leader.dispatch_runs(lease, asked, lease.now),
            lambda: stores.leader.apply(lease, ended),
        ):
            assert_never_scans(plan_of(stores, call), "runs")


@pytest.mark.postgres
def test_a_dispatch_and_a_skip_read_the_jobs_of_their_runs_only(postgres_url: str) -> None:
    """The history is of one of the first jobs, so to merge all jobs up to the one that is named looks cheap."""
    with sql_bed(postgres_url) as stores:
        lease = stores.lead()
        job = stores.planned_job(lease, "job")
        history = _INSERT.format(
            name="old", kind="occurrence", job_id="'job000001'", state="completed", at=_PAST["postgresql"],
            numbers=_NUMBERS["postgresql"].format(first=1, last=20_000),
        )  # fmt: skip
        for statement in (*_COPIES, history, "ANALYZE"):
            _execute(stores, statement)
        late = [occurrence(replace(job, job_id=f"job{n:06d}"), lease.now) for n in range(19_950, 20_001)]
        stores.leader.create_runs(lease, CreateRuns(tuple(late), cursor=lease.now))
        asked = [Dispatch(run.run_id, 1, n) for n, run in enumerate(late)]
        skips = Apply(tuple(
            Transition(run.run_id, 1, Event.SKIP, RunState.SKIPPED, lease.now, reason="overlap",
                       coalesce=MissedRange(run.job_id or "", lease.now, lease.now + 1, 1, "overlap"))
            for run in late
        ))  # fmt: skip
        for call in (
            lambda: stores.leader.apply(lease, skips),
            lambda: stores.leader.dispatch_runs(lease, asked, lease.now),
        ):
            plan = plan_of(stores, call, "jobs")
            assert "pk_jobs" in plan
            assert "Merge" not in plan, plan
            assert_never_scans(plan, "jobs")


@pytest.mark.slow
@pytest.mark.postgres
def test_a_page_of_all_jobs_is_read_without_the_jobs_of_other_pages(postgres_url: str) -> None:
    with sql_bed(postgres_url) as stores:
        lease = stores.lead()
        job = stores.planned_job(lease, "job")
        for statement in (*_COPIES, "ANALYZE jobs, job_versions"):
            _execute(stores, statement)
        found: list[JobHistory] = []
        _execute(stores, "UPDATE jobs SET placed_anchor = now() WHERE job_id >= 'job010000'")  # read by their versions
        plan = plan_of(stores, lambda: found.extend(stores.leader.job_histories(lease.now)))
        assert len(found) == 20_001
        assert "pk_job_versions" in plan, plan
        assert_never_scans(plan, "jobs", "job_versions")
        assert stores.database is not None
        pruning = SqlPruning(stores.database)
        needs = plan_of(stores, pruning.needs, "jobs")
        assert "ix_jobs_unplanned" in needs, needs
        assert_never_scans(needs, "jobs", "job_versions")
        older = "effective_from - interval '1 hour' WHERE job_id = 'job020000'"  # of the last page of those that wait
        for statement in ("UPDATE jobs SET planned_version = 0", f"UPDATE job_versions SET effective_from = {older}"):
            _execute(stores, statement)
        assert pruning.needs().unplanned_since == job.effective_from - HOUR


@pytest.mark.postgres
def test_a_release_and_a_start_write_nothing_into_the_indexes(postgres_url: str) -> None:
    with sql_bed(postgres_url) as stores:
        assert stores.database is not None
        lease = stores.lead()
        job = stores.planned_job(lease)
        runs = stores.make(lease, *(occurrence(job, lease.now - n) for n in range(300)))
        stores.leader.dispatch_runs(lease, [release(run) for run in runs], lease.now + 1)
        started = tuple(Transition(r.run_id, 1, Event.START, RunState.RUNNING, lease.now) for r in runs)
        assert stores.leader.apply(lease, Apply(started)) == ()
        stores.database.engine.dispose()  # a connection that ends tells the statistics what it did
        wait_until(lambda: _updates(stores)[0] == 600, what=lambda: str(_updates(stores)))
        updates, within_their_page = _updates(stores)
        assert within_their_page / updates > 0.9


def _updates(stores: StoreBed) -> tuple[int, int]:
    """Of rows of `runs`, in all and heap-only."""
    assert stores.database is not None
    counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'runs'"
    with stores.database.read() as connection:
        return tuple(connection.execute(text(counted)).one())  # type: ignore[return-value]
