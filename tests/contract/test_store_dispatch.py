"""LeaderStore.move_runs and renew_publish: a run is released once, and only while everything still allows it."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import DAY, HOUR, SECOND
from scheduler_service.core.leader.commands import Apply, CreateRuns, Dispatch, PublishedMark, Transition
from scheduler_service.core.model import RunKind
from scheduler_service.core.run_state import Event, RunState
from tests.support.store_bed import StoreBed, a_job, occurrence, one_off, release, sql_bed


def state_of(bed: StoreBed, run_id: str) -> RunState:
    return bed.runs.get(run_id).state


def test_a_due_run_moves_to_pending_with_its_seq_and_term(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.make(lease, one_off(lease.now, args=[1, "two"], kwargs={"three": 3.0}, timeout=SECOND, priority=2))
    (moved,) = bed.leader.dispatch_runs(lease, [Dispatch(run.run_id, 1, 41)], lease.now + 7).dispatched
    assert (moved.run_id, moved.attempt, moved.seq, moved.term) == (run.run_id, 1, 41, lease.term)
    assert (moved.task, moved.args, moved.kwargs) == ("pkg.task", [1, "two"], {"three": 3.0})
    assert (moved.queue, moved.priority, moved.timeout, moved.retries) == ("default", 2, SECOND, 0)
    assert (moved.scheduled_at, moved.due_at) == (run.scheduled_at, run.due_at)
    kept = bed.runs.get(run.run_id)
    assert (kept.state, kept.pending_at, kept.term) == (RunState.PENDING, lease.now + 7, lease.term)
    assert bed.leader.read_runs([run.run_id])[0].seq == 41


def test_released_runs_come_back_in_the_order_asked_for(bed: StoreBed) -> None:
    lease = bed.lead()
    runs = bed.make(lease, *(one_off(lease.now) for _ in range(20)))
    asked = [release(run) for run in reversed(runs)]
    assert [run.run_id for run in bed.leader.dispatch_runs(lease, asked, lease.now).dispatched] == [
        r.run_id for r in asked
    ]


def test_a_run_that_is_not_yet_due_stays(bed: StoreBed) -> None:
    lease = bed.lead()
    now, later = bed.make(lease, one_off(lease.now), one_off(lease.now + 1))
    moved = bed.leader.dispatch_runs(lease, [release(now), release(later)], lease.now)
    assert [run.run_id for run in moved.dispatched] == [now.run_id]
    assert moved.refused == (later.run_id,)
    assert state_of(bed, later.run_id) is RunState.SCHEDULED


def test_five_one_offs_one_due_now_three_passes_release_one_once_and_leave_four(bed: StoreBed) -> None:
    lease = bed.lead()
    due = one_off(lease.now)
    runs = bed.make(lease, due, *(one_off(lease.now + HOUR * n) for n in range(1, 5)))
    passes = [bed.leader.dispatch_runs(lease, [release(run) for run in runs], lease.now) for _ in range(3)]
    assert [[run.run_id for run in moved.dispatched] for moved in passes] == [[due.run_id], [], []]
    assert [state_of(bed, run.run_id) for run in runs] == [RunState.PENDING, *[RunState.SCHEDULED] * 4]


def test_an_unknown_run_is_refused(bed: StoreBed) -> None:
    lease = bed.lead()
    assert bed.leader.dispatch_runs(lease, [Dispatch("nobody", 1, 1)], lease.now).refused == ("nobody",)


def test_nothing_asked_moves_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    moved = bed.leader.dispatch_runs(lease, [], lease.now)
    assert (moved.dispatched, moved.refused) == ((), ())


def test_a_release_of_another_attempt_is_refused(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.make(lease, one_off(lease.now))
    assert bed.leader.dispatch_runs(lease, [release(run, attempt=2)], lease.now).refused == (run.run_id,)


def test_a_run_whose_cancel_was_requested_is_refused(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.make(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((), cancels=(run.run_id,)))
    assert bed.leader.dispatch_runs(lease, [release(run)], lease.now).refused == (run.run_id,)


@pytest.mark.parametrize("event", [Event.SKIP, Event.MISS, Event.CANCEL])
def test_a_run_that_ended_before_its_release_is_refused(bed: StoreBed, event: Event) -> None:
    lease = bed.lead()
    (run,) = bed.make(lease, one_off(lease.now))
    ends = {Event.SKIP: RunState.SKIPPED, Event.MISS: RunState.MISSED, Event.CANCEL: RunState.CANCELLED}
    bed.leader.apply(lease, Apply((Transition(run.run_id, 1, event, ends[event], lease.now),)))
    assert bed.leader.dispatch_runs(lease, [release(run)], lease.now).refused == (run.run_id,)


def test_a_retrying_run_is_released_as_its_next_attempt_with_its_retries_and_new_arguments(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now, traceparent="00-trace"))
    asked = Transition(
        run.run_id, 1, Event.RETRY, RunState.RETRYING, lease.now, due_at=lease.now + 5, reason="asked",
        args=["new"], kwargs={"k": None},
    )  # fmt: skip
    bed.leader.apply(lease, Apply((asked,)))
    assert bed.leader.dispatch_runs(lease, [release(run, 2, 9)], lease.now + 4).refused == (run.run_id,)
    (moved,) = bed.leader.dispatch_runs(lease, [release(run, 2, 9)], lease.now + 5).dispatched
    assert (moved.attempt, moved.retries, moved.args, moved.kwargs) == (2, 1, ["new"], {"k": None})
    assert moved.traceparent == bed.runs.get(run.run_id).traceparent == "00-trace"
    assert bed.runs.get(run.run_id).reason is None


def test_a_run_of_a_planned_job_is_released(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    (run,) = bed.make(lease, occurrence(job, lease.now))
    assert len(bed.leader.dispatch_runs(lease, [release(run)], lease.now).dispatched) == 1


def test_a_run_of_a_job_that_was_edited_since_it_was_planned_is_refused(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    (run,) = bed.make(lease, occurrence(job, lease.now))
    edited, _ = bed.jobs.replace(a_job(title="edited"), None)
    assert bed.leader.dispatch_runs(lease, [release(run)], lease.now).refused == (run.run_id,)
    bed.leader.create_runs(lease, CreateRuns((), cursor=lease.now, planned=((job.job_id, edited.version),)))
    assert len(bed.leader.dispatch_runs(lease, [release(run)], lease.now).dispatched) == 1


def test_a_run_of_a_deleted_job_is_refused(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    (run,) = bed.make(lease, occurrence(job, lease.now))
    bed.jobs.delete(job.job_id, None)
    bed.leader.create_runs(lease, CreateRuns((), cursor=lease.now, planned=((job.job_id, 2),)))
    assert bed.leader.dispatch_runs(lease, [release(run)], lease.now).refused == (run.run_id,)


@pytest.mark.parametrize("until_is", ["none", "after", "at"])
@pytest.mark.parametrize("skips", [False, True])
def test_a_pause_holds_back_first_attempts_of_occurrences_until_its_end(
    bed: StoreBed, until_is: str, skips: bool
) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    manual = one_off(lease.now, job_id=job.job_id, job_version=1)
    runs = bed.make(lease, occurrence(job, lease.now - DAY), occurrence(job, lease.now))
    bed.runs.enqueue([manual])
    until = {"none": None, "after": lease.now + 1, "at": lease.now}[until_is]
    paused = bed.jobs.set_paused(job.job_id, True, "tests", until, skips=skips)
    bed.leader.create_runs(lease, CreateRuns((), cursor=lease.now, planned=((job.job_id, paused.version),)))
    asked = [release(run) for run in (*runs, manual)]
    moved = {run.run_id for run in bed.leader.dispatch_runs(lease, asked, lease.now).dispatched}
    go_on = runs[1:] if skips else runs  # what waited before the pause goes on after it, unless it is skipped
    assert moved == {manual.run_id, *(run.run_id for run in go_on if until_is == "at")}


def test_a_retry_of_an_occurrence_goes_on_through_a_pause(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    (run,) = bed.dispatched(lease, occurrence(job, lease.now))
    failed = Transition(run.run_id, 1, Event.FAIL, RunState.RETRYING, lease.now, due_at=lease.now)
    bed.leader.apply(lease, Apply((failed,)))
    paused = bed.jobs.set_paused(job.job_id, True, None, None)
    bed.leader.create_runs(lease, CreateRuns((), cursor=lease.now, planned=((job.job_id, paused.version),)))
    assert len(bed.leader.dispatch_runs(lease, [release(run, 2)], lease.now).dispatched) == 1


@pytest.mark.parametrize("movers", [2, 8])
def test_concurrent_movers_release_every_run_exactly_once(bed: StoreBed, movers: int) -> None:
    lease = bed.lead()
    runs = bed.make(lease, *(one_off(lease.now) for _ in range(400)))
    beds = [bed.beside() for _ in range(movers)]
    together = threading.Barrier(movers)

    def dispatch_all(number: int) -> list[str]:
        together.wait(60)
        dispatched: list[str] = []
        for start in range(0, len(runs), 50):
            asked = [release(run, seq=number) for run in runs[start : start + 50]]
            dispatched += [r.run_id for r in beds[number].leader.dispatch_runs(lease, asked, lease.now).dispatched]
        return dispatched

    with ThreadPoolExecutor(movers) as pool:
        counts = Counter(run_id for dispatched in pool.map(dispatch_all, range(movers)) for run_id in dispatched)
    assert counts == Counter(run.run_id for run in runs)


def test_a_lease_that_is_over_moves_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.make(lease, one_off(lease.now))
    bed.take_over(lease)
    with pytest.raises(LeaseLost):
        bed.leader.dispatch_runs(lease, [release(run)], lease.now)
    assert state_of(bed, run.run_id) is RunState.SCHEDULED


def test_renew_publish_gives_a_pending_run_a_new_seq_and_forgets_the_old_publish(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((), published=(PublishedMark(run.run_id, 1, lease.now),)))
    assert bed.runs.get(run.run_id).published_at == lease.now
    (again,) = bed.leader.redispatch_runs(lease, [release(run, seq=99)]).dispatched
    assert (again.run_id, again.attempt, again.seq, again.task) == (run.run_id, 1, 99, "pkg.task")
    (kept,) = bed.leader.read_runs([run.run_id])
    assert (kept.state, kept.seq, kept.published_at) == (RunState.PENDING, 99, None)


def test_renew_publish_leaves_runs_that_are_not_pending_unwanted_or_of_another_attempt(bed: StoreBed) -> None:
    lease = bed.lead()
    started, unwanted, other = bed.dispatched(lease, *(one_off(lease.now) for _ in range(3)))
    (waiting,) = bed.make(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((Transition(started.run_id, 1, Event.START, RunState.RUNNING, lease.now),)))
    bed.runs.request_cancel(unwanted.run_id)
    asked = [release(started), release(unwanted), release(other, attempt=2), release(waiting)]
    renewed = bed.leader.redispatch_runs(lease, asked)
    assert renewed.dispatched == ()
    assert renewed.refused == tuple(order.run_id for order in asked)


@pytest.mark.postgres
def test_renew_publish_does_not_wait_for_a_run_that_another_has_locked(emptied_postgres_url: str) -> None:
    with sql_bed(emptied_postgres_url) as bed:
        lease = bed.lead()
        locked, free = bed.dispatched(lease, one_off(lease.now), one_off(lease.now))
        assert bed.database is not None
        with bed.database.write() as connection:
            connection.execute(text(f"SELECT 1 FROM runs WHERE run_id = '{locked.run_id}' FOR NO KEY UPDATE"))
            renewed = bed.leader.redispatch_runs(lease, [release(locked, seq=98), release(free, seq=99)])
    assert [run.run_id for run in renewed.dispatched] == [free.run_id]
    assert renewed.refused == (locked.run_id,)


def test_a_lease_that_is_over_renews_no_publish(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.take_over(lease)
    with pytest.raises(LeaseLost):
        bed.leader.redispatch_runs(lease, [release(run, seq=99)])
    assert bed.leader.read_runs([run.run_id])[0].seq == 1


def test_a_manual_run_keeps_its_own_kind(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    (run,) = bed.make(lease, one_off(lease.now, job_id=job.job_id, job_version=1))
    assert bed.leader.read_runs([run.run_id])[0].kind is RunKind.ADHOC
