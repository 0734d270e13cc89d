"""Planning a rebalance, and its undo: which balanced jobs move where, which stay, and why.

One plan serves preview and execution. Longest interval first: jobs that may not move are placed first, then the others
one by one where their rhythm meets the least load. A job stays if no place has a lower peak. Promises: a moved job's
next occurrence is outside the protection window and at most half an interval from the old one. So no occurrence is lost
or doubled. The score never falls, else nothing moves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby
from typing import Final

from itinerary.protocol.instants import DAY, HOUR, MINUTE, Duration, Instant, format_instant
from scheduler_service.core.balancing.distribution import score_of
from scheduler_service.core.balancing.placements import (
    Move,
    MovedBefore,
    PlanRebalance,
    RebalancePlan,
    Skip,
    placed,
    rhythm_at,
    rhythm_of,
)
from scheduler_service.core.balancing.slot_balancer import BucketMap, slot_key, slot_time, spread_of
from scheduler_service.core.balancing.slot_counts import (
    HORIZON_SLOTS,
    SLOTS_A_DAY,
    Ints,
    Share,
    counts_of_all,
    share_of,
)
from scheduler_service.core.balancing.slot_search import Search
from scheduler_service.core.index.forecast import SLOT
from scheduler_service.core.model import Job, JobHistory
from scheduler_service.core.schedules.schedule import IntervalSchedule, count

PROTECTION_WINDOW: Final[Duration] = 30 * MINUTE
PLACEMENT_COOLDOWN: Final[Duration] = HOUR
PLAN_LIVES: Final[Duration] = 10 * MINUTE
"""The longest time that a plan may wait to be carried out: its moves stay outside the protection window until then."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A balanced job that has a place, with its next occurrence."""

    job: Job
    rhythm: IntervalSchedule
    share: Share
    next_at: Instant


def plan_rebalance(slots: BucketMap, order: PlanRebalance) -> RebalancePlan:
    """Plan the moves that even out the load of the map's jobs."""
    base, shares, before = slots.base, slots.shares(), slots.loads()
    found = [one for job in slots.jobs.values() if (one := _placed(job, shares.get(job.job_id), order)) is not None]
    found.sort(key=lambda one: (-one.rhythm.every, one.job.job_id))
    reasons = {one.job.job_id: reason_to_stay(one, order) for one in found}
    movable = [one for one in found if reasons[one.job.job_id] is None]
    after = counts_of_all((share for job_id, share in shares.items() if reasons.get(job_id, "") is not None), base)
    moves = _moved(movable, after, base, order.now)
    if not _gains(before, after):
        moves = _without_losses(moves, shares, base)
        after = counts_of_all(_shares_after(moves, shares), base)
    if not _gains(before, after):
        moves, after = (), before
    moves = _explained(moves, before, after, base)
    stay = sorted((job_id, reason) for job_id, reason in reasons.items() if reason is not None)
    return RebalancePlan(
        _name(order, moves),
        "rebalance",
        base,
        order.now,
        moves,
        tuple(Skip(*one) for one in stay),
        _day(before),
        _day(after),
    )


def _name(order: PlanRebalance, moves: tuple[Move, ...]) -> str:
    """Name a preview's plan by its content too: another leader's plan for the same request is a different plan."""
    if order.asked.kind != "preview":
        return order.asked.plan_id
    text = "\n".join(f"{move.job_id} {move.version} {move.old_anchor} {move.new_time}" for move in moves)
    return f"{order.asked.plan_id}.{blake2b(text.encode(), digest_size=6).hexdigest()}"


def plan_undo(before: BucketMap, order: PlanRebalance) -> RebalancePlan:
    """Plan the moves that undo the last rebalance, for the jobs that are still at their new place."""
    jobs = before.jobs
    decided = [_back(jobs.get(moved.job_id), moved, order) for moved in order.undo or ()]
    moves = tuple(one for one in decided if isinstance(one, Move))
    skips = tuple(one for one in decided if isinstance(one, Skip))
    undone = [placed(jobs[move.job_id].current, move.new_time, order.now) for move in moves]
    after = BucketMap(before.base, [*jobs.values(), *(JobHistory((job,), job.version) for job in undone)])
    return RebalancePlan(order.asked.plan_id, "undo", before.base, order.now, moves, skips, before.day(), after.day())


def reason_to_stay(one: Placed, order: PlanRebalance) -> str | None:
    """Return the reason why a rebalance does not move the job; None if it may move it."""
    reason = _reason_of_run(one.job.job_id, one.next_at, order)
    if reason is not None:
        return reason
    if one.job.placed_at is not None and order.now - one.job.placed_at < PLACEMENT_COOLDOWN:
        return "placement_cooldown"
    return "pinned" if one.rhythm.pinned else None


