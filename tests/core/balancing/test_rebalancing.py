"""Plans of a rebalance: who stays and why, where the others go, and what a plan must never do."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Instant
from scheduler_service.core.balancing.distribution import score_of
from scheduler_service.core.balancing.placements import (
    MovedBefore,
    PlanRebalance,
    RebalancePlan,
    RebalancePlanned,
    placed,
)
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import occurrences
from tests.support.balanced import NOW, asked, at_place, balancer_of, cron, map_of, plan_of
from tests.support.examples import examples

LATER = NOW + 2 * HOUR
RELAXED = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck), database=None)


def clustered(number: int, every: int = 6 * HOUR) -> list[Job]:
    return [at_place(f"job{n:02}", every, LATER + n * SECOND) for n in range(number)]


def reasons(plan: RebalancePlan) -> dict[str, str]:
    return {skip.job_id: skip.reason for skip in plan.skips}


def after(jobs: list[Job], plan: RebalancePlan) -> list[Job]:
    """The jobs as the plan leaves them."""
    moves = {move.job_id: move for move in plan.moves}
    return [placed(j, moves[j.job_id].new_time, NOW) if j.job_id in moves else j for j in jobs]


def test_clustered_jobs_are_spread_and_the_score_says_so() -> None:
    plan = plan_of(balancer_of(clustered(15)))
    assert max(plan.slots) == 15
    assert max(plan.projected_slots) == 1
    assert score_of(plan.projected_slots) == 1 > score_of(plan.slots)


@pytest.mark.parametrize(
    ("job", "busy", "reason"),
    [
        (at_place("x", 6 * HOUR, NOW + 10 * MINUTE), (), "protection_window"),
        (at_place("x", 6 * HOUR, NOW + 30 * MINUTE), (), "protection_window"),
        (at_place("x", 6 * HOUR, LATER, placed_at=NOW - 59 * MINUTE), (), "placement_cooldown"),
        (at_place("x", 6 * HOUR, LATER, pinned=True), (), "pinned"),
        (at_place("x", 6 * HOUR, NOW + 10 * MINUTE, pinned=True), ("x",), "job_running"),
    ],
)
def test_a_job_that_may_not_move_stays_and_the_reason_is_told(job: Job, busy: tuple[str, ...], reason: str) -> None:
    plan = plan_of(balancer_of([job, *clustered(5)]), busy=busy)
    assert reasons(plan) == {"x": reason}
    assert "x" not in {move.job_id for move in plan.moves}


def test_just_outside_the_window_and_just_after_the_cooldown_a_job_may_move() -> None:
    jobs = [
        at_place("a", 6 * HOUR, NOW + 30 * MINUTE + SECOND),
        at_place("b", 6 * HOUR, NOW + 30 * MINUTE + SECOND, placed_at=NOW - HOUR),
    ]
    assert reasons(plan_of(balancer_of(jobs))) == {}


def test_what_stays_is_counted_before_anything_is_moved() -> None:
    stays = [at_place(f"pin{n}", HOUR, LATER + n * 15 * MINUTE, pinned=True) for n in range(3)]
    moved = [at_place(f"job{n}", HOUR, LATER + n * SECOND) for n in range(2)]
    plan = plan_of(balancer_of([*stays, *moved]))
    assert max(plan.projected_slots) == 2
    assert len(plan.moves) == 1
    assert {move.new_time // (15 * MINUTE) % 4 for move in plan.moves} == {3}


def test_the_longest_interval_is_placed_first() -> None:
    """The daily job takes the one slot that it can have alone; placed after the hourly ones it would find none."""
    jobs = [at_place(f"hourly{n}", HOUR, LATER + n * SECOND) for n in range(4)]
    jobs.append(at_place("daily", DAY, LATER + 20 * SECOND))
    plan = plan_of(balancer_of(jobs))
    assert "daily" not in {move.job_id for move in plan.moves}
    assert max(plan.projected_slots) == 2
    assert [move.job_id for move in plan.moves] == sorted(move.job_id for move in plan.moves)


def test_an_even_schedule_is_left_alone() -> None:
    jobs = [at_place(f"job{n}", HOUR, LATER + n * 15 * MINUTE) for n in range(4)]
    plan = plan_of(balancer_of(jobs))
    assert (plan.moves, plan.skips) == ((), ())
    assert plan.projected_slots == plan.slots


def test_jobs_that_nobody_places_are_neither_moved_nor_skipped() -> None:
    plan = plan_of(balancer_of([cron("a", "0 * * * *"), cron("b", "0 * * * *")]))
    assert (plan.moves, plan.skips) == ((), ())


def test_a_due_occurrence_that_has_no_row_yet_is_not_moved_away() -> None:
    job = at_place("x", 6 * HOUR, NOW - 5 * SECOND)
    order = PlanRebalance(asked(), NOW, NOW - MINUTE, frozenset())
    planned = balancer_of([job, *clustered(3)]).carry_out(order)
    assert isinstance(planned, RebalancePlanned)
    assert reasons(planned.plan) == {"x": "protection_window"}


def test_a_job_is_not_moved_out_of_its_own_bounds() -> None:
    bounds = {"start_at": "2026-11-30T11:59:00Z", "end_at": "2026-11-30T12:40:00Z"}
    bounded = [at_place(f"bounded{n}", 6 * HOUR, LATER + n * SECOND, **bounds) for n in range(8)]
    jobs = [*bounded, *clustered(2)]
    plan = plan_of(balancer_of(jobs))
    moved = [m.new_time for m in plan.moves if m.job_id in {job.job_id for job in bounded}]
    assert all(LATER - MINUTE <= at < LATER + 40 * MINUTE for at in moved)
    assert map_of(plan.base, after(jobs, plan)).day() == plan.projected_slots


INTERVALS = st.sampled_from([15 * MINUTE, 45 * MINUTE, HOUR, 100 * MINUTE, 6 * HOUR, DAY, 31 * HOUR, 7 * DAY, 30 * DAY])


@st.composite
def populations(draw: st.DrawFn) -> list[Job]:
    found: list[Job] = []
    for number in range(draw(st.integers(1, 14))):
        every = draw(INTERVALS)
        anchor = NOW - draw(st.integers(0, 3 * every // SECOND)) * SECOND + draw(st.sampled_from([0, every]))
        ago = draw(st.sampled_from([30 * MINUTE, 2 * HOUR]))
        found.append(at_place(f"job{number:02}", every, anchor, placed_at=NOW - ago, pinned=draw(st.booleans())))
    return found


def next_of(job: Job) -> Instant:
    every = job.schedule.every  # type: ignore[union-attr]
    return next(at for at in occurrences(job.schedule, NOW, NOW + 2 * every + 1))


@pytest.mark.slow
@RELAXED
@given(populations())
def test_a_rebalance_never_lowers_the_score_and_does_what_it_projected(jobs: list[Job]) -> None:
    plan = plan_of(balancer_of(jobs))
    assert score_of(plan.projected_slots) >= score_of(plan.slots)
    assert map_of(plan.base, jobs).day() == plan.slots
    assert map_of(plan.base, after(jobs, plan)).day() == plan.projected_slots


@pytest.mark.slow
@RELAXED
@given(populations())
def test_no_occurrence_is_lost_or_doubled_by_a_move(jobs: list[Job]) -> None:
    known = {job.job_id: job for job in jobs}
    for move in plan_of(balancer_of(jobs)).moves:
        job = known[move.job_id]
        every = job.schedule.every  # type: ignore[union-attr]
        assert move.old_time == next_of(job)
        assert abs(move.new_time - move.old_time) <= every // 2
        assert move.new_time - NOW > 30 * MINUTE
        assert move.new_time - (move.old_time - every) >= every // 2


@pytest.mark.slow
@RELAXED
@given(populations())
def test_the_same_schedule_gives_the_same_plan_whatever_the_order_of_its_jobs(jobs: list[Job]) -> None:
    assert plan_of(balancer_of(jobs)) == plan_of(balancer_of(reversed(jobs)))


def undone(jobs: list[Job], moved: tuple[MovedBefore, ...], busy: tuple[str, ...] = ()) -> RebalancePlan:
    planned = balancer_of(jobs).carry_out(PlanRebalance(asked(), NOW, NOW, frozenset(busy), moved))
    assert isinstance(planned, RebalancePlanned)
    return planned.plan


def test_an_undo_takes_every_job_back_though_it_was_placed_just_now() -> None:
    jobs = clustered(20)
    plan = plan_of(balancer_of(jobs))
    moved = tuple(MovedBefore(m.job_id, m.old_anchor, m.new_time) for m in plan.moves)
    back = undone(after(jobs, plan), moved)
    assert back.skips == ()
    assert {m.job_id: m.new_time for m in back.moves} == {m.job_id: m.old_time for m in plan.moves}
    assert back.projected_slots == plan.slots


def test_an_undo_leaves_alone_what_was_changed_runs_or_is_about_to_run() -> None:
    moved_to = NOW + 3 * HOUR
    jobs = [at_place(name, 6 * HOUR, moved_to) for name in ("edited", "busy", "soon", "fine")]
    jobs[0] = at_place("edited", 6 * HOUR, LATER)
    olds = {"edited": LATER, "busy": LATER, "soon": NOW + 20 * MINUTE, "fine": LATER, "gone": LATER}
    moved = tuple(MovedBefore(name, old, moved_to) for name, old in olds.items())
    back = undone(jobs, moved, busy=("busy",))
    assert reasons(back) == {"edited": "changed", "busy": "job_running", "soon": "protection_window", "gone": "changed"}
    assert [(m.job_id, m.new_time) for m in back.moves] == [("fine", LATER)]


def test_a_preview_is_named_by_what_it_would_do() -> None:
    """A leader that makes it anew from other jobs must not carry that out under the name of what was seen."""
    seen, again, other = (plan_of(balancer_of(clustered(number))).plan_id for number in (5, 5, 6))
    assert seen == again != other
    assert seen.startswith(f"{asked().plan_id}.")


def test_a_plan_that_brings_nothing_moves_nothing() -> None:
    """A lower peak for one job, at its place in the week, and neither the score nor the evenness any better."""
    jobs = [at_place("job0", 100 * MINUTE, NOW + 30 * HOUR), at_place("job1", 7 * DAY, NOW + 25 * HOUR)]
    plan = plan_of(balancer_of(jobs))
    assert plan.moves == ()
    assert plan.projected_slots == plan.slots


def test_where_the_score_gains_nothing_no_move_takes_an_occurrence_out_of_the_coming_day() -> None:
    jobs = [
        at_place("job0", 100 * MINUTE, NOW + 1695 * MINUTE),
        at_place("job1", 45 * MINUTE, NOW + 1215 * MINUTE),
        at_place("job2", DAY, NOW + 75 * MINUTE),
        at_place("job3", 100 * MINUTE, NOW + 135 * MINUTE),  # 14 times in the day; 13 from 12:32 on
    ]
    plan = plan_of(balancer_of(jobs))
    assert [(move.job_id, move.new_time) for move in plan.moves] == [("job0", NOW + 1695 * MINUTE - 5 * SECOND)]
    assert sum(plan.projected_slots) == sum(plan.slots)
