"""SLAs in the stores: a run with `must_end_within` is judged once, by its due time and its end, with its notice."""

from typing import Any

import pytest
from sqlalchemy import event, select

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.model import NewRun
from scheduler_service.core.notifications.topics import TOPICS
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.sla import Judged
from scheduler_service.sql.notice_tables import notices
from scheduler_service.sql.sla import SqlSlaStore, sla_misses
from tests.support.store_bed import StoreBed, occurrence, one_off


@pytest.fixture
def bed(sql_stores: StoreBed) -> StoreBed:
    return sql_stores


@pytest.fixture
def sla(bed: StoreBed) -> SqlSlaStore:
    return SqlSlaStore(bed.by_role["leader"], TOPICS)


def ended(run: NewRun, at: int, to: RunState = RunState.COMPLETED) -> Transition:
    return Transition(run.run_id, 1, Event.SUCCEED if to is RunState.COMPLETED else Event.FAIL, to, at)


def began(run: NewRun, at: int) -> Transition:
    return Transition(run.run_id, 1, Event.START, RunState.RUNNING, at, worker="w@h")


def verdicts(bed: StoreBed, *wanted: NewRun) -> list[bool | None]:
    return [bed.runs.get(run.run_id).sla_missed for run in wanted]


def noted(bed: StoreBed) -> list[tuple[str, str, int, Any]]:
    assert bed.database is not None
    with bed.database.read() as connection:
        found = connection.execute(select(notices).order_by(notices.c.subject)).all()
    return [(row.topic, row.subject, row._mapping["count"], row.said.get("run_id")) for row in found]


def test_it_counts_from_when_the_run_is_due_and_no_other_run_is_touched(bed: StoreBed, sla: SqlSlaStore) -> None:
    lease = bed.lead()
    later, now, without = (
        one_off(lease.now + MINUTE, must_end_within=HOUR),
        one_off(0, must_end_within=HOUR),
        one_off(0),
    )
    kept = [run for run, _ in bed.runs.enqueue([later, now, without])]
    assert kept[0].end_by == lease.now + MINUTE + HOUR
    assert kept[1].end_by == kept[1].due_at + HOUR
    assert (kept[2].end_by, kept[2].sla_missed) == (None, None)
    assert sla.judge(0, 100) == Judged()
    assert verdicts(bed, later, now, without) == [None, None, None]


def test_each_run_is_judged_once_when_its_time_has_come_however_it_went(bed: StoreBed, sla: SqlSlaStore) -> None:
    lease = bed.lead()
    ago = lease.now - HOUR
    done, late, failed, runs_on, waiting = (one_off(ago, must_end_within=MINUTE) for _ in range(5))
    bed.dispatched(lease, done, late, failed, runs_on)
    bed.runs.enqueue([waiting])
    started = [began(run, ago + SECOND) for run in (done, late, failed, runs_on)]
    over = [ended(done, ago + MINUTE), ended(late, ago + MINUTE + 1), ended(failed, ago + SECOND, RunState.FAILED)]
    bed.leader.apply(lease, Apply((*started, *over)))
    total = Judged()
    while (found := sla.judge(0, 2)) != Judged():
        total = Judged(total.kept + found.kept, total.missed + found.missed)
    assert verdicts(bed, done, late, failed, runs_on, waiting) == [False, True, False, True, True]
    ((topic, subject, count, _),) = noted(bed)
    assert (topic, subject, count) == ("run.sla_missed", "task:pkg.task", 3)


def test_what_is_still_being_reported_is_not_judged_yet(bed: StoreBed, sla: SqlSlaStore) -> None:
    lease = bed.lead()
    run = one_off(lease.now - HOUR, must_end_within=HOUR)
    bed.runs.enqueue([run])
    assert sla.judge(MINUTE, 10) == Judged()
    assert sla.judge(0, 10) == Judged(0, 1)
    assert sla.judge(0, 10) == Judged()


def test_a_run_of_a_paused_job_is_judged_too_and_also_while_nobody_leads(bed: StoreBed, sla: SqlSlaStore) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease, "job", must_end_within="1m")
    run = occurrence(job, lease.now - HOUR, must_end_within=job.must_end_within)
    bed.make(lease, run)
    bed.jobs.set_paused("job", True, "holiday", None)
    bed.leases.resign(lease)
    assert sla.judge(0, 10) == Judged(0, 1)
    assert noted(bed) == [("run.sla_missed", "job", 1, run.run_id)]


def test_nothing_is_noted_where_nobody_is_notified(bed: StoreBed) -> None:
    lease = bed.lead()
    bed.runs.enqueue([one_off(lease.now - HOUR, must_end_within=MINUTE)])
    assert SqlSlaStore(bed.by_role["leader"]).judge(0, 10) == Judged(0, 1)
    assert noted(bed) == []


def test_who_dies_before_the_commit_has_judged_nothing_and_the_next_one_notes_it_once(
    bed: StoreBed, sla: SqlSlaStore
) -> None:
    lease = bed.lead()
    run = one_off(lease.now - HOUR, must_end_within=MINUTE)
    bed.runs.enqueue([run])
    database = bed.by_role["leader"]

    def die(connection: Any) -> None:
        raise KeyboardInterrupt

    event.listen(database.engine, "commit", die)
    with pytest.raises(KeyboardInterrupt):
        sla.judge(0, 10)
    event.remove(database.engine, "commit", die)
    assert (verdicts(bed, run), noted(bed)) == ([None], [])
    assert [sla.judge(0, 10), sla.judge(0, 10)] == [Judged(0, 1), Judged()]
    assert [count for _, _, count, _ in noted(bed)] == [1]


def test_the_latest_misses_are_listed_first(bed: StoreBed, sla: SqlSlaStore) -> None:
    lease = bed.lead()
    made = [one_off(lease.now - n * HOUR, must_end_within=MINUTE) for n in (3, 1, 2, 50)]
    bed.runs.enqueue(made)
    sla.judge(0, 10)
    assert bed.database is not None
    with bed.database.read() as connection:
        found = sla_misses(connection, lease.now - DAY, 2)
    assert [miss.run_id for miss in found] == [made[1].run_id, made[2].run_id]
