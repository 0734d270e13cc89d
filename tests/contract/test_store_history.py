"""The history that the invariants read: everything that the database holds, in one snapshot."""

from sqlalchemy import text

from itinerary.protocol.instants import SECOND
from scheduler_service.core.invariants.check import violations
from scheduler_service.core.invariants.history import Rule
from scheduler_service.core.leader.commands import Apply, CreateRuns, Transition
from scheduler_service.core.model import MissedRange
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.sql.history import read_history
from tests.support.store_bed import StoreBed, occurrence, one_off


def test_a_run_is_read_with_its_ended_attempts_its_job_and_its_gaps(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    job = sql_stores.planned_job(lease)
    first, second = occurrence(job, lease.now), occurrence(job, lease.now - SECOND)
    sql_stores.dispatched(lease, first, second)
    sql_stores.leader.create_runs(
        lease, CreateRuns((), lease.now + 9, missed_ranges=(MissedRange("job", 1, 9, 4, "missed"),))
    )
    lost = Transition(first.run_id, 1, Event.LOSE, RunState.RETRYING, lease.now + 5, reason="lost", due_at=lease.now)
    sql_stores.leader.apply(lease, Apply((started(first.run_id, lease.now + 3), lost)))

    assert sql_stores.database is not None
    with read_history(sql_stores.database) as history:
        runs = list(history.runs)
        assert [run.run_id for run in runs] == [second.run_id, first.run_id]
        assert history.cursor == lease.now + 9
        assert [missed_range.count for missed_range in history.missed_ranges] == [4]
        assert [job.job_id for job in history.jobs] == ["job"]
    facts = runs[1]
    assert (facts.state, facts.attempt, facts.pending_at) == (RunState.RETRYING, 2, None)
    assert [(a.attempt, a.outcome, a.started_at) for a in facts.attempts] == [(1, "lost", lease.now + 3)]


def test_runs_before_the_time_asked_for_are_left_out(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    sql_stores.make(lease, one_off(lease.now - SECOND), kept := one_off(lease.now))
    assert sql_stores.database is not None
    with read_history(sql_stores.database, since=lease.now) as history:
        assert [run.run_id for run in history.runs] == [kept.run_id]


def test_what_is_written_meanwhile_does_not_show_up(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    sql_stores.make(lease, before := one_off(lease.now))
    assert sql_stores.database is not None
    with read_history(sql_stores.database) as history:
        beside = sql_stores.beside()
        beside.make(lease, one_off(lease.now))
        assert [run.run_id for run in history.runs] == [before.run_id]
    sql_stores.close_beside()


def test_a_row_that_was_tampered_with_is_found(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    (run,) = sql_stores.dispatched(lease, one_off(lease.now))
    assert sql_stores.database is not None
    with sql_stores.database.write() as connection:
        connection.execute(text("UPDATE runs SET pending_at = NULL"))
    with read_history(sql_stores.database) as history:
        found = list(violations(history))
    assert [(finding.rule, finding.subject) for finding in found] == [(Rule.CONTRADICTION, run.run_id)]


def started(run_id: str, at: int) -> Transition:
    return Transition(run_id, 1, Event.START, RunState.RUNNING, at, worker="w")
