"""What the stores keep in SQL beside the ports: late reports on their attempts, gaps folded, rows set aside."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs

from scheduler_service.adapters.sql_job_sets import SqlJobSets
from scheduler_service.adapters.tables import gaps, jobs, run_attempts, runs, scheduler_statistics
from scheduler_service.core.effects import Apply, LateReport, MakeRuns, RecordStatistics, Transition
from scheduler_service.core.errors import Conflict
from scheduler_service.core.instants import DAY
from scheduler_service.core.job_body import definition_of
from scheduler_service.core.job_plan import JobSet
from scheduler_service.core.model import Gap, Overlap
from scheduler_service.core.run_requests import again
from scheduler_service.core.run_state import Event, RunState
from tests.support.store_bed import StoreBed, a_job, occurrence, one_off

ERROR = {"type": "ValueError", "message": "too late"}


def rows(bed: StoreBed, *columns: Any) -> list[tuple[Any, ...]]:
    assert bed.database is not None
    with bed.database.read() as connection:
        return [tuple(row) for row in connection.execute(select(*columns).order_by(*columns[:2]))]


def test_late_reports_are_counted_and_the_last_one_is_kept_on_its_attempt(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    retrying, done = sql_stores.released(lease, one_off(lease.now), one_off(lease.now))
    again = Transition(retrying.run_id, 1, Event.FAIL, RunState.RETRYING, lease.now, reason="first", error={})
    over = Transition(done.run_id, 1, Event.SUCCEED, RunState.COMPLETED, lease.now, worker="w@h")
    sql_stores.leader.apply(lease, Apply((again, over)))
    late = [
        LateReport(run.run_id, 1, kind, lease.now + 5 + n, "w2@h", error)
        for run in (retrying, done)
        for n, (kind, error) in enumerate([("succeeded", None), ("failed", ERROR)])
    ]
    sql_stores.leader.apply(lease, Apply((), late=tuple(late)))
    sql_stores.leader.apply(lease, Apply((), late=(late[0],)))
    kept = run_attempts.c
    assert rows(sql_stores, kept.run_id, kept.attempt, kept.outcome, kept.late_reports, kept.late_kind) == sorted(
        [(retrying.run_id, 1, "failed", 3, "succeeded"), (done.run_id, 1, "completed", 2, "failed")]
    )
    told = rows(sql_stores, kept.late_kind, kept.late_worker, kept.late_at, kept.late_error)
    assert told == [("failed", "w2@h", lease.now + 6, ERROR), ("succeeded", "w2@h", lease.now + 5, None)]
    assert sql_stores.runs.get(done.run_id).attempts == ()


def test_a_gap_that_goes_on_where_one_of_the_same_reason_ended_makes_that_one_longer(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    found = [
        Gap("a", 0, 10, 3, "misfire"), Gap("a", 10, 20, 4, "misfire"), Gap("a", 20, 30, 1, "paused"),
        Gap("b", 30, 40, 1, "paused"), Gap("a", 50, 60, 1, "paused"),
    ]  # fmt: skip
    for gap in found:
        for _ in range(2):  # a reply may have been lost: the same once more changes nothing
            sql_stores.leader.make_runs(lease, MakeRuns((), cursor=0, gaps=(gap,)))
    kept = gaps.c
    assert rows(sql_stores, kept.job_id, kept.start_at, kept.end_at, kept["count"], kept.reason) == [
        ("a", 0, 20, 7, "misfire"), ("a", 20, 30, 1, "paused"), ("a", 50, 60, 1, "paused"), ("b", 30, 40, 1, "paused"),
    ]  # fmt: skip


def test_an_occurrence_that_cannot_be_made_is_a_gap_with_its_reason(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    job = sql_stores.planned_job(lease)
    bad = replace(occurrence(job, lease.now), queue="\udc80")
    sql_stores.leader.make_runs(lease, MakeRuns((bad,), cursor=lease.now))
    ((job_id, start, end, count, reason),) = rows(
        sql_stores, gaps.c.job_id, gaps.c.start_at, gaps.c.end_at, gaps.c["count"], gaps.c.reason
    )
    assert (job_id, start, end, count) == ("job", lease.now, lease.now + 1, 1)
    assert reason.startswith("row refused: ")


def test_statistics_older_than_a_week_go(sql_stores: StoreBed) -> None:
    for at in (0, DAY, 7 * DAY, 8 * DAY):
        sql_stores.leader.record_statistics(RecordStatistics(at, 1, 2, 3))
    assert rows(sql_stores, scheduler_statistics.c.at, scheduler_statistics.c.lag) == [
        (DAY, 3), (7 * DAY, 3), (8 * DAY, 3),
    ]  # fmt: skip


def test_a_job_that_only_a_newer_program_understands_hides_no_other_and_is_named(sql_stores: StoreBed) -> None:
    for job_id in ("a", "b", "c"):
        sql_stores.jobs.create(a_job(job_id))
    assert sql_stores.database is not None
    newer = {**definition_of(a_job("b")), "moon_phase": "full"}
    with sql_stores.database.write() as connection:
        connection.execute(update(jobs).where(jobs.c.job_id == "b").values(definition=newer))
    page = sql_stores.jobs.list(tag=None, text=None, paused=None, limit=2, cursor=None)
    rest = sql_stores.jobs.list(tag=None, text=None, paused=None, limit=2, cursor=page.next_cursor)
    assert [job.job_id for job in (*page.items, *rest.items)] == ["a", "c"]
    for call in (
        lambda: sql_stores.jobs.get("b"),
        lambda: sql_stores.jobs.replace(a_job("b"), None),
        lambda: SqlJobSets(sql_stores.database).apply(JobSet(None, [a_job("b")]), None),  # type: ignore[arg-type]
    ):
        with pytest.raises(Conflict, match=r"^job b is stored .* moon_phase"):
            call()


@pytest.mark.parametrize(
    ("stored", "attempts"),
    [
        ('{"max_attempts":3,"initial":"1s","max":"of a newer release"}', 3),
        ('{"max_attempts":4,"added_later":true}', 4),
        ('{"max_attempts":"many"}', 1),
        ("not json", 1),
        ("[1]", 1),
        ('{"max_attempts":' + "[" * 100_000, 1),
    ],
)
def test_a_stored_retry_policy_that_cannot_be_read_is_kept_and_logged(
    sql_stores: StoreBed, stored: str, attempts: int
) -> None:
    assert sql_stores.database is not None
    lease = sql_stores.lead()
    ((run, _),) = sql_stores.runs.enqueue([one_off(lease.now)])
    with sql_stores.database.write() as connection:
        connection.execute(update(runs).where(runs.c.run_id == run.run_id).values(retry=stored))
    with capture_logs() as logs:
        (due,) = sql_stores.leader.due_runs(lease.now + DAY, 10)
    assert [entry["log_level"] for entry in logs] == ["error"]
    assert (due.retry.max_attempts, due.retry.unread) == (attempts, stored)
    ((copied, _),) = sql_stores.runs.enqueue([again(sql_stores.runs.get(run.run_id), "0" * 32, lease.now)])
    assert rows(sql_stores, runs.c.run_id, runs.c.retry) == sorted([(run.run_id, stored), (copied.run_id, stored)])


def test_a_run_whose_stored_overlap_policy_cannot_be_read_waits_for_its_turn(sql_stores: StoreBed) -> None:
    assert sql_stores.database is not None
    lease = sql_stores.lead()
    ((run, _),) = sql_stores.runs.enqueue([one_off(lease.now)])
    with sql_stores.database.write() as connection:
        connection.execute(update(runs).where(runs.c.run_id == run.run_id).values(overlap="of a newer release"))
    with capture_logs() as logs:
        (due,) = sql_stores.leader.due_runs(lease.now + DAY, 10)
    assert due.overlap is Overlap.QUEUE_ALL
    assert [entry["log_level"] for entry in logs] == ["error"]
