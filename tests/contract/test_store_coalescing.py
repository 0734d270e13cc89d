"""LeaderStore.apply of skips that fold: the row goes for a gap, or stays where anybody meddled with it."""

from itinerary.protocol.errors import NotFound
from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.model import MissedRange, NewRun
from scheduler_service.core.run_state import Event, RunState
from tests.support.store_bed import StoreBed, a_job, occurrence, release

WHY = "overlap skip: job_first is not final"


def coalescing(run: NewRun, at: Instant, since: Instant | None = None) -> Transition:
    start = run.scheduled_at if since is None else since
    missed_range = MissedRange("job", start, run.scheduled_at + 1, 1, WHY)
    return Transition(run.run_id, 1, Event.SKIP, RunState.SKIPPED, at, reason=WHY, coalesce=missed_range)


def is_there(bed: StoreBed, run: NewRun) -> bool:
    try:
        bed.runs.get(run.run_id)
    except NotFound:
        return False
    return True


def test_skips_that_follow_on_each_other_leave_one_gap_for_all_their_rows(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    runs = bed.make(lease, *(occurrence(job, lease.now + n * SECOND) for n in range(5)))
    chain = [coalescing(run, lease.now, n and runs[n - 1].scheduled_at + 1) for n, run in enumerate(runs)]
    chain[0] = coalescing(runs[0], lease.now)
    for batch in (chain[:1], chain[1:4], chain[1:4], chain[4:]):  # one comes twice: its reply was lost
        again = batch is not chain[:1] and not is_there(bed, runs[chain.index(batch[0])])
        refused = bed.leader.apply(lease, Apply(tuple(batch)))
        assert refused == (tuple(t.run_id for t in batch) if again else ())
    assert not any(is_there(bed, run) for run in runs)
    assert bed.history.missed_ranges_of("job", 9) == [MissedRange("job", lease.now, lease.now + 4 * SECOND + 1, 5, WHY)]


def test_a_skip_lies_in_its_gap_though_another_gap_lies_around_it(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    first, inner, last = bed.make(lease, *(occurrence(job, lease.now + n * SECOND) for n in range(3)))
    wide = coalescing(last, lease.now, first.scheduled_at + 1)
    assert bed.leader.apply(lease, Apply((coalescing(first, lease.now), wide))) == ()
    assert bed.leader.apply(lease, Apply((coalescing(inner, lease.now),))) == ()
    assert sum(missed_range.count for missed_range in bed.history.missed_ranges_of("job", 9)) == 3


def test_what_was_changed_cancelled_or_released_meanwhile_keeps_its_row(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    dispatched, unwanted, edited = bed.make(lease, *(occurrence(job, lease.now + n) for n in range(-2, 1)))
    bed.leader.dispatch_runs(lease, [release(dispatched)], lease.now)
    bed.runs.request_cancel(unwanted.run_id)
    assert bed.leader.apply(lease, Apply((coalescing(dispatched, lease.now),))) == (dispatched.run_id,)
    bed.leader.apply(lease, Apply((coalescing(unwanted, lease.now),)))
    bed.jobs.replace(a_job("job", title="new"), None)
    assert bed.leader.apply(lease, Apply((coalescing(edited, lease.now),))) == ()
    assert bed.runs.get(dispatched.run_id).state is RunState.PENDING
    assert bed.runs.get(unwanted.run_id).state in (RunState.SKIPPED, RunState.CANCELLED)
    kept = bed.runs.get(edited.run_id)
    assert (kept.state, kept.reason) == (RunState.SKIPPED, WHY)
    assert bed.history.missed_ranges_of("job", 9) == []


def test_what_was_recalled_keeps_its_row(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, occurrence(bed.planned_job(lease), lease.now))
    bed.leader.apply(lease, Apply((Transition(run.run_id, 1, Event.RECALL, RunState.SCHEDULED, lease.now),)))
    assert bed.leader.apply(lease, Apply((coalescing(run, lease.now),))) == ()
    assert bed.runs.get(run.run_id).state is RunState.SKIPPED


def test_skips_are_not_among_what_was_left_out_against_a_jobs_will(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.make(lease, occurrence(bed.planned_job(lease), lease.now))
    bed.leader.apply(lease, Apply((coalescing(run, lease.now),)))
    assert bed.history.missed_ranges(lease.now, 9) == []
