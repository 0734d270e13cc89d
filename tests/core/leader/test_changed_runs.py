"""Runs in the leader's memory: their quick copies are what `_replace` gives."""

from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.changed_runs import now_in, now_pending, now_running
from scheduler_service.core.model import ActiveRun, RunKind
from scheduler_service.core.run_state import RunState

RUN = ActiveRun(
    "a_2026-11-30T10:00:00Z", RunKind.OCCURRENCE, "a", 3, "mail", 4, 10, 11, RunState.SCHEDULED, 2, timeout=9,
    published_at=8, start_by=7, limits=(LimitUse("api"),), lane="api", forced=True,
)  # fmt: skip


def test_a_quick_copy_changes_what_it_names_and_nothing_else() -> None:
    assert now_in(RUN, RunState.COMPLETED) == RUN._replace(state=RunState.COMPLETED)
    assert now_pending(RUN, 5, 6) == RUN._replace(state=RunState.PENDING, seq=5, pending_at=6)
    assert now_running(RUN, 7, "w") == RUN._replace(state=RunState.RUNNING, started_at=7, worker="w")
