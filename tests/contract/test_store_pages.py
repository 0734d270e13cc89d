"""HistoryStore: bounded looks into history, the same on every store."""

from typing import Any

from itinerary.protocol.instants import SECOND
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.leader.commands import Apply, CreateRuns, Transition
from scheduler_service.core.model import MissedRange
from scheduler_service.core.run_state import ACTIVE, Event, RunState
from scheduler_service.ports.history import Relatives, Total
from scheduler_service.ports.stores import JobFilter, RunFilter
from tests.support.store_bed import StoreBed, a_job, occurrence, one_off

LONG = "x" * 500


def test_the_latest_runs_of_a_time_come_newest_first_and_no_more_than_asked_for(bed: StoreBed) -> None:
    lease = bed.lead()
    runs = bed.make(lease, *(one_off(lease.now + n * SECOND) for n in range(5)))
    found = bed.history.latest(lease.now + SECOND, lease.now + 4 * SECOND, 2)
    assert [run.run_id for run in found] == [runs[3].run_id, runs[2].run_id]
    assert [run.took for run in found] == [None, None]


def test_each_job_gets_its_own_latest_runs_and_how_long_they_took(bed: StoreBed) -> None:
    lease = bed.lead()
    jobs = [bed.planned_job(lease, f"job-{n}") for n in range(3)]
    for job in jobs[:2]:
        bed.dispatched(lease, *(occurrence(job, lease.now - n * SECOND) for n in range(3)))
    done = occurrence(jobs[0], lease.now).run_id
    start = Transition(done, 1, Event.START, RunState.RUNNING, lease.now + SECOND, worker="w")
    end = Transition(done, 1, Event.SUCCEED, RunState.COMPLETED, lease.now + 3 * SECOND, worker="w")
    assert bed.leader.apply(lease, Apply((start, end))) == ()
    found = bed.history.latest_of([job.job_id for job in jobs], lease.now + 1, 2)
    assert {name: len(runs) for name, runs in found.items()} == {"job-0": 2, "job-1": 2, "job-2": 0}
    newest = found["job-0"][0]
    assert (newest.run_id, newest.state, newest.took) == (done, RunState.COMPLETED, 2 * SECOND)


def test_more_jobs_than_one_statement_takes_are_all_answered(bed: StoreBed) -> None:
    lease = bed.lead()
    last = bed.planned_job(lease, "job-119")
    bed.make(lease, occurrence(last, lease.now))
    found = bed.history.latest_of([f"job-{n}" for n in range(120)], lease.now + 1, 5)
    assert len(found) == 120
    assert [len(found["job-0"]), len(found["job-119"])] == [0, 1]


def test_beside_a_run_are_its_jobs_neighbours_and_those_that_run_it_again(bed: StoreBed) -> None:
    lease = bed.lead()
    jobs = [bed.planned_job(lease, name) for name in ("a", "b")]
    first, second, third = bed.make(lease, *(occurrence(jobs[0], lease.now + n * SECOND) for n in range(3)))
    (other,) = bed.make(lease, occurrence(jobs[1], lease.now + SECOND))
    once = bed.make(lease, *(one_off(lease.now, retry_of=second.run_id) for _ in range(3)))
    assert bed.history.relatives(first.run_id, 9) == Relatives(None, second.run_id)
    found = bed.history.relatives(second.run_id, 2)
    assert (found.earlier, found.later) == (first.run_id, third.run_id)
    assert [run.run_id for run in found.again] == [once[2].run_id, once[1].run_id]
    assert bed.history.relatives(third.run_id, 9) == Relatives(second.run_id)
    for alone in (other.run_id, once[0].run_id, "nobody", "no\x00body"):
        assert bed.history.relatives(alone, 9) == Relatives()


def test_troubles_are_the_failed_and_the_missed_the_latest_first(bed: StoreBed) -> None:
    lease = bed.lead()
    failed, completed = bed.dispatched(lease, one_off(lease.now), one_off(lease.now))
    (missed, early) = bed.make(lease, one_off(lease.now - SECOND), one_off(lease.now - SECOND))
    error = {"type": "ValueError", "message": LONG, "traceback": "Traceback ..."}
    moves = (
        Transition(failed.run_id, 1, Event.FAIL, RunState.FAILED, lease.now + SECOND, reason=LONG, error=error),
        Transition(completed.run_id, 1, Event.SUCCEED, RunState.COMPLETED, lease.now + SECOND),
        Transition(missed.run_id, 1, Event.MISS, RunState.MISSED, lease.now + 2 * SECOND, reason="too late"),
        Transition(early.run_id, 1, Event.MISS, RunState.MISSED, lease.now, reason="too late"),
    )
    assert bed.leader.apply(lease, Apply(moves)) == ()
    first, second = bed.history.troubles(lease.now + SECOND, 10)
    assert (first.run_id, first.state, first.reason, first.error_type) == (
        missed.run_id, RunState.MISSED, "too late", None,
    )  # fmt: skip
    assert (second.run_id, second.error_type, second.finished_at) == (failed.run_id, "ValueError", lease.now + SECOND)
    assert second.message == second.reason == LONG[:200]
    assert [trouble.run_id for trouble in bed.history.troubles(lease.now, 1)] == [missed.run_id]


