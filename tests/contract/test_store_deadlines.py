"""Start deadlines in the stores: by the database's clock, found by an index, ended from where the table allows it."""

import pytest
from sqlalchemy import text

from itinerary.protocol.instants import HOUR, MINUTE, SECOND
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.leader.planning import new_occurrence
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.sql.leader.reads import expired
from tests.support.store_bed import StoreBed, one_off, release


def test_a_deadline_counts_from_when_the_run_is_due(bed: StoreBed) -> None:
    lease = bed.lead()
    later, now, without = one_off(lease.now + MINUTE, start_within=SECOND), one_off(0, start_within=SECOND), one_off(0)
    kept = [run for run, _ in bed.runs.enqueue([later, now, without])]
    assert kept[0].start_by == lease.now + MINUTE + SECOND
    assert kept[1].start_by == kept[1].due_at + SECOND
    assert kept[2].start_by is None
    assert [run.start_by for run in bed.leader.read_runs([run.run_id for run in kept])] == [
        run.start_by for run in kept
    ]


def test_waiting_runs_beyond_their_deadline_are_found_a_part_at_a_time(bed: StoreBed) -> None:
    lease = bed.lead()
    late = [one_off(lease.now + n, start_within=MINUTE) for n in range(5)]
    sent = one_off(lease.now, start_within=MINUTE)
    bed.dispatched(lease, sent)
    others = [one_off(lease.now), one_off(lease.now, start_within=HOUR)]
    bed.runs.enqueue([*late, *others])
    until, place, found = lease.now + 2 * MINUTE, None, []
    for _ in range(4):
        read = bed.leader.expired_runs(until, 2, place)
        found += [run.run_id for run in read.runs]
        place = read.after
        if place is None:
            break
    assert found == [run.run_id for run in late]


@pytest.mark.parametrize("state", [RunState.SCHEDULED, RunState.PENDING])
def test_a_run_that_waits_or_is_out_is_ended_as_missed(bed: StoreBed, state: RunState) -> None:
    lease = bed.lead()
    run = one_off(lease.now, start_within=SECOND)
    if state is RunState.PENDING:
        bed.dispatched(lease, run)
    else:
        bed.make(lease, run)
    change = Transition(run.run_id, 1, Event.EXPIRE, RunState.MISSED, lease.now, reason="start_within: not started")
    assert bed.leader.apply(lease, Apply((change,))) == ()
    assert bed.leader.apply(lease, Apply((change,))) == (run.run_id,)
    kept = bed.runs.get(run.run_id)
    assert (kept.state, kept.reason, kept.finished_at) == (RunState.MISSED, "start_within: not started", lease.now)
    assert bed.leader.dispatch_runs(lease, [release(run)], lease.now).refused == (run.run_id,)


def test_a_run_that_started_or_waits_for_its_next_attempt_is_not_ended_so(bed: StoreBed) -> None:
    lease = bed.lead()
    running, retrying = bed.dispatched(lease, one_off(lease.now), one_off(lease.now))
    began = Transition(running.run_id, 1, Event.START, RunState.RUNNING, lease.now, worker="w@h")
    again = Transition(retrying.run_id, 1, Event.FAIL, RunState.RETRYING, lease.now, due_at=lease.now, error={})
    bed.leader.apply(lease, Apply((began, again)))
    ends = [
        Transition(run_id, attempt, Event.EXPIRE, RunState.MISSED, lease.now)
        for run_id, attempt in ((running.run_id, 1), (retrying.run_id, 2))
    ]
    assert set(bed.leader.apply(lease, Apply(tuple(ends)))) == {running.run_id, retrying.run_id}


def test_an_occurrence_has_the_deadline_of_its_job(bed: StoreBed) -> None:
    lease = bed.lead()
    run = new_occurrence(bed.planned_job(lease, start_within="1m"), lease.now, lease.now, 0)
    bed.make(lease, run)
    assert bed.runs.get(run.run_id).start_by == lease.now + MINUTE


@pytest.mark.postgres
def test_the_look_walks_its_own_small_index(postgres_stores: StoreBed) -> None:
    assert postgres_stores.database is not None
    lease = postgres_stores.lead()
    postgres_stores.runs.enqueue([one_off(lease.now) for _ in range(500)])
    postgres_stores.runs.enqueue([one_off(lease.now, start_within=MINUTE)])
    with postgres_stores.database.write() as connection:
        connection.execute(text("ANALYZE runs"))
        found, _ = expired(connection, lease.now + HOUR, 10, None)
        sql = "SELECT id FROM runs WHERE start_by IS NOT NULL AND standing = 'scheduled' AND start_by < now() LIMIT 9"
        plan = "\n".join(connection.execute(text(f"EXPLAIN {sql}")).scalars())
    assert len(found) == 1
    assert "ix_runs_start_by" in plan
