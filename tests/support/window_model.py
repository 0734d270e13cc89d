"""A plain model of an interval within a window: it reads the zone's clock at each minute, as a person would."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from scheduler_service.core.schedules.zones import zone as load_zone

_DAY = 86_400


@dataclass
class Window:
    """What such an interval means, in seconds."""

    zone: str
    every: int
    offset: int
    opens: int
    closes: int
    weekdays: set[int]
    """0 is Sunday."""

    def fires(self, start: int, end: int) -> list[int]:
        """The seconds in [start, end) at which it fires."""
        return sorted(second for second in self._watched(start, end) if start <= second < end)

    def _watched(self, start: int, end: int) -> Iterator[int]:
        info = load_zone(self.zone)
        reached: int | None = None
        opened, closes_at = None, 0
        for minute in range(start - start % 60 - 4 * _DAY, end, 60):
            wall = _seconds(datetime.fromtimestamp(minute, info))
            if opened is not None and wall >= closes_at:
                opened = None
            if reached is None or wall > reached:
                skipped = 0 if reached is None else wall - reached - 60
                for each in range(wall if reached is None else reached + 60, wall + 60, 60):
                    closing = each - self.opens + self.closes
                    if self._opens(each) and (each == wall or skipped < _DAY) and closing > wall:
                        opened, closes_at = minute, closing
                reached = wall
            if opened is not None:
                first = -(-max(0, minute - opened - self.offset) // self.every) * self.every
                yield from range(opened + self.offset + first, minute + 60, self.every)

    def _opens(self, wall: int) -> bool:
        return wall % _DAY == self.opens and (wall // _DAY + 4) % 7 in self.weekdays


def _seconds(clock: datetime) -> int:
    return (clock.toordinal() - 719_163) * _DAY + clock.hour * 3600 + clock.minute * 60 + clock.second
