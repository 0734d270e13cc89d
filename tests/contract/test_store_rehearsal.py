"""A standby's rehearsal: it changes nothing and leaves the lease to who has it."""

from tests.support.store_bed import StoreBed, one_off, release


def test_a_rehearsal_beside_a_leader_changes_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    (due,) = bed.make(lease, one_off(lease.now))
    before = bed.leader.read_runs([due.run_id])
    bed.leader.rehearse()
    assert bed.leader.read_runs([due.run_id]) == before
    assert len(bed.leader.dispatch_runs(lease, [release(due)], lease.now).dispatched) == 1
