"""What of the past may go, and how much of it at a time."""

import pytest

from itinerary.protocol.instants import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from scheduler_service.core.contract.pruning import Needs, Pace, Past, horizon, horizon_of, next_horizon

NOW = 1_800_000_000 * SECOND


@pytest.mark.parametrize(
    ("needs", "host_now", "found"),
    [
        (Needs(NOW, NOW, None, NOW - 99 * DAY), NOW, NOW - 30 * DAY),
        (Needs(NOW, NOW, None, NOW - 99 * DAY), NOW - HOUR, NOW - HOUR - 30 * DAY),
        (Needs(NOW + 365 * DAY, NOW + 365 * DAY, None, NOW - 99 * DAY), NOW, NOW - 30 * DAY),
        (Needs(NOW, NOW - 40 * DAY, None, NOW - 99 * DAY), NOW, NOW - 40 * DAY),
        (Needs(NOW, NOW, NOW - 31 * DAY, NOW - 99 * DAY), NOW, NOW - 31 * DAY),
        (Needs(NOW, NOW, NOW - MINUTE, NOW - 99 * DAY), NOW, NOW - 30 * DAY),
        (Needs(NOW, None, None, NOW - 99 * DAY), NOW, None),
    ],
    ids=[
        "so long ago",
        "by the earlier of two clocks",
        "a database's clock that jumped a year ahead of the host's destroys nothing",
        "what is still to be planned after an outage goes nowhere",
        "nor what a version reaches back to that is not planned yet",
        "one of a minute ago is no matter",
        "before anything was planned",
    ],
)
def test_the_horizon_is(needs: Needs, host_now: int, found: int | None) -> None:
    assert horizon(needs, host_now, 30 * DAY) == found


@pytest.mark.parametrize(
    ("now", "history_since", "found"),
    [
        (NOW, NOW - 30 * DAY - MINUTE, NOW - 30 * DAY),
        (NOW + 365 * DAY, NOW - 30 * DAY, NOW - 29 * DAY),
        (NOW, NOW - 99 * DAY, NOW - 98 * DAY),
        (NOW, NOW - 7 * DAY, NOW - 30 * DAY),
        (NOW, None, None),
    ],
    ids=[
        "what grew old since the last one",
        "a day further where the only clock jumped a year ahead",
        "a day further after a long rest",
        "no further than ever where less was kept before",
        "nothing where there is no history",
    ],
)
def test_the_horizon_of_one_sweep_is(now: int, history_since: int | None, found: int | None) -> None:
    assert next_horizon(Needs(now, now, None, history_since), now, 30 * DAY) == found


def test_the_audit_log_is_kept_for_ninety_days_whatever_is_kept_of_runs() -> None:
    assert {past: NOW - horizon_of(past, NOW - 30 * DAY, 30 * DAY) for past in Past} == {
        Past.RUNS: 30 * DAY, Past.GAPS: 30 * DAY, Past.LEADERSHIPS: 30 * DAY, Past.AUDIT_LOG: 90 * DAY,
        Past.FREEZES: 31 * DAY, Past.CALENDAR_VERSIONS: 30 * DAY, Past.JOB_VERSIONS: 30 * DAY, Past.JOBS: 30 * DAY,
        Past.SESSIONS: 30 * DAY, Past.SHARE_LINKS: 30 * DAY,
    }  # fmt: skip
    assert horizon_of(Past.AUDIT_LOG, NOW - 365 * DAY, 365 * DAY) == NOW - 365 * DAY


def test_the_pace_finds_what_fits_into_a_short_transaction_within_bounds() -> None:
    def after(pace: Pace, rows_a_ms: float) -> Pace:
        for _ in range(5):
            pace = pace.after(int(pace.rows / rows_a_ms * MILLISECOND))
        return pace

    assert after(Pace(), rows_a_ms=14).rows == 700
    assert after(Pace(), rows_a_ms=1_000).rows == after(Pace(), rows_a_ms=1e9).rows == 1_000
    assert after(Pace(1_000), rows_a_ms=0.1).rows == 500, "a slow commit is no faster with fewer"
    assert Pace().rest(20 * MILLISECOND) == 40 * MILLISECOND
    assert Pace().rest(SECOND) == 100 * MILLISECOND, "what is slow already must not be late for ever"