def _reason_of_run(job_id: str, next_at: Instant, order: PlanRebalance) -> str | None:
    if job_id in order.busy:
        return "job_running"
    return "protection_window" if next_at - order.now <= PROTECTION_WINDOW else None


def _placed(known: JobHistory, share: Share | None, order: PlanRebalance) -> Placed | None:
    rhythm = rhythm_of(known)
    if share is None or rhythm is None or known.current.placed_anchor is None:
        return None
    job = known.current
    # A due occurrence without a row yet counts as the next one: it must not be moved.
    low = max(min(order.now, order.since), share.start)
    next_at = rhythm.first + max(0, -((rhythm.first - low) // rhythm.every)) * rhythm.every
    return Placed(job, rhythm, share, next_at) if next_at < share.end else None


def _moved(movable: list[Placed], counts: Ints, base: int, now: Instant) -> tuple[Move, ...]:
    """Place the movable jobs one after the other; `counts` holds everything else, and all jobs at the end."""
    moves = []
    for every, group in groupby(movable, key=lambda one: one.rhythm.every):
        search = Search(counts, base, every)
        for one in group:
            move = _move(search, one, now)
            search.put(one.share, one.rhythm.first if move is None else move.new_time)
            if move is not None:
                moves.append(move)
    return tuple(moves)


def _move(search: Search, one: Placed, now: Instant) -> Move | None:
    half = one.rhythm.every // 2
    low = max(one.next_at - half, now + PROTECTION_WINDOW + PLAN_LIVES, one.share.start)
    high = min(one.next_at + half, one.share.end)
    place = search.better(spread_of(one.job.job_id), low, high, one.next_at)
    if place is None:
        return None
    return Move(one.job.job_id, one.job.version, one.rhythm.first, one.next_at, place.at)


def _without_losses(moves: tuple[Move, ...], shares: Mapping[str, Share], base: int) -> tuple[Move, ...]:
    """Keep only moves after which a job runs as often in the next 24 hours: losing runs must not pass for a gain."""
    return tuple(
        move
        for move in moves
        if _in_day(_share_after(move, shares[move.job_id]), base) >= _in_day(shares[move.job_id], base)
    )


def _in_day(share: Share, base: int) -> int:
    start = base * SLOT
    return count(share.schedule, max(start, share.start), max(share.start, min(start + DAY, share.end)))


def _share_after(move: Move, share: Share) -> Share:
    return replace(share, schedule=rhythm_at(share.schedule, move.new_time))


def _shares_after(moves: tuple[Move, ...], shares: Mapping[str, Share]) -> list[Share]:
    return list({**shares, **{move.job_id: _share_after(move, shares[move.job_id]) for move in moves}}.values())


def _explained(moves: tuple[Move, ...], before: Ints, after: Ints, base: int) -> tuple[Move, ...]:
    """Add each move's reason: the visible loads of the slot that the next occurrence leaves, and of its new slot."""
    clocks: dict[int, str] = {}

    def clock(slot: int) -> str:
        if slot not in clocks:
            clocks[slot] = format_instant(slot_time(slot))[11:16]
        return clocks[slot]

    def why(old: int, new: int) -> str:
        if max(old, new) - base >= HORIZON_SLOTS:
            return "it comes after the week that is looked at"
        return f"{clock(old)} holds {before[old - base]} runs, {clock(new)} will hold {after[new - base]}"

    return tuple(
        Move(m.job_id, m.version, m.old_anchor, m.old_time, m.new_time, why(slot_key(m.old_time), slot_key(m.new_time)))
        for m in moves
    )


def _gains(before: Ints, after: Ints) -> bool:
    """Whether a move is worth it: a better score, or with the same score a more even week."""
    gain = score_of(_day(after)) - score_of(_day(before))
    return gain > 0 or (gain == 0 and int((after * after).sum()) < int((before * before).sum()))


def _day(counts: Ints) -> tuple[int, ...]:
    return tuple(counts[:SLOTS_A_DAY].tolist())


def _back(job: JobHistory | None, moved: MovedBefore, order: PlanRebalance) -> Move | Skip:
    one = None if job is None or job.current.placed_anchor != moved.new_anchor else _placed(job, share_of(job), order)
    if one is None:
        return Skip(moved.job_id, "changed")
    every = one.rhythm.every
    nearest = moved.old_anchor + (one.next_at - moved.old_anchor + every // 2) // every * every
    reason = _reason_of_run(moved.job_id, min(one.next_at, nearest), order)
    if reason is not None:
        return Skip(moved.job_id, reason)
    return Move(moved.job_id, one.job.version, one.rhythm.first, one.next_at, nearest, "back to where it was")
