"""The data of the panel "Schedule distribution" and its dialog: charts as numbers for the template, reasons as text.

Hours are those of the clocks of the reader's zone, as on the calendar that a bar leads to.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlencode

from itinerary.protocol.instants import MINUTE, Instant, parse_instant
from scheduler_service.api.pages.plan_days import hour_edges
from scheduler_service.api.pages.reader_zone import reader_zone, wall_time
from scheduler_service.api.pages.time_axis import local
from scheduler_service.core.explain.relative import rough
from scheduler_service.core.schedules.zones import zone

_SLOT_MINUTES: Final = 15
_SLOT: Final = _SLOT_MINUTES * MINUTE
_HEATS: Final = 5
_TICKS: Final = 4
LISTED: Final = 200
REASONS: Final = {
    "job_running": "is running",
    "protection_window": "runs within the next 30 minutes",
    "placement_cooldown": "was placed less than an hour ago",
    "pinned": "is pinned",
    "changed": "was changed meanwhile",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour: its position from the left, its height in percent of the chart, and whether it is the marked peak.

    Of a `partial` one the window has not all quarters. `link` leads to its jobs.
    """

    place: int
    label: str
    count: int
    height: float
    peak: bool
    partial: bool
    link: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A quarter of an hour in the heat map; `heat` from 0 (nothing) to 5 (the most)."""

    column: int
    row: int
    at: str
    count: int
    heat: int


@dataclass(frozen=True, slots=True)
class Chart:
    """24 hours, or 25 if the first is a partial one; `scale` is the load of a bar of full height."""

    bars: tuple[Bar, ...]
    cells: tuple[Cell, ...]
    most: int
    scale: int

    @property
    def columns(self) -> int:
        """Return how many hours are drawn."""
        return len(self.bars)

    @property
    def ticks(self) -> list[tuple[int, float]]:
        """Return round loads, at most four, with their distance from the top in percent."""
        tenth = 10 ** (len(str(self.scale)) - 1)
        steps = (step for step in (tenth // 5, tenth // 2, tenth, 2 * tenth, 5 * tenth) if step)
        step = next(step for step in steps if self.scale // step <= _TICKS)
        return [(load, round(100 - 100 * load / self.scale, 2)) for load in range(step, self.scale + 1, step)]

    @property
    def peak_text(self) -> str:
        """Name the marked hour, and how many others are as high."""
        if self.most == 0:
            return "runs"
        marked = next(bar for bar in self.bars if bar.peak)
        equal = sum(bar.count == self.most for bar in self.bars) - 1
        more = f", and in {equal} other hour{'' if equal == 1 else 's'}" if equal else ""
        return f"runs from {marked.label} {reader_zone().name}{more}"


@dataclass(frozen=True, slots=True)
class Shift:
    """A job's next run before and after."""

    job_id: str
    before: str
    after: str
    distance: str
    why: str


def chart(first_slot: Instant, loads: Sequence[int], *, beside: Sequence[int] = ()) -> Chart:
    """Draw the chart of these loads, to the same scale as the loads `beside` it; the first highest hour is marked."""
    times = [first_slot + n * _SLOT for n in range(len(loads) + 1)]
    begins = [n for n, at in enumerate(times[:-1]) if n == 0 or _is_whole(at)]
    hours, others = ([sum(of[a:b]) for a, b in pairwise([*begins, len(loads)])] for of in (loads, beside))
    highest, link = max(hours, default=0), _hour_links()
    peak = hours.index(highest) if highest else None
    scale = max(1, highest, *others)
    ends = [*begins[1:], len(loads)]
    bars = tuple(
        Bar(
            n, f"{_clock(times[begin])[:2]}:00", count, 100 * count / scale, n == peak,
            not (_is_whole(times[begin]) and _is_whole(times[end])), link(times[begin]),
        )
        for n, (count, begin, end) in enumerate(zip(hours, begins, ends, strict=True))
    )  # fmt: skip
    return Chart(bars, _cells(times, begins, loads, max(1, *loads, *beside)), highest, scale)


def _hour_links() -> Callable[[Instant], str]:
    """Return how to address an hour of the calendar, in the zone of this page."""
    shown = reader_zone()
    shown_in = zone(shown.name)
    edges: dict[date, list[Instant]] = {}

    def link(at: Instant) -> str:
        day = local(at, shown_in).date()
        if day not in edges:
            edges[day] = hour_edges([day], shown_in)
        asked = {"view": "day", "date": day.isoformat(), **({"tz": shown.name} if shown.named else {})}
        return f"/calendar?{urlencode(asked)}#h{bisect_right(edges[day], at) - 1}"

    return link


def _is_whole(at: Instant) -> bool:
    """Whether an hour of the reader's clocks begins."""
    return _clock(at).endswith(":00")


def _cells(times: Sequence[Instant], begins: Sequence[int], loads: Sequence[int], heaviest: int) -> tuple[Cell, ...]:
    return tuple(
        Cell(
            bisect_right(begins, n) - 1, int(clock[3:]) // _SLOT_MINUTES, clock, load, -(-load * _HEATS // heaviest)
        )
        for n, load in enumerate(loads)
        for clock in [_clock(times[n])]
    )  # fmt: skip


def distribution_chart(seen: Mapping[str, Any]) -> Chart:
    """Draw the chart of an answer of `GET /scheduler/distribution`."""
    loads = [slot["job_count"] for slot in seen["slot_distribution"]]
    return chart(parse_instant(seen["window_start"]), loads)


def plan_charts(plan: Mapping[str, Any]) -> tuple[Chart, Chart]:
    """Draw the loads before and after, to one scale."""
    first = parse_instant(plan["first_slot"])
    before, after = plan["current_slots"], plan["projected_slots"]
    return chart(first, before, beside=after), chart(first, after, beside=before)


def shifts(moves: Sequence[Mapping[str, str]], before: str, after: str) -> list[Shift]:
    """Describe the first moves of a list, each with its distance."""
    return [
        Shift(move["job_id"], move[before], move[after], _distance(move[before], move[after]), move.get("why", ""))
        for move in moves[:LISTED]
    ]


def _distance(before: str, after: str) -> str:
    later = parse_instant(after) - parse_instant(before)
    return f"{rough(abs(later))} {'later' if later > 0 else 'earlier'}"


def skips_by_reason(skips: Sequence[Mapping[str, str]]) -> list[tuple[str, list[str]]]:
    """Group the jobs that are not moved, by the reason's text."""
    found: dict[str, list[str]] = {}
    for skip in skips:
        found.setdefault(REASONS.get(skip["reason"], skip["reason"]), []).append(skip["job_id"])
    return list(found.items())


def _clock(at: Instant) -> str:
    return wall_time(at)[11:16]
