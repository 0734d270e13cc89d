"""Warnings about clock changes: a fixed time is skipped or repeated, or a rhythm's wall time moves.

Promises date and effect of the next change that matters. A warning never changes what fires.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from itinerary.protocol.instants import SECOND, format_instant
from scheduler_service.core.schedules.clock_rules import FIXED, ClockRule
from scheduler_service.core.schedules.days import Dates
from scheduler_service.core.schedules.kinds import RuleSchedule
from scheduler_service.core.schedules.recurrence import hours_of, wall_times_from
from scheduler_service.core.schedules.wall_times import WallTimes, times_of_day
from scheduler_service.core.schedules.zone_eras import cached_by_rules
from scheduler_service.core.schedules.zones import DAY_SECONDS, Transition, changes_between

_AHEAD: Final = 400 * DAY_SECONDS


def clock_warnings(wall: WallTimes, since: int) -> tuple[str, ...]:
    """Describe the effect of the zone's clock changes on this schedule in the 400 days from `since` (seconds)."""
    if wall.rule.wildcard:
        found = (_skipped_day(wall, jump) for jump in _jumps(wall.zone, since))
    else:
        meant = partial(_meant_between, wall)
        found = (_warning(wall.zone, wall.rule, meant, jump) for jump in _jumps(wall.zone, since))
    return tuple(dict.fromkeys(text for text in found if text))[:2]


def rule_warnings(schedule: RuleSchedule, since: int) -> tuple[str, ...]:
    """Describe the effect of the clock changes in the 400 days from `since` (seconds) on a recurrence rule."""
    hours = hours_of(schedule)

    def meant(low: int, high: int) -> bool:
        within = {hour % 24 for hour in range(low // 3600, (high - 1) // 3600 + 1)}
        return not hours.isdisjoint(within) and next(wall_times_from(schedule, low, 2), high) < high

    found = (_warning(schedule.zone, FIXED, meant, jump) for jump in _jumps(schedule.zone, since))
    return tuple(dict.fromkeys(text for text in found if text))[:2]


def rhythm_warnings(zone: str, since: int) -> tuple[str, ...]:
    """Describe the effect of the next clock change after `since` (seconds) on a rhythm of days: its wall time moves."""
    for jump in _jumps(zone, since):
        if jump.before != jump.after:
            return (
                f"an interval counts elapsed time: from {_date(jump.at + jump.after)} on, when the clocks of {zone} "
                "change, it runs at another wall time; a calendar schedule keeps the wall time",
            )
    return ()


@cached_by_rules(maxsize=4_096)
def _jumps(zone: str, since: int) -> tuple[Transition, ...]:
    return changes_between(zone, since, since + _AHEAD)


def _warning(zone: str, rule: ClockRule, meant: Callable[[int, int], bool], jump: Transition) -> str:
    low, high = sorted((jump.at + jump.before, jump.at + jump.after))
    if high - low >= DAY_SECONDS or not meant(low, high):
        return ""
    stretch = f"{_clock(low)} to {_clock(high)} on {_date(low)} in {zone}"
    if jump.after > jump.before:
        return f"the clocks skip {stretch}: a run due then {_gap_message(rule, high)}"
    return f"the clocks show {stretch} twice: a run due then {_fold_message(rule)}"


def _skipped_day(wall: WallTimes, jump: Transition) -> str:
    """Describe the loss of a job that follows elapsed time: a day whose times are all skipped."""
    low, high = jump.at + jump.before, jump.at + jump.after
    day = low - low % DAY_SECONDS
    if not 0 < high - low < DAY_SECONDS or not _meant_between(wall, low, high):
        return ""
    if _meant_between(wall, day, low) or _meant_between(wall, high, day + DAY_SECONDS):
        return ""
    stretch = f"{_clock(low)} to {_clock(high)} on {_date(low)} in {wall.zone}"
    return f"the clocks skip {stretch}: the job does not run on that day"


def _meant_between(wall: WallTimes, low: int, high: int) -> bool:
    if high <= low:
        return False
    days = np.arange(low // DAY_SECONDS, (high - 1) // DAY_SECONDS + 1)
    meant = days[wall.days.matches(Dates.of(days))]
    local = (meant[:, None] * DAY_SECONDS + times_of_day(wall.blocks)[None, :]).ravel()
    return bool(((local >= low) & (local < high)).any())


def _gap_message(rule: ClockRule, ends: int) -> str:
    match rule.gap:
        case "next_valid":
            return f"starts at {_clock(ends)} instead, once"
        case "shift":
            return "starts as much later as the clocks skip"
        case "skip":
            return "is left out"


def _fold_message(rule: ClockRule) -> str:
    match rule.fold:
        case "first":
            return "starts once, the first time"
        case "last":
            return "starts once, the second time"
        case "both":
            return "starts both times; set dst_fold to 'first' to have it once"


def _clock(local: int) -> str:
    return format_instant(local * SECOND)[11:16]


def _date(local: int) -> str:
    return format_instant(local * SECOND)[:10]
