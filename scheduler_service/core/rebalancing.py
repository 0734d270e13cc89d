"""Planning a rebalance, and taking one back: which balanced jobs go where, and which stay, with the reason.

One plan serves preview and execution. Longest interval first; jobs that may not move are put back first, the others one
by one where their rhythm meets the least, and stay where nothing has a lower peak. Promises: a moved job's next
occurrence is outside the protection window and at most half an interval from the old one, so that none is lost or
doubled; the score is never lower than before, else nothing moves.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final

from scheduler_service.core.distribution import score_of
from scheduler_service.core.instants import HOUR, MINUTE, Duration, Instant
from scheduler_service.core.model import Job
from scheduler_service.core.placements import Move, PlanRebalance, RebalancePlan, Skip, placed, rhythm_of
from scheduler_service.core.schedule import UNPLACED, next_after
from scheduler_service.core.slot_balancer import BucketMap, slot_key, spread_of
from scheduler_service.core.slot_counts import SLOTS_A_DAY, Ints, Share, counts_of_all, share_of
from scheduler_service.core.slot_search import Search

PROTECTION_WINDOW: Final[Duration] = 30 * MINUTE
PLACEMENT_COOLDOWN: Final[Duration] = HOUR
PLAN_LIVES: Final[Duration] = 10 * MINUTE
"""How long a plan may wait to be carried out: its moves stay outside the protection window until then."""


def plan_rebalance(jobs: Mapping[str, Job], order: PlanRebalance) -> RebalancePlan:
    """The moves that even out the load of these jobs, as the order wants it."""
    before = BucketMap(slot_key(order.now), jobs.values())
    nexts = _nexts(jobs.values(), order)
    reasons = {job.job_id: reason_to_stay(job, at, order) for job, at in nexts}
    movable = [(job, at) for job, at in nexts if reasons[job.job_id] is None]
    moves, after = _moved(jobs, movable, order, before.base)
    slots, projected = before.day(), tuple(after[:SLOTS_A_DAY].tolist())
    gain = score_of(projected) - score_of(slots)
    if gain < 0 or (gain == 0 and int(after.max()) >= before.peak()):
        moves, projected = [], slots
    skips = tuple(Skip(job_id, reason) for job_id, reason in sorted(reasons.items()) if reason is not None)
    return RebalancePlan(
        order.asked.plan_id, "rebalance", before.base, order.now, tuple(moves), skips, slots, projected
    )


def plan_undo(jobs: Mapping[str, Job], order: PlanRebalance) -> RebalancePlan:
    """The moves that take the last rebalance back, as far as its jobs are still where it put them."""
    before = BucketMap(slot_key(order.now), jobs.values())
    moves: list[Move] = []
    skips: list[Skip] = []
    for moved in order.undo or ():
        job = jobs.get(moved.job_id)
        at = None if job is None or job.placed_anchor != moved.new_anchor else _next(job, order)
        rhythm = None if job is None else rhythm_of(job)
        if job is None or at is None or rhythm is None:
            skips.append(Skip(moved.job_id, "changed"))
            continue
        back = _nearest(moved.old_anchor, rhythm.every, at)
        reason = _reason_of_run(job, min(at, back), order)
        if reason is not None:
            skips.append(Skip(moved.job_id, reason))
        else:
            moves.append(Move(job.job_id, job.version, moved.new_anchor, at, back))
    after = BucketMap(before.base, {**jobs, **_after(jobs, moves, order.now)}.values())
    return RebalancePlan(
        order.asked.plan_id, "undo", before.base, order.now, tuple(moves), tuple(skips), before.day(), after.day()
    )


def reason_to_stay(job: Job, next_at: Instant, order: PlanRebalance) -> str | None:
    """Why a rebalance leaves the job where it is; None where it may move it."""
    reason = _reason_of_run(job, next_at, order)
    if reason is not None:
        return reason
    if job.placed_at is not None and order.now - job.placed_at < PLACEMENT_COOLDOWN:
        return "placement_cooldown"
    rhythm = rhythm_of(job)
    return "pinned" if rhythm is not None and rhythm.pinned else None


def _reason_of_run(job: Job, next_at: Instant, order: PlanRebalance) -> str | None:
    if job.job_id in order.busy:
        return "job_running"
    return "protection_window" if next_at - order.now <= PROTECTION_WINDOW else None


def _nexts(jobs: Iterable[Job], order: PlanRebalance) -> list[tuple[Job, Instant]]:
    """The balanced jobs that have a place, with their next occurrence, longest interval first."""
    found = [(job, at) for job in jobs if rhythm_of(job) is not None and (at := _next(job, order)) is not None]
    return sorted(found, key=lambda pair: (-_every(pair[0]), pair[0].job_id))


def _every(job: Job) -> Duration:
    rhythm = rhythm_of(job)
    return 0 if rhythm is None else rhythm.every


def _next(job: Job, order: PlanRebalance) -> Instant | None:
    share, rhythm = share_of(job), rhythm_of(job)
    if share is None or rhythm is None or rhythm.first == UNPLACED:
        return None
    # What has no row yet though its time has come counts as the next: it must not be moved away.
    return next_after(rhythm, min(order.now, order.since) - 1, start_at=share.start, end_at=share.end)


def _moved(
    jobs: Mapping[str, Job], movable: list[tuple[Job, Instant]], order: PlanRebalance, base: int
) -> tuple[list[Move], Ints]:
    """Everything else counted first, the movable jobs put in place one after the other."""
    taken_out = {job.job_id for job, _ in movable}
    kept = (share_of(job) for job in jobs.values() if job.job_id not in taken_out)
    counts = counts_of_all((share for share in kept if share is not None), base)
    moves = []
    for every, group in groupby(movable, key=lambda pair: _every(pair[0])):
        search = Search(counts, base, every)
        for job, at in group:
            share = share_of(job)
            assert share is not None
            move = _move(search, job, share, at, order.now)
            search.put(share, job.placed_anchor or at if move is None else move.new_time)
            moves += [] if move is None else [move]
    return moves, counts


def _move(search: Search, job: Job, share: Share, at: Instant, now: Instant) -> Move | None:
    half = _every(job) // 2
    low = max(at - half, now + PROTECTION_WINDOW + PLAN_LIVES, share.start)
    high = min(at + half, share.end)
    if low >= high:
        return None
    place = search.best(spread_of(job.job_id), low, high, kept=at)
    if place.at == at or not low <= place.at < high:
        return None
    return Move(job.job_id, job.version, job.placed_anchor or at, at, place.at)


def _nearest(anchor: Instant, every: Duration, at: Instant) -> Instant:
    """The occurrence of a rhythm through `anchor` that is nearest to `at`."""
    return anchor + (at - anchor + every // 2) // every * every


def _after(jobs: Mapping[str, Job], moves: Iterable[Move], now: Instant) -> dict[str, Job]:
    return {move.job_id: placed(jobs[move.job_id], move.new_time, now) for move in moves}
