"""What notifications can be about. Light to import: settings name them."""

from enum import StrEnum
from typing import Final


class Topic(StrEnum):
    """What a notice is about; also the `type` of its message."""

    RUN_FAILED = "run.failed"
    RUN_MISSED = "run.missed"
    RUN_LATE = "run.late"
    RUN_OVERLONG = "run.overlong"
    JOB_ENDED = "job.no_next_run"
    LEADER_LOST = "leader.lost"
    LEADER_ABSENT = "leader.absent"
    TEST = "notify.test"


CONDITIONS: Final = frozenset({Topic.RUN_LATE, Topic.RUN_OVERLONG, Topic.JOB_ENDED, Topic.LEADER_ABSENT})
"""What holds for a time and then is over; the others happen."""

TOPICS: Final = frozenset(Topic) - {Topic.TEST}
