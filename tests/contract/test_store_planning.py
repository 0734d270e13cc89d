"""LeaderStore.make_runs and what the leader reads: planning done twice is planning done once."""

from dataclasses import replace

import pytest

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import DAY, HOUR, SECOND
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.leader.commands import Apply, CreateRuns, Retract, Transition
from scheduler_service.core.model import MissedRange, Overlap, RunKind
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.sql.pruning import SqlPruning
from tests.support.store_bed import StoreBed, a_job, occurrence, one_off, release


def test_a_made_run_is_scheduled_with_all_that_it_was_made_with(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    made = occurrence(
        job, lease.now, queue="reports", priority=3, retry=RetryPolicy(max_attempts=4, factor=1.5), timeout=5 * SECOND,
        overlap=Overlap.QUEUE, args=[1], kwargs={"a": [None]},
    )  # fmt: skip
    made = replace(made, due_at=lease.now + 3)
    bed.make(lease, made)
    (kept,) = bed.leader.read_runs([made.run_id])
    assert (kept.kind, kept.job_id, kept.job_version, kept.queue, kept.priority) == (
        made.kind, "job", 1, "reports", 3,
    )  # fmt: skip
    assert (kept.scheduled_at, kept.due_at, kept.state, kept.attempt) == (
        lease.now, lease.now + 3, RunState.SCHEDULED, 1,
    )  # fmt: skip
    assert (kept.retry, kept.timeout, kept.overlap, kept.seq) == (made.retry, 5 * SECOND, Overlap.QUEUE, 0)
    assert (bed.runs.get(made.run_id).args, bed.runs.get(made.run_id).kwargs) == ([1], {"a": [None]})


def test_runs_that_are_there_are_left_alone_and_named(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    old, new = occurrence(job, lease.now), occurrence(job, lease.now + HOUR)
    bed.make(lease, old)
    other = replace(old, task="another.task")
    assert bed.leader.create_runs(lease, CreateRuns((other, new), cursor=lease.now)) == (old.run_id,)
    assert bed.runs.get(old.run_id).task == "pkg.task"
    assert bed.runs.get(new.run_id).state is RunState.SCHEDULED


def test_an_occurrence_is_made_once_whatever_its_id(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    bed.make(lease, occurrence(job, lease.now))
    again = replace(occurrence(job, lease.now), run_id="job_by_another_name")
    assert bed.leader.create_runs(lease, CreateRuns((again,), cursor=lease.now)) == (again.run_id,)


def test_manual_runs_of_one_job_may_share_an_instant(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    bed.make(lease, occurrence(job, lease.now), *(one_off(lease.now, job_id="job", job_version=1) for _ in range(2)))


def test_an_edit_retracts_occurrences_of_older_versions_from_its_instant_on_that_are_still_scheduled(
    bed: StoreBed,
) -> None:
    lease = bed.lead()
    job, other = bed.planned_job(lease), bed.planned_job(lease, "other")
    newer = replace(job, version=2)
    start = lease.now + HOUR
    before, pending, at, later = (occurrence(job, start + n) for n in (-1, 0, 1, HOUR))
    manual = one_off(start, job_id="job", job_version=1)
    kept = [before, pending, manual, occurrence(newer, start + 2), occurrence(other, start)]
    bed.make(lease, *kept, at, later)
    assert bed.leader.dispatch_runs(lease, [release(pending)], start).dispatched
    bed.leader.create_runs(lease, CreateRuns((), cursor=lease.now, retracts=(Retract("job", 2, start),)))
    left = {
        run.run_id for run in bed.leader.read_runs([r.run_id for r in (*kept, at, later, occurrence(other, start))])
    }
    assert left == {*(run.run_id for run in kept), occurrence(other, start).run_id}


def test_an_occurrence_can_be_retracted_and_made_anew_in_one_transaction(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    bed.make(lease, occurrence(job, lease.now))
    anew = occurrence(replace(job, version=2), lease.now)
    assert bed.leader.create_runs(lease, CreateRuns((anew,), lease.now, (Retract("job", 2, lease.now),))) == ()
    assert bed.leader.read_runs([anew.run_id])[0].job_version == 2


def test_an_edit_takes_back_missed_ranges_that_begin_in_its_time_and_its_repetition_none(bed: StoreBed) -> None:
    """Who judged them did not know of the edit: it is planned anew from its instant on."""
    lease = bed.lead()
    bed.planned_job(lease), bed.planned_job(lease, "other")
    bed.jobs.replace(a_job(title="new"), None)
    start = lease.now + HOUR
    at = (start - 2, start, start + HOUR)
    missed = tuple(MissedRange(job, n, n + 1, 1, "late") for job in ("job", "other") for n in at)
    bed.leader.create_runs(lease, CreateRuns((), lease.now, missed_ranges=missed))
    edit = CreateRuns(
        (), lease.now, (Retract("job", 2, start),), (MissedRange("job", start, start + 5, 2, "late"),), (("job", 2),)
    )
    bed.leader.create_runs(lease, edit)
    others = [("other", n) for n in at]
    assert _ranges(bed) == [("job", start - 2), ("job", start), *others]
    since = MissedRange("job", start + HOUR, start + HOUR + 1, 1, "overlap")
    bed.leader.create_runs(lease, CreateRuns((), lease.now, missed_ranges=(since,)))
    bed.leader.create_runs(lease, edit)
    assert _ranges(bed) == [("job", start - 2), ("job", start), ("job", start + HOUR), *others]


def _ranges(bed: StoreBed) -> list[tuple[str, int]]:
    return sorted((job, one.start) for job in ("job", "other") for one in bed.history.missed_ranges_of(job, 9))


def test_an_occurrence_that_was_recalled_is_not_retracted(bed: StoreBed) -> None:
    """Made anew, it could start by the message that still lies in its queue."""
    lease = bed.lead()
    run = occurrence(bed.planned_job(lease), lease.now)
    bed.dispatched(lease, run)
    recalled = Transition(run.run_id, 1, Event.RECALL, RunState.SCHEDULED, lease.now)
    assert bed.leader.apply(lease, Apply((recalled,))) == ()
    bed.leader.create_runs(lease, CreateRuns((), cursor=lease.now, retracts=(Retract("job", 2, lease.now),)))
    assert bed.leader.read_runs([run.run_id])[0].state is RunState.SCHEDULED


def test_an_occurrence_that_somebody_asked_to_cancel_is_not_retracted(bed: StoreBed) -> None:
    lease = bed.lead()
    run = occurrence(bed.planned_job(lease), lease.now)
    bed.make(lease, run)
    bed.runs.request_cancel(run.run_id)
    bed.leader.create_runs(lease, CreateRuns((), cursor=lease.now, retracts=(Retract("job", 2, lease.now),)))
    assert bed.leader.read_runs([run.run_id])[0].cancel_requested


def test_a_version_is_marked_as_planned_though_a_later_one_is_there_and_never_takes_that_mark_back(
    bed: StoreBed,
) -> None:
    # Not marked, it would be planned again by the next leader, and what is late of it would be a gap beside its row.
    lease = bed.lead()
    for name in ("edited", "same"):
        bed.jobs.create(a_job(name))
    assert sorted(bed.leader.unplanned_jobs(10)) == ["edited", "same"]
    assert len(bed.leader.unplanned_jobs(1)) == 1

    def marks(*planned: tuple[str, int]) -> list[int]:
        bed.leader.create_runs(lease, CreateRuns((), lease.now, planned=planned))
        found = bed.leader.histories_of(["edited", "same"], None)
        return [history.planned_version for history in sorted(found, key=lambda history: history.job_id)]

    bed.jobs.replace(a_job("edited", title="new"), None)
    assert marks(("edited", 1), ("same", 1), ("nobody", 1)) == [1, 1]
    assert bed.leader.unplanned_jobs(10) == ["edited"]
    assert marks(("edited", 2), ("same", 2)) == [2, 1]
    assert marks(("edited", 1)) == [2, 1]
    assert bed.leader.unplanned_jobs(10) == []


def test_the_cursor_is_kept_and_never_goes_back(bed: StoreBed) -> None:
    lease = bed.lead()
    assert bed.leader.cursor(lease).materialised_until is None
    for cursor in (lease.now + 5, lease.now):
        bed.leader.create_runs(lease, CreateRuns((), cursor=cursor))
        assert bed.leader.cursor(lease).materialised_until == lease.now + 5


def test_what_is_made_without_the_cursor_leaves_it_where_it_is(bed: StoreBed) -> None:
    lease = bed.lead()
    run = occurrence(bed.planned_job(lease), lease.now + HOUR)
    before = bed.leader.cursor(lease)
    assert bed.leader.create_runs(lease, CreateRuns((run,), cursor=None)) == ()
    assert bed.leader.cursor(lease) == before


def test_the_cursor_goes_back_where_that_is_asked_for(bed: StoreBed) -> None:
    lease = bed.lead()
    bed.leader.create_runs(lease, CreateRuns((), cursor=lease.now + HOUR))
    bed.leader.create_runs(lease, CreateRuns((), cursor=lease.now, set_back=True))
    assert bed.leader.cursor(lease).materialised_until == lease.now


def test_what_was_pruned_by_a_clock_ahead_ends_where_the_cursor_is_set_back(sql_stores: StoreBed) -> None:
    assert sql_stores.database is not None
    lease, store = sql_stores.lead(), SqlPruning(sql_stores.database)
    for cursor, pruned_until in ((lease.now, lease.now), (lease.now + HOUR, lease.now + 1)):
        sql_stores.leader.create_runs(lease, CreateRuns((), cursor=lease.now + DAY))
        store.begin(lease, lease.now + 1)
        sql_stores.leader.create_runs(lease, CreateRuns((), cursor=cursor, set_back=True))
        assert store.last_sweep().pruned_until == pruned_until


def test_a_lease_that_is_over_plans_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.jobs.create(a_job())
    run = occurrence(job, lease.now)
    successor = bed.take_over(lease)
    with pytest.raises(LeaseLost):
        bed.leader.create_runs(lease, CreateRuns((run,), lease.now, planned=(("job", 1),)))
    with pytest.raises(LeaseLost):
        bed.leader.cursor(lease)
    assert bed.leader.read_runs([run.run_id]) == []
    assert bed.leader.unplanned_jobs(10) == ["job"]
    assert bed.leader.cursor(successor).materialised_until is None


def test_a_run_whose_row_is_refused_keeps_no_other_out(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    runs = [occurrence(job, lease.now + n) for n in range(7)]
    bad = replace(runs[3], queue="\udc80")
    batch = CreateRuns((*runs[:3], bad, *runs[4:]), lease.now)
    assert bed.leader.create_runs(lease, batch) == (bad.run_id,)
    assert len(bed.leader.read_runs([run.run_id for run in runs])) == 6


def test_gaps_do_not_disturb_what_is_made_with_them(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    missed_ranges = (MissedRange("job", 0, 10, 3, "misfire"), MissedRange("job", 10, 20, 3, "misfire"))
    assert (
        bed.leader.create_runs(lease, CreateRuns((occurrence(job, lease.now),), lease.now, missed_ranges=missed_ranges))
        == ()
    )


def test_due_runs_come_queue_by_queue_most_urgent_first_up_to_the_limit_of_each(bed: StoreBed) -> None:
    lease = bed.lead()
    now = lease.now
    late, soon, urgent, slow = (
        one_off(now), one_off(now - 5), one_off(now + 1, priority=0), one_off(now, queue="slow", priority=9),
    )  # fmt: skip
    bed.make(lease, late, soon, urgent, slow, one_off(now + 2), one_off(now + DAY, queue="future"))

    def due(limit: int) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for run in bed.leader.due_runs(now + 2, limit):
            found.setdefault(run.queue, []).append(run.run_id)
        return found

    assert due(10) == {"default": [urgent.run_id, soon.run_id, late.run_id], "slow": [slow.run_id]}
    assert due(2) == {"default": [urgent.run_id, soon.run_id], "slow": [slow.run_id]}


def test_due_runs_are_scheduled_or_retrying(bed: StoreBed) -> None:
    lease = bed.lead()
    out, retrying = bed.dispatched(lease, one_off(lease.now), one_off(lease.now))
    again = Transition(retrying.run_id, 1, Event.FAIL, RunState.RETRYING, lease.now, due_at=lease.now)
    bed.leader.apply(lease, Apply((again,)))
    (run,) = bed.leader.due_runs(lease.now + 1, 10)
    assert (run.run_id, run.state, run.attempt) == (retrying.run_id, RunState.RETRYING, 2)
    assert out.run_id != run.run_id


def test_due_runs_that_were_asked_for_are_found_apart_from_planned_ones(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    asked, _, _ = bed.make(lease, one_off(lease.now), occurrence(job, lease.now), one_off(lease.now + DAY))
    assert [run.run_id for run in bed.leader.due_runs(lease.now + 1, 10)] == [asked.run_id]


def test_overdue_runs_are_walked_through_a_page_at_a_time_by_queue_priority_and_time(bed: StoreBed) -> None:
    lease = bed.lead()
    now = lease.now
    job, *others = (bed.planned_job(lease, f"job{number}") for number in range(4))
    same = [occurrence(other, now - 9) for other in others]
    turns = [
        occurrence(job, now - 1, queue="a", priority=9), occurrence(job, now, priority=0), occurrence(job, now - 20),
        *same, occurrence(job, now - 8), occurrence(job, now - 30, priority=7),
        occurrence(job, now - 40, queue="z", priority=2),
    ]  # fmt: skip
    later = (occurrence(job, now + 2), occurrence(job, now + DAY, queue="future"))
    bed.make(lease, *reversed(turns), *later, one_off(now - 2), one_off(now - 3, queue="m"))
    # Those that are equal come by the number of their row.
    turns[3:6] = turns[3:6][::-1]

    def walk(limit: int) -> list[list[str]]:
        pages, after = [], None
        while True:
            page = bed.leader.overdue_runs(now + 1, limit, after)
            pages.append([run.run_id for run in page.runs])
            if page.after is None:
                return pages
            after = page.after

    wanted = [run.run_id for run in turns]
    for limit in (1, 2, 4, 9, 10):
        pages = walk(limit)
        assert [run_id for page in pages for run_id in page] == wanted
        assert all(len(page) == limit for page in pages[:-1])
    assert bed.leader.overdue_runs(now - DAY, 10, None).after is None


def test_a_walk_goes_on_though_the_place_where_it_stopped_is_no_more(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    first, second = occurrence(job, lease.now - 2, queue="a"), occurrence(job, lease.now - 1, queue="b")
    bed.make(lease, first, second)
    page = bed.leader.overdue_runs(lease.now, 1, None)
    bed.leader.dispatch_runs(lease, [release(first)], lease.now)
    assert [run.run_id for run in bed.leader.overdue_runs(lease.now, 1, page.after).runs] == [second.run_id]


def test_active_runs_are_those_in_flight_and_those_of_schedules(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    pending, running, done = bed.dispatched(lease, *(one_off(lease.now) for _ in range(3)))
    (planned,) = bed.make(lease, occurrence(job, lease.now + DAY))
    bed.make(lease, one_off(lease.now - DAY), one_off(lease.now), one_off(lease.now + DAY))
    bed.leader.apply(
        lease,
        Apply(
            (
                Transition(running.run_id, 1, Event.START, RunState.RUNNING, lease.now, worker="w@h"),
                Transition(done.run_id, 1, Event.SUCCEED, RunState.COMPLETED, lease.now),
            )
        ),
    )
    active = bed.leader.active_runs()
    assert sorted(run.run_id for run in active) == sorted(r.run_id for r in (pending, running, planned))
    (started,) = [run for run in active if run.state is RunState.RUNNING]
    assert (started.worker, started.started_at, started.pending_at) == ("w@h", lease.now, lease.now + 1)


def test_active_runs_have_a_job_s_manual_run_that_waits_long_for_its_next_attempt(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    manual = replace(occurrence(job, lease.now), run_id="job_manual-1", kind=RunKind.MANUAL)
    bed.dispatched(lease, manual)
    again = Transition(manual.run_id, 1, Event.FAIL, RunState.RETRYING, lease.now, due_at=lease.now + HOUR)
    bed.leader.apply(lease, Apply((again,)))
    assert [run.run_id for run in bed.leader.active_runs()] == [manual.run_id]


def test_read_runs_leaves_unknown_ids_out_and_brings_final_runs(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((Transition(run.run_id, 1, Event.SUCCEED, RunState.COMPLETED, lease.now),)))
    (found,) = bed.leader.read_runs(["nobody", run.run_id])
    assert found.state is RunState.COMPLETED
    assert bed.leader.read_runs([]) == []


def test_cancel_requests_are_of_runs_that_are_out(bed: StoreBed) -> None:
    lease = bed.lead()
    pending, running, wanted = bed.dispatched(lease, *(one_off(lease.now) for _ in range(3)))
    (waiting,) = bed.make(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((Transition(running.run_id, 1, Event.START, RunState.RUNNING, lease.now),)))
    for run in (pending, running, waiting):
        bed.runs.request_cancel(run.run_id)
    asked = bed.leader.cancel_requests(10, None)
    assert [run.run_id for run in asked.runs] == [pending.run_id, running.run_id]
    assert asked.after is None
    assert all(run.cancel_requested for run in asked.runs)
    first = bed.leader.cancel_requests(1, None)
    second = bed.leader.cancel_requests(1, first.after)
    assert [*first.runs, *second.runs] == list(asked.runs)
    assert bed.leader.cancel_requests(1, second.after).runs == ()
    assert not bed.leader.read_runs([wanted.run_id])[0].cancel_requested
