"""What is counted many at a time is shown as the client library's own histogram shows it."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from scheduler_service.metrics.bulk_histogram import BulkHistogram

BUCKETS = (0.001, 0.5, 1.0, 300.0)
SECONDS = st.one_of(st.sampled_from(BUCKETS), st.integers(0, 10**9).map(lambda micros: micros / 1e6))


@pytest.mark.slow
@given(st.lists(st.lists(SECONDS)))
def test_it_shows_what_the_librarys_own_shows(batches: Sequence[Sequence[float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    bulk = BulkHistogram("delay_seconds", "From due to sent", BUCKETS, ours)
    single = Histogram("delay_seconds", "From due to sent", buckets=BUCKETS, registry=theirs)
    for batch in batches:
        bulk.observe(batch)
        for value in batch:
            single.observe(value)
    assert _lines(ours) == _lines(theirs)


def _lines(registry: CollectorRegistry) -> list[str]:
    """Without the time of its making, which only a library's own metric has."""
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]
