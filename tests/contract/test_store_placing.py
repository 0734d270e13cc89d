"""Places of balanced jobs: outside the version, guarded job by job, kept through edits that leave the rhythm alone."""

from typing import Any

import pytest

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant
from scheduler_service.core.audit import AuditEntry
from scheduler_service.core.balancing.placements import (
    Move,
    MovedBefore,
    PlaceJobs,
    Placement,
    RebalanceAsked,
    RebalanceKind,
    RebalanceOrder,
    RebalancePlan,
    Skip,
)
from scheduler_service.core.model import Job, Lease
from scheduler_service.core.schedules.schedule import UNPLACED, upcoming
from scheduler_service.ports.records import AuditFilter
from scheduler_service.ports.stores import JobFilter
from scheduler_service.sql.audit import SqlAuditLog
from tests.support.fake_leader import FakeLeaderStore
from tests.support.store_bed import StoreBed, a_job

BALANCED = {"kind": "interval", "every": "1h", "balanced": True}
ANCHOR = 1_800_000_123 * SECOND


def made(bed: StoreBed, job_id: str = "job", **more: Any) -> Job:
    return bed.jobs.create(a_job(job_id, schedule=BALANCED, **more))


def place(bed: StoreBed, lease: Lease, job: Job, anchor: Instant = ANCHOR) -> frozenset[str]:
    placement = Placement(job.job_id, job.version, job.placed_anchor, anchor)
    return bed.leader.place_jobs(lease, PlaceJobs((placement,), lease.now))


def order(
    plan_id: str, *moves: Move, kind: RebalanceKind = "rebalance", skips: tuple[Skip, ...] = ()
) -> RebalanceOrder:
    zeros = (0,) * 96
    plan = RebalancePlan(plan_id, kind, 0, 0, moves, skips, zeros, zeros)
    return RebalanceOrder(plan, RebalanceAsked(kind, "reply", plan_id, False, "ann", "operator"))


def moving(job: Job, to: Instant) -> Move:
    assert job.placed_anchor is not None
    return Move(job.job_id, job.version, job.placed_anchor, job.placed_anchor, to)


def rebalance(bed: StoreBed, lease: Lease, wanted: RebalanceOrder) -> frozenset[str]:
    placements = tuple(Placement(m.job_id, m.version, m.old_anchor, m.new_time) for m in wanted.plan.moves)
    return bed.leader.place_jobs(lease, PlaceJobs(placements, lease.now, wanted))


def records(bed: StoreBed) -> list[AuditEntry]:
    """The audit log, oldest first."""
    if bed.database is None:
        assert isinstance(bed.leader, FakeLeaderStore)
        return bed.leader._tables.audit
    return SqlAuditLog(bed.database).list(AuditFilter(), 100, None).items[::-1]


def test_a_balanced_job_is_silent_until_it_is_placed_and_the_place_makes_no_version(bed: StoreBed) -> None:
    lease, job = bed.lead(), made(bed)
    assert (job.placed_anchor, job.placed_at, job.schedule.first) == (None, None, UNPLACED)  # type: ignore[union-attr]
    assert place(bed, lease, job) == frozenset()
    seen = bed.jobs.get("job")
    assert (seen.version, seen.placed_anchor, seen.placed_at) == (1, ANCHOR, lease.now)
    assert upcoming(seen.schedule, ANCHOR, 2) == [ANCHOR + HOUR, ANCHOR + 2 * HOUR]
    (history,) = bed.leader.histories_of(["job"], None)
    assert history.current == seen
    assert bed.jobs.list(JobFilter(), 1, None).items == [seen]


def test_a_place_for_a_version_that_is_no_more_is_refused_and_the_others_are_placed(bed: StoreBed) -> None:
    lease = bed.lead()
    edited, deleted, fine = made(bed, "edited"), made(bed, "deleted"), made(bed, "fine")
    bed.jobs.replace(a_job("edited", schedule=BALANCED, title="new"), None)
    bed.jobs.delete("deleted", None)
    placements = tuple(Placement(job.job_id, 1, None, ANCHOR) for job in (edited, deleted, fine))
    unknown = Placement("nobody", 1, None, ANCHOR)
    refused = bed.leader.place_jobs(lease, PlaceJobs((*placements, unknown), lease.now))
    assert refused == {"edited", "deleted", "nobody"}
    assert bed.jobs.get("edited").placed_anchor is None
    assert bed.jobs.get("fine").placed_anchor == ANCHOR


def test_a_place_that_was_taken_meanwhile_is_not_overwritten_and_saying_it_twice_is_no_refusal(bed: StoreBed) -> None:
    lease, job = bed.lead(), made(bed)
    assert place(bed, lease, job) == frozenset()
    assert place(bed, lease, job) == frozenset()
    assert place(bed, lease, job, ANCHOR + MINUTE) == {"job"}
    assert bed.jobs.get("job").placed_anchor == ANCHOR


def test_a_lease_that_is_over_places_nothing(bed: StoreBed) -> None:
    lease, job = bed.lead(), made(bed)
    bed.take_over(lease)
    with pytest.raises(LeaseLost):
        place(bed, lease, job)
    assert bed.jobs.get("job").placed_anchor is None


