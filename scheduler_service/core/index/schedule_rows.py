"""The distinct wall-time schedules of a schedule table as columns: one row per block of hours and minutes, as masks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler_service.core.schedules.clock_rules import ClockRule
from scheduler_service.core.schedules.days import DayPattern, Days
from scheduler_service.core.schedules.moved_days import MovedDays
from scheduler_service.core.schedules.wall_times import Clockwork, WallTimes

Ints = NDArray[np.int64]
ON_THE_MINUTE: Final = 1
# A calendar's days are looked up one by one; its row holds this placeholder.
_ANY_DAY: Final = DayPattern(days=0, months=0, weekdays=0, either=False)


@dataclass(frozen=True, slots=True)
class Group:
    """The rows [first, last) whose schedules share one zone and one clock rule."""

    zone: str
    rule: ClockRule
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Distinct wall-time schedules, column by column; their text became masks when the job was saved."""

    groups: tuple[Group, ...]
    hours: NDArray[np.uint32]
    minutes: NDArray[np.uint64]
    days: NDArray[np.uint32]
    months: NDArray[np.uint16]
    weekdays: NDArray[np.uint8]
    either: NDArray[np.bool_]
    special: tuple[tuple[Days, Ints], ...]
    """Days that no mask can hold, with their rows."""
    moved: tuple[tuple[MovedDays, Ints], ...]
    """Days that masks hold, but for those that move off closed ones, with their rows."""
    seconds: NDArray[np.uint64]
    on_minute: NDArray[np.bool_]
    walls: tuple[WallTimes, ...]

    @classmethod
    def of(cls, walls: Sequence[WallTimes], blocks: Sequence[Clockwork]) -> "Rows":
        """Build the rows of these blocks, each with its schedule; rows of one clock are adjacent."""
        masks = [_masks(w.days) for w in walls]
        return cls(
            groups=_groups(walls),
            hours=np.asarray([b.hours for b in blocks], dtype=np.uint32),
            minutes=np.asarray([b.minutes for b in blocks], dtype=np.uint64),
            days=np.asarray([d.days for d in masks], dtype=np.uint32),
            months=np.asarray([d.months for d in masks], dtype=np.uint16),
            weekdays=np.asarray([d.weekdays for d in masks], dtype=np.uint8),
            either=np.asarray([d.either for d in masks], dtype=np.bool_),
            special=_special(walls),
            moved=_moved(walls),
            seconds=np.asarray([b.seconds for b in blocks], dtype=np.uint64),
            on_minute=np.asarray([b.seconds == ON_THE_MINUTE for b in blocks], dtype=np.bool_),
            walls=tuple(walls),
        )

    def with_more(self, more: "Rows") -> "Rows":
        """Append more rows after these; a clock may then have several groups."""
        size = self.hours.size
        return Rows(
            groups=self.groups + tuple(Group(g.zone, g.rule, g.first + size, g.last + size) for g in more.groups),
            hours=np.concatenate([self.hours, more.hours]),
            minutes=np.concatenate([self.minutes, more.minutes]),
            days=np.concatenate([self.days, more.days]),
            months=np.concatenate([self.months, more.months]),
            weekdays=np.concatenate([self.weekdays, more.weekdays]),
            either=np.concatenate([self.either, more.either]),
            special=self.special + tuple((days, rows + size) for days, rows in more.special),
            moved=self.moved + tuple((days, rows + size) for days, rows in more.moved),
            seconds=np.concatenate([self.seconds, more.seconds]),
            on_minute=np.concatenate([self.on_minute, more.on_minute]),
            walls=self.walls + more.walls,
        )


def clock_key(wall: WallTimes) -> tuple[Any, ...]:
    """The sort key that puts schedules of one clock next to each other."""
    return wall.zone, wall.rule.wildcard, wall.rule.gap, wall.rule.fold


def _masks(days: Days) -> DayPattern:
    pattern = days.days if isinstance(days, MovedDays) else days
    return pattern if isinstance(pattern, DayPattern) else _ANY_DAY


def _is_masked(days: Days) -> bool:
    return isinstance(days, MovedDays) and days.days.simple


def _moved(walls: Sequence[WallTimes]) -> tuple[tuple[MovedDays, Ints], ...]:
    found: dict[tuple[int, bool], tuple[MovedDays, list[int]]] = {}
    for row, wall in enumerate(walls):
        days = wall.days
        if isinstance(days, MovedDays) and days.days.simple:
            found.setdefault((id(days.closed), days.back), (days, []))[1].append(row)
    return tuple((days, np.asarray(rows)) for days, rows in found.values())


def _special(walls: Sequence[WallTimes]) -> tuple[tuple[Days, Ints], ...]:
    by_days: dict[int, list[int]] = {}
    for row, wall in enumerate(walls):
        if not (wall.days.simple or _is_masked(wall.days)):
            by_days.setdefault(id(wall.days), []).append(row)
    return tuple((walls[rows[0]].days, np.asarray(rows)) for rows in by_days.values())


def _groups(walls: Sequence[WallTimes]) -> tuple[Group, ...]:
    cuts = [n for n in range(len(walls)) if n == 0 or clock_key(walls[n]) != clock_key(walls[n - 1])]
    ends = [*cuts[1:], len(walls)] if walls else []
    pairs = zip(cuts, ends, strict=True)
    return tuple(Group(walls[a].zone, walls[a].rule, a, b) for a, b in pairs)
