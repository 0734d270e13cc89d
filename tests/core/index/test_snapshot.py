"""The scheduled run index: what it holds, how it answers, and that readers never see half of one."""

import threading

import numpy as np
import pytest

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND
from scheduler_service.core.index.expansion import Entry
from scheduler_service.core.index.snapshot import (
    IndexSnapshot,
    ScheduledRun,
    ScheduledRunIndex,
    build_snapshot,
    from_unsorted,
)
from tests.support.moments import at, cron

START = at("2026-11-27T10:00:00Z")
IDS = ("a", "b", "c")


def _index(*runs: tuple[int, int]) -> ScheduledRunIndex:
    """An index of (minute, ordinal) runs, given in this order."""
    times = np.asarray([START + minute * MINUTE for minute, _ in runs], dtype=np.int64)
    ordinals = np.asarray([ordinal for _, ordinal in runs], dtype=np.int32)
    return ScheduledRunIndex(from_unsorted(times, ordinals, IDS, START, START + DAY))


def _runs(index: ScheduledRunIndex, start: int, end: int) -> list[tuple[str, int]]:
    found = index.query(START + start * MINUTE, START + end * MINUTE)
    return [(run.job_id, (run.scheduled_at - START) // MINUTE) for run in found]


def test_an_index_built_from_nothing_answers_with_nothing() -> None:
    for index in (ScheduledRunIndex(), _index()):
        assert len(index) == 0
        assert index.peek() is None
        assert list(index) == []
        assert _runs(index, 0, 1000) == []


def test_sorted_runs_stay_in_their_order() -> None:
    index = _index((0, 0), (1, 1), (2, 2))
    assert list(index) == [ScheduledRun(IDS[n], START + n * MINUTE) for n in range(3)]


def test_unsorted_runs_are_ordered_by_time() -> None:
    assert _runs(_index((9, 2), (1, 0), (5, 1)), 0, 10) == [("a", 1), ("b", 5), ("c", 9)]


def test_a_query_includes_its_start_and_excludes_its_end() -> None:
    index = _index((1, 0), (2, 0), (3, 0))
    assert _runs(index, 1, 3) == [("a", 1), ("a", 2)]
    assert _runs(index, 3, 4) == [("a", 3)]


def test_a_window_without_runs_is_empty() -> None:
    index = _index((1, 0), (50, 0))
    assert _runs(index, 2, 50) == []
    assert _runs(index, 51, 99) == []
    assert _runs(index, -9, 1) == []


def test_a_window_over_everything_gives_everything() -> None:
    index = _index(*((minute, minute % 3) for minute in range(600)))
    assert len(index.query(START - DAY, START + DAY)) == len(index) == 600


def test_peek_is_the_earliest_run() -> None:
    assert _index((7, 1), (3, 2), (3, 1)).peek() == ScheduledRun("b", START + 3 * MINUTE)


def test_jobs_at_one_time_are_ordered_by_job_id() -> None:
    assert _runs(_index((1, 2), (1, 0), (1, 1)), 0, 2) == [("a", 1), ("b", 1), ("c", 1)]


def test_the_same_run_given_twice_is_held_once() -> None:
    assert len(_index((1, 0), (1, 0), (1, 1))) == 2


def test_a_job_table_out_of_order_is_refused_since_ties_would_be_wrong() -> None:
    empty = np.empty(0, dtype=np.int64)
    with pytest.raises(ValueError, match="not in order"):
        from_unsorted(empty, empty.astype(np.int32), ("b", "a"), START, START + DAY)


@pytest.mark.parametrize("jobs", [50, 5_000, 70_000])
@pytest.mark.parametrize("step", [SECOND, 7 * SECOND + 3])
def test_crowded_or_sparse_whole_seconds_or_not_the_order_is_the_same(jobs: int, step: int) -> None:
    dice = np.random.default_rng(jobs + step)
    times = START + dice.integers(0, 1_000, 60_000) * step
    ordinals = dice.integers(0, jobs, 60_000).astype(np.int32)
    ids = [f"{n:06d}" for n in range(jobs)]
    found = from_unsorted(times, ordinals, ids, START, START + DAY)
    expected = sorted(set(zip(times.tolist(), ordinals.tolist(), strict=True)))
    assert list(zip(found.times.tolist(), found.ordinals.tolist(), strict=True)) == expected


def test_a_query_is_a_view_that_nobody_can_write_to() -> None:
    index = _index((1, 0), (2, 1))
    found = index.query(START, START + HOUR)
    assert found.times.base is not None
    with pytest.raises(ValueError, match="read-only"):
        found.times[0] = 0


def test_a_run_takes_twelve_bytes() -> None:
    snapshot = build_snapshot([Entry(0, "a", cron("* * * * * *"), 0, START + DAY)], IDS, START, START + HOUR, 1)
    assert len(snapshot.all()) == 3_600
    assert snapshot.times.nbytes + snapshot.ordinals.nbytes == 12 * 3_600


def test_a_generation_knows_its_window_its_revision_and_what_failed() -> None:
    entries = [Entry(0, "a", cron("* * * * *"), 0, START + DAY), Entry(1, "b", None, 0, START)]  # type: ignore[arg-type]
    snapshot = build_snapshot(entries, IDS, START, START + HOUR, 42)
    assert (snapshot.start, snapshot.end, snapshot.revision) == (START, START + HOUR, 42)
    assert [ordinal for ordinal, _ in snapshot.failures] == [1]


def test_who_holds_the_old_generation_goes_on_with_it_after_a_swap() -> None:
    index = _index((1, 0))
    held = index.snapshot
    before = index.swap(_index((5, 1), (6, 1)).snapshot)
    assert before is held
    assert len(held.all()) == 1
    assert len(index) == 2


def _uniform(revision: int) -> IndexSnapshot:
    """A generation whose every run bears its revision: any mixture would show."""
    times = np.arange(START, START + 500 * SECOND, SECOND, dtype=np.int64)
    ids = [f"{revision:06d}"]
    return from_unsorted(times, np.zeros(500, dtype=np.int32), ids, START, START + HOUR, revision)


def test_readers_always_see_one_whole_generation_while_others_are_swapped_in() -> None:
    index = ScheduledRunIndex(_uniform(0))
    done, torn, polls = threading.Event(), [], [0, 0, 0]

    def read(reader: int) -> None:
        while not done.is_set():
            found = list(index.query(START, START + HOUR))
            polls[reader] += 1
            if len(found) != 500 or len({run.job_id for run in found}) != 1:
                torn.append(found)

    readers = [threading.Thread(target=read, args=(n,)) for n in range(3)]
    for reader in readers:
        reader.start()
    revision = 0
    while revision == 0 or (min(polls) < 50 and revision < 20_000):
        revision += 1
        index.swap(_uniform(revision))
    done.set()
    for reader in readers:
        reader.join()
    assert not torn
    assert min(polls) > 0
