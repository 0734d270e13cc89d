"""An index from a roster that was kept is the one that would have been made from nothing."""

from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant
from scheduler_service.core.leader.commands import BuildIndex
from scheduler_service.core.leader.rebuilding import IndexBuilder
from scheduler_service.core.model import JobHistory
from tests.support.store_bed import a_job

T0 = 1_800_000_000 * SECOND


def histories(*names: str, every: str = "7m") -> tuple[JobHistory, ...]:
    return tuple(JobHistory((a_job(name, schedule={"kind": "interval", "every": every}),), 1) for name in names)


def order(jobs: tuple[JobHistory, ...], now: Instant) -> BuildIndex:
    return BuildIndex(jobs, now, now, now + HOUR, 1)


def planned(builder: IndexBuilder, jobs: tuple[JobHistory, ...], now: Instant) -> list[tuple[str, Instant]]:
    snapshot = builder.build(order(jobs, now)).snapshot
    names = [snapshot.job_ids[ordinal] for ordinal in snapshot.ordinals]
    return list(zip(names, snapshot.times.tolist(), strict=True))


def test_windows_that_follow_each_other_over_the_same_jobs() -> None:
    kept, jobs = IndexBuilder(), histories("b", "a", "c")
    for minutes in (0, 30, 90, 60):  # the last one reaches back before what was kept
        now = T0 + minutes * MINUTE
        found = planned(kept, jobs, now)
        assert found == planned(IndexBuilder(), jobs, now)
        assert len(found) == 3 * 8 or len(found) == 3 * 9


def test_a_job_that_changed_came_or_went_is_seen() -> None:
    kept, jobs = IndexBuilder(), histories("b", "a")
    assert {name for name, _ in planned(kept, jobs, T0)} == {"a", "b"}
    changed = (jobs[0], *histories("a", every="1m"))
    assert len([name for name, _ in planned(kept, changed, T0) if name == "a"]) == 60
    assert {name for name, _ in planned(kept, (*changed, *histories("c")), T0)} == {"a", "b", "c"}
    assert {name for name, _ in planned(kept, changed[:1], T0)} == {"b"}
