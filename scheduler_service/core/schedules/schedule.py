"""Schedules: reading a spec, and the occurrences of one schedule.

The public face of this package: other modules import what they need of schedules from here.
"""

from scheduler_service.core.schedules.closed import ClosedSchedule, own_schedule
from scheduler_service.core.schedules.jitter import jitter_of
from scheduler_service.core.schedules.kinds import (
    UNPLACED,
    CalendarSchedule,
    CronSchedule,
    HourlySchedule,
    IntervalSchedule,
    OnceSchedule,
    RuleSchedule,
    Schedule,
    SolarSchedule,
    UnionSchedule,
    WindowSchedule,
    zone_of,
)
from scheduler_service.core.schedules.solar_times import EVENTS as SOLAR_EVENTS
from scheduler_service.core.schedules.specs import (
    SPEC_FIELDS,
    ParsedSchedule,
    canonical_spec,
    depends_on_creation,
    depends_on_id,
    in_own_dialect,
    parse_schedule,
)
from scheduler_service.core.schedules.stepping import count, latest, next_after, occurrences, upcoming

__all__ = [
    "SOLAR_EVENTS",
    "SPEC_FIELDS",
    "UNPLACED",
    "CalendarSchedule",
    "ClosedSchedule",
    "CronSchedule",
    "HourlySchedule",
    "IntervalSchedule",
    "OnceSchedule",
    "ParsedSchedule",
    "RuleSchedule",
    "Schedule",
    "SolarSchedule",
    "UnionSchedule",
    "WindowSchedule",
    "canonical_spec",
    "count",
    "depends_on_creation",
    "depends_on_id",
    "in_own_dialect",
    "jitter_of",
    "latest",
    "next_after",
    "occurrences",
    "own_schedule",
    "parse_schedule",
    "upcoming",
    "zone_of",
]
