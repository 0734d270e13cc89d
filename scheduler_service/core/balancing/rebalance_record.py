"""The audit log's record of a rebalance, and its parsing for an undo."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from itinerary.protocol.instants import format_instant, parse_instant
from scheduler_service.core.balancing.distribution import score_of
from scheduler_service.core.balancing.placements import MovedBefore, PlaceJobs, RebalancePlan

REBALANCE: Final = "scheduler.rebalance"
UNDO: Final = "scheduler.undo"


def record_body(batch: PlaceJobs, plan: RebalancePlan, refused: frozenset[str]) -> Mapping[str, Any]:
    """Return the record of every moved and every unmoved job."""
    return {
        "moved": [
            {
                "job_id": move.job_id,
                "old_time": format_instant(move.old_time),
                "new_time": format_instant(move.new_time),
                "old_anchor": format_instant(move.old_anchor),
                "new_anchor": format_instant(move.new_time),
            }
            for move in plan.moves
            if move.job_id not in refused
        ],
        "skipped": [{"job_id": skip.job_id, "reason": skip.reason} for skip in plan.skips]
        + [{"job_id": job_id, "reason": "changed"} for job_id in sorted(refused)],
        "current_score": round(score_of(plan.slots), 4),
        "projected_score": round(score_of(plan.projected_slots), 4),
        "placed_at": format_instant(batch.at),
    }


def last_moved(newest_first: Iterable[tuple[str, Any]]) -> tuple[MovedBefore, ...] | None:
    """Return the moves of the last rebalance with any, from (action, record); None if it was undone."""
    for action, record in newest_first:
        if action not in (REBALANCE, UNDO) or not record["moved"]:
            continue
        if action == UNDO:
            return None
        return tuple(
            MovedBefore(moved["job_id"], parse_instant(moved["old_anchor"]), parse_instant(moved["new_anchor"]))
            for moved in record["moved"]
        )
    return None
