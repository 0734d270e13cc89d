"""Business days: W of cron lines, and the days of a calendar of months, counted by the free days of a calendar."""

from scheduler_service.core.schedules.days import CalendarDays, DayPattern
from scheduler_service.core.schedules.kinds import Schedule, WallSchedule


def counts_workdays(schedule: Schedule) -> bool:
    """Whether the schedule has a part that business days decide."""
    if not isinstance(schedule, WallSchedule):
        return False
    match schedule.wall.days:
        case DayPattern(nearest=nearest, near_end=near_end):
            return bool(nearest or near_end)
        case CalendarDays(unit=unit, month_days=days):
            return unit == "month" and bool(days)
