"""A history that builds its job when asked answers as one that holds it, and holds it for a while only."""

from dataclasses import replace

import pytest

from itinerary.protocol.instants import DAY, HOUR, parse_instant
from scheduler_service.core.balancing.balancer import needs_place
from scheduler_service.core.balancing.placements import rhythm_of
from scheduler_service.core.balancing.slot_counts import share_of
from scheduler_service.core.compact_history import CompactHistory, with_planned
from scheduler_service.core.model import JobHistory
from scheduler_service.core.versions import is_plain, spans
from tests.support.balanced import balanced
from tests.support.compact import compact
from tests.support.store_bed import a_job

MADE = parse_instant("2026-11-27T11:22:33Z")
_KEPT = 32_768
_PLAIN = replace(
    a_job("job", title="Job", args=[1], kwargs={"a": 1}, tags=["x"]), created_at=MADE, effective_from=MADE + HOUR
)
_JOBS = {
    "plain": _PLAIN,
    "paused": replace(_PLAIN, paused=True),
    "paused until": replace(_PLAIN, paused=True, paused_until=MADE + DAY),
    "deleted": replace(_PLAIN, deleted=True),
    "bounded": replace(_PLAIN, start_at=MADE + 2 * HOUR, end_at=MADE + DAY),
    "without a place": replace(balanced("balanced", HOUR), version=7),
}


@pytest.mark.parametrize("kind", _JOBS)
def test_it_answers_as_the_history_that_holds_its_job(kind: str) -> None:
    job = _JOBS[kind]
    small, whole = compact(job, 3), JobHistory((job,), 3)
    assert (small.job_id, small.schedule, small.effective_from, small.planned_version) == (
        whole.job_id, whole.schedule, whole.effective_from, 3,
    )  # fmt: skip
    assert is_plain(small) is is_plain(whole)
    assert (share_of(small), rhythm_of(small), needs_place(small)) == (share_of(job), rhythm_of(job), needs_place(job))
    assert spans(small, MADE, MADE + 9 * DAY) == spans(whole, MADE, MADE + 9 * DAY)
    assert small.versions == (job,)
    assert small.current == job


def test_what_is_planned_is_a_history_of_the_same_job_and_equality_sees_it() -> None:
    small, whole = compact(_PLAIN, 0), JobHistory((_PLAIN,), 0)
    assert with_planned(small, 1) == with_planned(whole, 1) == JobHistory((_PLAIN,), 1)
    assert isinstance(with_planned(small, 1), CompactHistory)
    assert small == whole
    assert whole == small
    assert small != with_planned(small, 1)
    assert small != _PLAIN


def test_jobs_with_the_same_values_of_their_own_share_them() -> None:
    one, other = (compact(replace(_PLAIN, job_id=name), 1).current for name in ("one", "other"))
    assert one.kwargs == other.kwargs == {"a": 1}
    assert one.kwargs is other.kwargs


@pytest.mark.slow
def test_a_job_is_built_once_and_forgotten_when_many_others_were_asked_for() -> None:
    small, twice = compact(_PLAIN, 1), compact(_PLAIN, 1)
    built = small.current
    assert twice.__getattr__("versions") == twice.__getattr__("versions") == (built,)  # as by two threads at once
    assert compact(_PLAIN, 1).current == built
    assert small.current is built
    for number in range(_KEPT):
        assert with_planned(small, number).current.job_id == "job"
    again = small.current
    assert again == twice.current == built
    assert again is not built


def test_an_attribute_that_no_history_has_is_an_error() -> None:
    with pytest.raises(AttributeError, match="version"):
        _ = compact(_PLAIN, 1).version