def test_an_edit_that_leaves_the_interval_alone_and_a_pause_keep_the_place(bed: StoreBed) -> None:
    lease, job = bed.lead(), made(bed)
    place(bed, lease, job)
    edited, _ = bed.jobs.replace(a_job("job", schedule={**BALANCED, "pinned": True}, title="new"), None)
    paused = bed.jobs.set_paused("job", True, "why", None)
    for later in (edited, paused, bed.jobs.get("job")):
        assert (later.placed_anchor, later.placed_at) == (ANCHOR, lease.now)
        assert upcoming(later.schedule, ANCHOR, 1) == [ANCHOR + HOUR]


@pytest.mark.parametrize("change", ["interval", "kind", "resume", "remake"])
def test_a_changed_interval_a_resume_and_a_job_made_again_have_no_place(bed: StoreBed, change: str) -> None:
    lease, job = bed.lead(), made(bed)
    place(bed, lease, job)
    if change == "interval":
        bed.jobs.replace(a_job("job", schedule={**BALANCED, "every": "2h"}), None)
    elif change == "kind":
        bed.jobs.replace(a_job("job", schedule={"kind": "interval", "every": "1h"}), None)
        bed.jobs.replace(a_job("job", schedule=BALANCED), None)
    elif change == "resume":
        bed.jobs.set_paused("job", True, None, None)
        bed.jobs.set_paused("job", False, None, None)
    else:
        bed.jobs.delete("job", None)
        made(bed)
    seen = bed.jobs.get("job")
    assert (seen.placed_anchor, seen.placed_at) == (None, None)
    assert upcoming(seen.schedule, 0, 1) == []


def test_each_version_keeps_the_place_that_it_had(bed: StoreBed) -> None:
    """What an outage left unplanned before an edit is planned by the old rhythm."""
    lease, job = bed.lead(), made(bed)
    place(bed, lease, job)
    changed, _ = bed.jobs.replace(a_job("job", schedule={**BALANCED, "every": "2h"}), None)
    place(bed, lease, changed, ANCHOR + 5 * MINUTE)
    (history,) = bed.leader.histories_of(["job"], None)
    assert [version.placed_anchor for version in history.versions] == [ANCHOR, ANCHOR + 5 * MINUTE]


def test_a_rebalance_is_recorded_with_who_and_what_and_can_be_read_for_its_undoing(bed: StoreBed) -> None:
    lease = bed.lead()
    jobs = [made(bed, name) for name in ("a", "b")]
    for job in jobs:
        place(bed, lease, job)
    seen = [bed.jobs.get(job.job_id) for job in jobs]
    assert bed.leader.last_rebalance() is None
    bed.jobs.replace(a_job("b", schedule=BALANCED, title="new"), None)
    wanted = order("p1", *(moving(job, ANCHOR + HOUR // 2) for job in seen), skips=(Skip("c", "pinned"),))
    assert rebalance(bed, lease, wanted) == {"b"}
    assert bed.jobs.get("a").placed_anchor == ANCHOR + HOUR // 2
    assert bed.jobs.get("b").placed_anchor == ANCHOR
    assert bed.leader.last_rebalance() == (MovedBefore("a", ANCHOR, ANCHOR + HOUR // 2),)
    (entry,) = records(bed)
    assert (entry.actor, entry.role, entry.action, entry.subject) == ("ann", "operator", "scheduler.rebalance", "p1")
    assert entry.after["skipped"] == [{"job_id": "c", "reason": "pinned"}, {"job_id": "b", "reason": "changed"}]


def test_a_plan_is_carried_out_once_whoever_asks_again(bed: StoreBed) -> None:
    lease, job = bed.lead(), made(bed)
    place(bed, lease, job)
    wanted = order("p1", moving(bed.jobs.get("job"), ANCHOR + HOUR // 2))
    assert rebalance(bed, lease, wanted) == frozenset()
    assert rebalance(bed, lease, wanted) == frozenset()
    assert len(records(bed)) == 1
    other = order("p1", moving(bed.jobs.get("job"), ANCHOR))
    assert rebalance(bed, lease, other) == {"job"}
    assert bed.jobs.get("job").placed_anchor == ANCHOR + HOUR // 2


def test_after_an_undo_there_is_nothing_to_undo_and_empty_rebalances_are_passed_over(bed: StoreBed) -> None:
    lease, job = bed.lead(), made(bed)
    place(bed, lease, job)
    rebalance(bed, lease, order("p1", moving(bed.jobs.get("job"), ANCHOR + HOUR // 2)))
    rebalance(bed, lease, order("p2"))
    assert bed.leader.last_rebalance() == (MovedBefore("job", ANCHOR, ANCHOR + HOUR // 2),)
    rebalance(bed, lease, order("u1", moving(bed.jobs.get("job"), ANCHOR), kind="undo"))
    assert bed.leader.last_rebalance() is None
    assert bed.jobs.get("job").placed_anchor == ANCHOR


@pytest.mark.slow
def test_many_places_are_one_transaction(bed: StoreBed) -> None:
    lease = bed.lead()
    jobs = [made(bed, f"job{n:04}") for n in range(600)]
    placements = tuple(Placement(job.job_id, 1, None, ANCHOR + n) for n, job in enumerate(jobs))
    assert bed.leader.place_jobs(lease, PlaceJobs(placements, lease.now)) == frozenset()
    histories = bed.leader.histories_of([job.job_id for job in jobs], None)
    assert [history.current.placed_anchor for history in histories] == [ANCHOR + n for n in range(600)]
