"""What the stores keep in SQL beside the ports: late reports on their attempts, gaps folded, rows set aside."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs

from itinerary.protocol.errors import Conflict
from itinerary.protocol.instants import DAY
from scheduler_service.core.contract.job_json import definition_of
from scheduler_service.core.contract.job_plan import JobSet
from scheduler_service.core.contract.run_requests import again
from scheduler_service.core.leader.commands import Apply, CreateRuns, LateReport, Transition
from scheduler_service.core.model import Job, MissedRange, Overlap
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.stores import JobFilter
from scheduler_service.sql.job_sets import SqlJobSets
from scheduler_service.sql.tables import gaps, job_versions, jobs, run_attempts, runs
from tests.support.store_bed import StoreBed, a_job, occurrence, one_off

ERROR = {"type": "ValueError", "message": "too late"}


def rows(bed: StoreBed, *columns: Any) -> list[tuple[Any, ...]]:
    assert bed.database is not None
    with bed.database.read() as connection:
        return [tuple(row) for row in connection.execute(select(*columns).order_by(*columns[:2]))]


def test_late_reports_are_counted_and_the_last_one_is_kept_on_its_attempt(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    retrying, done = sql_stores.dispatched(lease, one_off(lease.now), one_off(lease.now))
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
        MissedRange("a", 0, 10, 3, "misfire"), MissedRange("a", 10, 20, 4, "misfire"),
        MissedRange("a", 20, 30, 1, "paused"),
        MissedRange("b", 30, 40, 1, "paused"), MissedRange("a", 50, 60, 1, "paused"),
    ]  # fmt: skip
    for missed_range in found:
        for _ in range(2):  # a reply may have been lost: the same once more changes nothing
            sql_stores.leader.create_runs(lease, CreateRuns((), cursor=0, missed_ranges=(missed_range,)))
    kept = gaps.c
    assert rows(sql_stores, kept.job_id, kept.start_at, kept.end_at, kept["count"], kept.reason) == [
        ("a", 0, 20, 7, "misfire"), ("a", 20, 30, 1, "paused"), ("a", 50, 60, 1, "paused"), ("b", 30, 40, 1, "paused"),
    ]  # fmt: skip


def test_an_occurrence_that_cannot_be_made_is_a_gap_with_its_reason(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    job = sql_stores.planned_job(lease)
    bad = replace(occurrence(job, lease.now), queue="\udc80")
    sql_stores.leader.create_runs(lease, CreateRuns((bad,), cursor=lease.now))
    ((job_id, start, end, count, reason),) = rows(
        sql_stores, gaps.c.job_id, gaps.c.start_at, gaps.c.end_at, gaps.c["count"], gaps.c.reason
    )
    assert (job_id, start, end, count) == ("job", lease.now, lease.now + 1, 1)
    assert reason.startswith("row refused: ")


NEWER = {"kind": "lunar", "phase": "full"}


def store_as(bed: StoreBed, job_id: str, definition: Mapping[str, Any]) -> None:
    """As a newer release would have stored it."""
    assert bed.database is not None
    with bed.database.write() as connection:
        connection.execute(update(jobs).where(jobs.c.job_id == job_id).values(definition=definition))
        versions = update(job_versions).where(job_versions.c.job_id == job_id)
        connection.execute(versions.values(definition=definition))


def definitions(bed: StoreBed, job_id: str) -> list[Any]:
    """The job's stored definition, and that of its newest version."""
    assert bed.database is not None
    newest = select(job_versions.c.definition).where(job_versions.c.job_id == job_id)
    with bed.database.read() as connection:
        row = connection.execute(select(jobs.c.definition).where(jobs.c.job_id == job_id)).scalar_one()
        return [row, connection.execute(newest.order_by(job_versions.c.version.desc()).limit(1)).scalar_one()]


@pytest.mark.parametrize("schedule", [NEWER, {"kind": "cron", "expr": "0 0 29 14 *"}])
def test_a_job_that_only_a_newer_program_understands_hides_no_other_and_is_named(
    sql_stores: StoreBed, schedule: dict[str, Any]
) -> None:
    for job_id in ("a", "b", "c"):
        sql_stores.jobs.create(a_job(job_id))
    assert sql_stores.database is not None
    newer = {**definition_of(a_job("b")), "schedule": schedule, "moon_phase": "full"}
    store_as(sql_stores, "b", newer)
    page = sql_stores.jobs.list(JobFilter(), 2, None)
    rest = sql_stores.jobs.list(JobFilter(), 2, page.next_cursor)
    assert [job.job_id for job in (*page.items, *rest.items)] == ["a", "c"]
    for call in (
        lambda: sql_stores.jobs.get("b"),
        lambda: sql_stores.jobs.replace(a_job("b"), None),
        lambda: sql_stores.jobs.set_paused("b", True, None, None),
        lambda: SqlJobSets(sql_stores.database).apply(JobSet(None, [a_job("b")]), None),  # type: ignore[arg-type]
    ):
        with pytest.raises(Conflict, match=r"^job b is stored .*schedule"):
            call()
    assert definitions(sql_stores, "b") == [newer, newer]


