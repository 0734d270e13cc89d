"""Samples are added up without losing or inventing anything, and delays are read from what was counted."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.protocol.instants import MILLISECOND, MINUTE, SECOND
from scheduler_service.core.samples import (
    DELAY_BOUNDS,
    MOST_QUEUES,
    QueueSample,
    Sample,
    busiest,
    delay_quantile,
    in_steps,
    merged,
    total_of,
)

NONE = (0,) * (len(DELAY_BOUNDS) + 1)
numbers = st.integers(0, 1_000)
queue_samples = st.builds(QueueSample, *[numbers] * 7)


def sample(at: int = 0, **others: object) -> Sample:
    return replace(Sample(at, 1, "1", QueueSample(), NONE, 2, 0), **others)  # type: ignore[arg-type]


@given(st.lists(queue_samples, min_size=1), st.randoms())
def test_the_order_in_which_samples_are_added_up_changes_no_figure(found: list[QueueSample], random: object) -> None:
    in_order = merged([sample(total=one, queues={"a": one}) for one in found], 0)
    random.shuffle(found)  # type: ignore[attr-defined]  # random.Random
    assert merged([sample(total=one, queues={"a": one}) for one in found], 0) == in_order
    assert in_order.total.started == sum(one.started for one in found), "what was counted is added"
    assert in_order.total.lag == max(one.lag for one in found), "of what was seen the worst is kept"


def test_merging_keeps_the_fewest_workers_and_the_version_that_held_last() -> None:
    both = merged([sample(workers=3, version="1"), sample(workers=1, version="2", term=2, worker_versions=("1",))], 60)
    assert (both.at, both.workers, both.version, both.term, both.worker_versions) == (60, 1, "2", 2, ("1",))


def test_the_queues_of_one_moment_are_one_total_with_the_longest_lag_and_the_sums() -> None:
    assert total_of({"a": QueueSample(5, 1, 2, 3), "b": QueueSample(4, 1, 0, 1)}) == QueueSample(5, 2, 2, 4)
    assert total_of({}) == QueueSample()


def test_a_sample_names_no_idle_queue_and_of_too_many_the_busiest() -> None:
    many = {f"q{number:03}": QueueSample(started=number) for number in range(MOST_QUEUES + 20)}
    kept = busiest(many)
    assert len(kept) == MOST_QUEUES
    assert "q019" not in kept
    assert "q020" in kept
    assert busiest({"idle": QueueSample()}) == {}


def test_a_step_without_a_sample_is_absent() -> None:
    found = in_steps([sample(at * MINUTE) for at in (0, 1, 2, 25)], 10 * MINUTE)
    assert [at // MINUTE for at in found] == [0, 20]


@pytest.mark.parametrize(("counts", "share", "expected"), [
    ({}, 0.5, None), ({0: 10}, 0.5, 500), ({1: 10}, 1.0, 2500), ({0: 90, 6: 10}, 0.99, 95 * MILLISECOND),
    ({len(DELAY_BOUNDS): 1}, 0.99, 300 * SECOND),
])  # fmt: skip
def test_a_quantile_lies_within_the_bounds_that_were_counted(
    counts: dict[int, int], share: float, expected: int | None
) -> None:
    delays = [counts.get(place, 0) for place in range(len(NONE))]
    assert delay_quantile(delays, share) == expected
