"""Owed occurrences of `fire_all`: what is kept and what goes missing never mix."""

from scheduler_service.core.instants import SECOND
from tests.support.replay import world_at


def test_a_missed_range_ends_before_the_first_occurrence_that_was_kept() -> None:
    world = world_at("2026-11-30T10:00:00Z")
    misfire = {"policy": "fire_all", "grace": "5s", "max_catch_up": 20}
    world.every("often", "2s", overlap="queue", misfire=misfire)
    world.workers.behave = lambda attempt: None
    world.advance(3 * SECOND)
    world.lead(wait=90 * SECOND)
    world.advance(20 * SECOND)
    (missed,) = [gap for gap in world.store.tables.gaps if gap.reason.startswith("misfire")]
    kept = [run.scheduled_at for run in world.runs("often") if missed.start < run.scheduled_at]
    assert missed.end <= min(kept)
    assert all(missed.end <= gap.start for gap in world.store.tables.gaps if gap is not missed)