def test_the_leader_says_and_counts_what_it_cannot_plan_and_plans_the_others(sql_stores: StoreBed) -> None:
    for job_id in ("a", "b", "c"):
        sql_stores.jobs.create(a_job(job_id))
    store_as(sql_stores, "b", {**definition_of(a_job("b")), "schedule": NEWER})
    with capture_logs() as logs:
        planned = [history.job_id for history in sql_stores.leader.job_histories(None)]
        again = [history.job_id for history in sql_stores.leader.histories_of(["a", "b", "c"], None)]
    assert planned == again == ["a", "c"]
    assert [(entry["log_level"], entry["job_id"]) for entry in logs] == [("error", "b")]
    assert sql_stores.leader.refused_jobs() == 1
    # It stays unplanned, and however many such jobs there are, they keep no other from being looked at.
    assert sorted(sql_stores.leader.unplanned_jobs(2)) == ["a", "c"]
    *first, last = sql_stores.leader.unplanned_jobs(3)
    assert (sorted(first), last) == (["a", "c"], "b")
    store_as(sql_stores, "b", definition_of(a_job("b")))
    assert [history.job_id for history in sql_stores.leader.histories_of(["b"], None)] == ["b"]
    assert sql_stores.leader.refused_jobs() == 0


def of_a_newer_release(job: Job) -> dict[str, Any]:
    """Its definition with fields that this release does not know, everywhere a definition has fields."""
    definition = definition_of(job)
    inner = {name: {**definition[name], "newer": [name]} for name in ("schedule", "misfire", "retry")}
    return {**definition, **inner, "owner": "me", "budget": {"max": [1, None]}}


def test_fields_of_a_newer_release_are_planned_around_and_outlive_every_edit(sql_stores: StoreBed) -> None:
    assert sql_stores.database is not None
    sql_stores.jobs.create(a_job("b"))
    newer = of_a_newer_release(sql_stores.jobs.get("b"))
    store_as(sql_stores, "b", newer)
    assert definition_of(sql_stores.jobs.get("b")) == newer
    with capture_logs() as logs:
        (history,) = sql_stores.leader.job_histories(None)
        sql_stores.leader.job_histories(None)
    told = [entry["field"] for entry in logs if "newer release" in entry["event"]]
    assert told in ([], ["budget", "misfire.newer", "owner", "retry.newer", "schedule.newer"]), "each once in a process"
    assert history.current.schedule_spec == a_job("b").schedule_spec
    # What was not edited makes no version.
    assert sql_stores.jobs.replace(a_job("b"), None)[1] == "unchanged"
    sets = SqlJobSets(sql_stores.database)
    assert sets.apply(JobSet("file", [a_job("b")]), None).changed[0].of_definition is False
    # Every editor: PUT, PATCH and the form (replace), apply, pause, resume, delete.
    sql_stores.jobs.replace(a_job("b", title="one"), None)
    assert definitions(sql_stores, "b") == [{**newer, "title": "one"}] * 2
    sets.apply(JobSet("file", [a_job("b", title="two")]), None)
    sql_stores.jobs.set_paused("b", True, "why", None)
    sql_stores.jobs.set_paused("b", False, None, None)
    assert definitions(sql_stores, "b") == [{**newer, "title": "two"}] * 2
    # What belongs to a schedule of one kind is no part of another's.
    other = a_job("b", schedule={"kind": "hourly", "minute": 5})
    sql_stores.jobs.replace(other, None)
    of_its_own = {"schedule": definition_of(other)["schedule"]}
    assert definitions(sql_stores, "b")[0] == {**of_a_newer_release(other), **of_its_own}
    sql_stores.jobs.delete("b", None)
    assert definitions(sql_stores, "b")[0]["owner"] == "me"
    # A job that is made anew under the id owes nothing to the old one.
    sql_stores.jobs.create(a_job("b"))
    assert definitions(sql_stores, "b") == [definition_of(a_job("b"))] * 2


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


def test_versions_follow_one_another_in_time_though_the_clock_was_set_back(sql_stores: StoreBed) -> None:
    assert sql_stores.database is not None
    ahead = sql_stores.jobs.create(a_job("b")).effective_from + DAY
    with sql_stores.database.write() as connection:
        connection.execute(update(jobs).values(effective_from=ahead))
    for number, title in enumerate(("one", "two"), start=1):
        assert sql_stores.jobs.replace(a_job("b", title=title), None)[0].effective_from == ahead + number
    SqlJobSets(sql_stores.database).apply(JobSet(None, [a_job("b", title="three")]), None)
    assert sql_stores.jobs.get("b").effective_from == ahead + 3
