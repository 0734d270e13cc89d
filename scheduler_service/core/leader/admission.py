"""Admission under load: what may wait while dispatches or reports are late.

Rows of later runs are then created half as far ahead, the index is built half as often. Never delays a dispatch, a
report, or a row that is due within half of the interval.
"""

from typing import Final

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.leader.state import SchedulerState

_LATE: Final = SECOND // 2
# A read of an empty inbox waits for nearly half a second, and only the next one tells that this one reached the end.
_READ_LATE: Final = SECOND


def judge_load(state: SchedulerState, now: Instant) -> None:
    """Note at the beginning of a pass whether the leader is behind."""
    state.load.judged(now, state.settings.pre_schedule_interval // 2, is_behind=_is_behind(state, now))


def _is_behind(state: SchedulerState, now: Instant) -> bool:
    read_until, last_pass = state.inbox.listened.until, state.last_iteration_at  # 0: this leader has not read yet
    unanswered = state.load.unanswered_for(next(iter(state.dispatches.in_progress), None), now)
    return unanswered > _LATE or state.due.has_passed(now - _LATE) or 0 < read_until < last_pass - _READ_LATE
