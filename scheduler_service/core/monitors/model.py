"""A monitor: a schedule with a grace by which something outside must ping, and what is known of its pings. Values."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from itinerary.protocol.instants import MINUTE, Duration, Instant

if TYPE_CHECKING:  # schedules load numpy
    from scheduler_service.core.calendars.model import JobCalendars
    from scheduler_service.core.schedules.schedule import Schedule

DEFAULT_GRACE: Duration = 5 * MINUTE


class MonitorState(StrEnum):
    """The state of a monitor. `late` is shown, not stored: its ping is due and its grace runs."""

    NEW = "new"
    UP = "up"
    LATE = "late"
    DOWN = "down"
    PAUSED = "paused"


class PingOutcome(StrEnum):
    """The message of a ping."""

    START = "start"
    SUCCESS = "success"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class MonitorContent:
    """The definition of a monitor; where pings are judged, `schedule` is as the calendars leave it."""

    schedule: "Schedule"
    schedule_spec: Mapping[str, Any]
    grace: Duration = DEFAULT_GRACE
    title: str = ""
    description: str = ""
    paused: bool = False
    calendars: "JobCalendars | None" = None


@dataclass(frozen=True, slots=True)
class Monitor:
    """A monitor as stored. `alert_at`: it goes down then unless it is pinged; None while nothing is expected.

    `content` is None where this program cannot read it: a newer one's, or of a zone that is gone. `source` owns it.
    """

    monitor_id: str
    version: int
    content: MonitorContent | None
    state: MonitorState
    created_at: Instant
    updated_at: Instant
    expected_at: Instant | None = None
    alert_at: Instant | None = None
    started_at: Instant | None = None
    last_ping_at: Instant | None = None
    last_outcome: PingOutcome | None = None
    last_duration: Duration | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class MonitorPing:
    """A ping that came."""

    at: Instant
    outcome: PingOutcome
    duration: Duration | None
