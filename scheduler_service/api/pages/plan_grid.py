"""The calendar's cells as a page shows them: planned runs, ends, closed days, freezes; and the heat of a week. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from itinerary.protocol.instants import Instant
from scheduler_service.api.pages.time_axis import local
from scheduler_service.core.freezes import Freeze
from scheduler_service.core.index.cell_counts import CellCount
from scheduler_service.ports.timeline import Ends

_HEATS: Final = 5


@dataclass(frozen=True, slots=True)
class Box:
    """A day or an hour: `planned` runs of what is to come, `ends` of what is over; None: not counted, or none."""

    begin: Instant
    end: Instant
    day: date
    name: str
    is_now: bool
    other_month: bool
    planned: CellCount | None
    ends: Ends
    closed: tuple[str, ...]
    frozen: tuple[str, ...]

    @property
    def is_bare(self) -> bool:
        """Whether there is nothing to show in it."""
        return not (any(self.ends) or self.closed or self.frozen or (self.planned and self.planned.runs))

    @property
    def more_jobs(self) -> int:
        """Return how many jobs are planned beside those that are named."""
        return self.planned.jobs - len(self.planned.busiest) if self.planned else 0


@dataclass(frozen=True, slots=True)
class HeatCell:
    """An hour of a week: its column is the day, its row the hour that clocks show."""

    column: int
    row: int
    heat: int
    text: str
    link: str


@dataclass(frozen=True, slots=True)
class Heat:
    """A week by hours; `rows` are the same as a table, a row an hour, None where the day has no such hour."""

    cells: tuple[HeatCell, ...]
    days: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int | None, ...]], ...]
    most: int


@dataclass(frozen=True, slots=True)
class Found:
    """The contents of the cells between `edges`; `cells` may be fewer, where counting took too long.

    `since` when runs are counted, if there are too many to count all.
    """

    edges: Sequence[Instant]
    cells: Sequence[CellCount]
    ends: Sequence[Ends]
    closed: Mapping[date, tuple[str, ...]] = field(default_factory=dict)
    freezes: Sequence[Freeze] = ()
    since: Instant | None = None


def boxes(
    found: Found,
    zone: ZoneInfo,
    now: Instant,
    name_of: Callable[[Instant], str],
    beside: Callable[[date], bool],
) -> list[Box]:
    """Return a box for each cell."""
    shown = []
    for n, (begin, end) in enumerate(pairwise(found.edges)):
        day = local(begin, zone).date()
        planned = found.cells[n] if n < len(found.cells) and end > now else None
        frozen = tuple(f"Freeze {one.freeze_id}: {one.reason}" for one in found.freezes if holds(one, begin, end))
        closed = found.closed.get(day, ())
        shown.append(
            Box(
                begin,
                end,
                day,
                name_of(begin),
                begin <= now < end,
                beside(day),
                planned,
                found.ends[n],
                closed,
                frozen,
            )
        )
    return shown


def holds(freeze: Freeze, begin: Instant, end: Instant) -> bool:
    """Whether a freeze holds in a part of this time."""
    return freeze.since < end and (freeze.end is None or freeze.end > begin)


def week_heat(hours: Sequence[Box], zone: ZoneInfo, link: Callable[[Instant], str]) -> Heat:
    """Draw a week of hours: what is planned from now on, and before that what ended."""
    days = list(dict.fromkeys(box.day for box in hours))
    numbers: dict[tuple[int, int], int] = {}
    first: dict[tuple[int, int], Instant] = {}
    for box in hours:
        place = days.index(box.day), local(box.begin, zone).hour
        numbers[place] = numbers.get(place, 0) + (box.planned.runs if box.planned else 0) + sum(box.ends)
        first.setdefault(place, box.begin)
    most = max(numbers.values(), default=0)
    cells = tuple(
        HeatCell(
            column, row, -(-number * _HEATS // most) if most else 0,
            f"{days[column]:%a} {days[column].day} {days[column]:%b}, {row:02d}:00: {number:,} "
            f"{'run' if number == 1 else 'runs'}", link(first[column, row]),
        )
        for (column, row), number in numbers.items()
    )  # fmt: skip
    names = tuple(f"{day:%a} {day.day}" for day in days)
    rows = tuple((f"{hour:02d}:00", tuple(numbers.get((n, hour)) for n in range(len(days)))) for hour in range(24))
    return Heat(cells, names, rows, most)
