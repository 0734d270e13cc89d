"""Writes that share a transaction: all of them or none, with the answers that each would have had alone."""

import pytest

from itinerary.protocol.errors import LeaseLost, RowRefused
from itinerary.protocol.instants import DAY, SECOND
from scheduler_service.core.leader.commands import Apply, CreateRuns, Transition
from scheduler_service.core.run_state import Event, RunState
from tests.support.store_bed import StoreBed, occurrence, one_off, release


@pytest.mark.parametrize("by_controls", [False, True])
def test_what_is_written_together_is_there_afterwards_and_answered_as_alone(bed: StoreBed, by_controls: bool) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    (due,) = bed.make(lease, one_off(lease.now))
    (out,) = bed.dispatched(lease, one_off(lease.now))
    ended = Transition(out.run_id, 1, Event.SUCCEED, RunState.COMPLETED, lease.now)
    made = occurrence(job, lease.now)
    with bed.leader.together(lease, by_controls=by_controls):
        assert bed.leader.create_runs(lease, CreateRuns((made, made), lease.now + SECOND)) == ()
        assert bed.leader.apply(lease, Apply((ended, ended), position="5-0")) == (out.run_id,)
        moved = bed.leader.dispatch_runs(lease, [release(due), release(out)], lease.now)
    assert [run.run_id for run in moved.dispatched] == [due.run_id]
    assert moved.refused == (out.run_id,)
    ids = [made.run_id, out.run_id, due.run_id]
    states = {run.run_id: run.state for run in bed.leader.read_runs(ids)}
    assert [states[run_id] for run_id in ids] == [RunState.SCHEDULED, RunState.COMPLETED, RunState.PENDING]
    assert bed.leader.cursor(lease).inbox_position == "5-0"


def test_a_row_that_is_refused_undoes_all_and_what_follows_is_written_alone_again(sql_stores: StoreBed) -> None:
    bed = sql_stores
    lease = bed.lead()
    (due, other) = bed.make(lease, one_off(lease.now), one_off(lease.now))
    (out,) = bed.dispatched(lease, one_off(lease.now))
    bad = Transition(out.run_id, 1, Event.SUCCEED, RunState.COMPLETED, lease.now, worker="\x00")

    def write() -> None:
        with bed.leader.together(lease):
            bed.leader.dispatch_runs(lease, [release(due)], lease.now)
            bed.leader.apply(lease, Apply((bad,)))

    with pytest.raises(RowRefused):
        write()
    assert {run.state for run in bed.leader.read_runs([due.run_id])} == {RunState.SCHEDULED}
    assert bed.leader.apply(lease, Apply((bad,))) == ()
    assert bed.leader.dispatch_runs(lease, [release(other)], lease.now).refused == ()


def test_a_lease_that_is_over_writes_nothing_together(bed: StoreBed) -> None:
    lease = bed.lead()
    (due,) = bed.make(lease, one_off(lease.now))
    bed.leases.resign(lease)
    assert bed.leases.acquire(0, "another", DAY) is not None
    with pytest.raises(LeaseLost), bed.leader.together(lease):
        bed.leader.dispatch_runs(lease, [release(due)], lease.now)
    assert {run.state for run in bed.leader.read_runs([due.run_id])} == {RunState.SCHEDULED}
