"""The topics of notifications. Light to import: settings name them."""

from enum import StrEnum
from typing import Final


class Topic(StrEnum):
    """The subject matter of a notice; also the `type` of its message."""

    RUN_FAILED = "run.failed"
    RUN_MISSED = "run.missed"
    RUN_LATE = "run.late"
    RUN_OVERLONG = "run.overlong"
    SLA_MISSED = "run.sla_missed"
    JOB_ENDED = "job.no_next_run"
    CALENDAR_STALE = "calendar.stale"
    MONITOR_DOWN = "monitor.down"
    MONITOR_UP = "monitor.up"
    LEADER_LOST = "leader.lost"
    LEADER_ABSENT = "leader.absent"
    TEST = "notify.test"


CONDITIONS: Final = frozenset(
    {Topic.RUN_LATE, Topic.RUN_OVERLONG, Topic.JOB_ENDED, Topic.CALENDAR_STALE, Topic.LEADER_ABSENT}
)
"""Topics that hold for a time and then end; the others are events."""

TOPICS: Final = frozenset(Topic) - {Topic.TEST}