def test_gaps_come_the_latest_first_of_all_jobs_and_of_one(bed: StoreBed) -> None:
    lease = bed.lead()
    minute, late = 60 * SECOND, "misfire skip: later than 30s"
    kept = [MissedRange(job_id, lease.now + start * minute, lease.now + end * minute, end - start, late)
            for job_id, start, end in (("a", 0, 9), ("b", 2, 4), ("a", 20, 21))]  # fmt: skip
    bed.leader.create_runs(lease, CreateRuns((), cursor=lease.now, missed_ranges=tuple(kept)))
    assert bed.history.missed_ranges(lease.now, 10) == [kept[2], kept[0], kept[1]]
    assert bed.history.missed_ranges(lease.now + 9 * minute, 10) == [kept[2], kept[0]]
    assert bed.history.missed_ranges(lease.now, 1) == bed.history.missed_ranges_of("a", 1) == [kept[2]]
    assert bed.history.missed_ranges_of("a", 10) == [kept[2], kept[0]]
    assert bed.history.missed_ranges_of("nobody", 5) == bed.history.missed_ranges_of("no\x00body", 5) == []


def test_versions_come_newest_first_with_who_made_them(bed: StoreBed) -> None:
    bed.jobs.create(a_job("job"), by=AuditedChange("ann", "operator", "job.create"))
    bed.jobs.replace(a_job("job", title="New"), None)
    newest, oldest = bed.history.versions("job", 10)
    assert (newest.job.version, newest.job.title, newest.actor) == (2, "New", None)
    assert (oldest.job.version, oldest.actor) == (1, "ann")
    assert [version.job.version for version in bed.history.versions("job", 1)] == [2]
    assert bed.history.versions("nobody", 5) == bed.history.versions("no\x00body", 5) == []


def test_active_runs_are_counted_up_to_a_bound(bed: StoreBed) -> None:
    lease = bed.lead()
    bed.make(lease, *(one_off(lease.now + n) for n in range(5)))
    bed.dispatched(lease, one_off(lease.now))
    counts = bed.history.active_counts(3)
    assert (counts[RunState.SCHEDULED], counts[RunState.PENDING], counts[RunState.RUNNING]) == (3, 1, 0)
    assert set(counts) == ACTIVE


def test_lists_are_counted_as_they_are_filtered(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease, "job-0")
    made = bed.dispatched(lease, *(occurrence(job, lease.now - n * SECOND) for n in range(6)))
    bed.make(lease, *(one_off(lease.now + n * SECOND) for n in range(4)))
    ends = (Event.SUCCEED, RunState.COMPLETED), (Event.FAIL, RunState.FAILED), (Event.FAIL, RunState.FAILED)
    moves = [Transition(run.run_id, 1, *end, lease.now) for run, end in zip(made, ends, strict=False)]
    assert bed.leader.apply(lease, Apply(tuple(moves))) == ()
    for wanted in (
        RunFilter(),
        RunFilter(job_id="job-0"),
        RunFilter(queue="default"),
        RunFilter(job_id="job-0", queue="other"),
        RunFilter(states=(RunState.FAILED,)),
        RunFilter(job_id="job-0", states=(RunState.FAILED, RunState.COMPLETED, RunState.PENDING)),
        RunFilter(queue="default", states=(RunState.SCHEDULED, RunState.FAILED)),
        RunFilter(states=tuple(ACTIVE)),
        RunFilter(since=lease.now - 2 * SECOND, until=lease.now + SECOND, states=tuple(RunState)),
        RunFilter(since=lease.now - 2 * SECOND, until=lease.now + SECOND),
    ):
        listed = len(bed.runs.list(wanted, 100, None).items)
        assert bed.history.count_runs(wanted) == Total(listed, False), wanted
    assert bed.history.count_runs(RunFilter(job_id="no\x00body")) == Total(0, False)


def test_jobs_are_counted_as_they_are_filtered(bed: StoreBed) -> None:
    for n in range(5):
        bed.jobs.create(a_job(f"job-{n}"))
    bed.jobs.set_paused("job-1", True, None, None)
    bed.jobs.delete("job-2", None)
    asked: tuple[dict[str, Any], ...] = ({}, {"paused": True}, {"text": "JOB-3"}, {"tag": "none"}, {"source": "x"})
    counts = [bed.history.count_jobs(JobFilter(**some)).number for some in asked]
    assert counts == [4, 1, 1, 0, 0]
