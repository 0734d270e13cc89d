"""A timeline as numbers for SVG: bars of single runs, packed in rows, or columns of counts; colour and shape by state.

Positions are in percent of the width, heights in pixels. Pure.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from markupsafe import Markup, escape

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.api.pages.moments import SHAPES, length
from scheduler_service.api.pages.time_axis import local, place
from scheduler_service.api.services.timelines import Detail, Lane, Timeline
from scheduler_service.core.run_state import IN_FLIGHT, RunState
from scheduler_service.ports.timeline import Cell, LaneRun, Span

_ROW: Final = 18
_ROWS: Final = 4
_COLUMN: Final = 18
_EDGE: Final = 3
_SHAPED: Final = 25
_SEEN: Final = 0.4
_TEXT: Final = 11
_PLANNED_STATE: Final = "planned"
PLANNED: Final = "◇"
_NONE: Final[Mapping[str, Sequence[Instant]]] = {}
_BAD: Final = frozenset({RunState.FAILED, RunState.MISSED, RunState.CANCELLED})
# A class of states yields them slowly, and a chart asks for them thousands of times.
_STATES: Final = tuple(RunState)
_GOOD: Final = tuple(state for state in _STATES if state not in _BAD)


class Bar(NamedTuple):
    """A bar with its text and where it leads; `shape` is the mark of its state, or empty; a `point` is a mark alone."""

    x: float
    width: float
    y: int
    height: int
    state: str
    shape: str
    text: str
    link: str

    @property
    def point(self) -> bool:
        """Whether the bar is too short to be seen beside its mark."""
        return bool(self.shape) and self.width < _SEEN

    def svg(self, detail: Detail) -> str:
        """Return the bar as SVG; a template that writes thousands of them takes four times as long."""
        of_runs = detail is Detail.RUNS
        point = " point" if self.point and (of_runs or self.state == _PLANNED_STATE) else ""
        low = self.y + _TEXT if of_runs else _EDGE + _TEXT - 1
        mark = f'<text x="{self.x}%" y="{low}">{self.shape}</text>' if self.shape else ""
        return (
            f'<a href="{escape(self.link)}" tabindex="-1" class="mark {self.state}{point}"><rect x="{self.x}%" '
            f'width="{self.width}%" y="{self.y}" height="{self.height}"/>{mark}<title>{escape(self.text)}</title></a>'
        )


@dataclass(frozen=True, slots=True)
class LaneChart:
    """A lane's bars; `bad` of its runs did not succeed."""

    name: str | None
    number: int
    height: int
    bars: Sequence[Bar]
    states: Sequence[tuple[str, str, int]]

    def svg(self, detail: Detail) -> Markup:
        """Return the lane's bars as SVG."""
        return Markup("\n".join(bar.svg(detail) for bar in self.bars))


@dataclass(frozen=True, slots=True)
class Links:
    """The addresses of bars: a run's page, a job's, and the timeline of a shorter time."""

    run: Callable[[str], str]
    job: Callable[[str], str]
    zoom: Callable[[Instant, Instant], str]


def lane_charts(
    shown: Timeline, zone: ZoneInfo, now: Instant, links: Links, planned: Mapping[str, Sequence[Instant]] = _NONE
) -> list[LaneChart]:
    """Draw every lane, columns to one scale, and the `planned` times of jobs that have no run yet."""
    columns = [_columns(lane.cells) for lane in shown.lanes]
    most = max((states.total() for of_lane in columns for _, states in of_lane), default=1)
    charts, parts = [], _Parts(shown.span, zone, links)
    for lane, of_lane in zip(shown.lanes, columns, strict=True):
        rows = _packed(lane.runs, now)
        bars = [_run_bar(run, row, len(lane.runs), shown.span, zone, now, links) for run, row in rows]
        bars += [bar for part, states in of_lane for bar in _column(parts.of(part), states, most)]
        known = {run.scheduled_at for run in lane.runs}
        to_come = [at for at in planned.get(lane.name or "", ()) if at not in known]
        bars += parts.planned(to_come, links.job(lane.name or "") if to_come else "")
        height = 2 * _EDGE + _ROW * (1 + max((row for _, row in rows), default=0))
        charts.append(LaneChart(lane.name, lane.number, height, bars, _states(lane)))
    return charts


def _states(lane: Lane) -> list[tuple[str, str, int]]:
    states = lane.states
    return [(state.value, SHAPES[state], states[state]) for state in _STATES if states[state]]


def _ends(run: LaneRun, now: Instant) -> tuple[Instant, Instant]:
    """Return when the bar of a run begins and ends; one that has not started is a point."""
    if run.started_at is None:
        return run.scheduled_at, run.scheduled_at
    end = now if run.state in IN_FLIGHT else run.finished_at
    return run.started_at, max(run.started_at, end or run.started_at)


def _packed(runs: Sequence[LaneRun], now: Instant) -> list[tuple[LaneRun, int]]:
    """Put runs that overlap below each other, in four rows at most."""
    ends: list[Instant] = []
    packed = []
    for run in sorted(runs, key=lambda run: _ends(run, now)):
        begin, end = _ends(run, now)
        row = next((n for n, over in enumerate(ends) if over <= begin), len(ends))
        row = min(row, _ROWS - 1)
        ends[row : row + 1] = [max(end, begin + 1)]
        packed.append((run, row))
    return packed


def _run_bar(run: LaneRun, row: int, beside: int, span: Span, zone: ZoneInfo, now: Instant, links: Links) -> Bar:
    begin, end = _ends(run, now)
    x = place(span, begin)
    took = f", {length(end - begin)}" if run.started_at is not None else ""
    text = f"{_clock(run.scheduled_at, zone)} {run.state}{took}: {run.run_id}"
    shape = SHAPES[run.state] if run.state is not RunState.COMPLETED or beside <= _SHAPED else ""
    return Bar(
        x, round(place(span, end) - x, 3), _EDGE + row * _ROW, _ROW - 4, run.state.value, shape, text,
        links.run(run.run_id),
    )  # fmt: skip


def _columns(cells: Sequence[Cell]) -> list[tuple[int, Counter[RunState]]]:
    of_part: dict[int, Counter[RunState]] = {}
    for cell in cells:
        of_part.setdefault(cell.part, Counter())[cell.state] += cell.number
    return list(of_part.items())


class _Parts:
    """The parts of the time, and the planned times, each described once for all lanes."""

    def __init__(self, span: Span, zone: ZoneInfo, links: Links) -> None:
        self._span, self._zone, self._links = span, zone, links
        self._found: dict[int, tuple[float, float, str, str]] = {}
        self._planned: dict[Instant, tuple[float, str]] = {}

    def planned(self, times: Sequence[Instant], link: str) -> Iterator[Bar]:
        """Yield the marks of planned times."""
        for at in times:
            if at not in self._planned:
                self._planned[at] = place(self._span, at), f"{_clock(at, self._zone)} planned"
            x, text = self._planned[at]
            yield Bar(x, 0.0, _EDGE, _ROW - 4, _PLANNED_STATE, PLANNED, text, link)

    def of(self, part: int) -> tuple[float, float, str, str]:
        """Return position, width, text and address of a part."""
        if part not in self._found:
            span = self._span
            begin = span.since + part * span.width
            end = min(begin + span.width, span.until)
            x, text = place(span, begin), f"{_clock(begin, self._zone)} to {_clock(end, self._zone)}"
            width = round(0.9 * (place(span, end) - x), 3)
            self._found[part] = x, width, text, self._links.zoom(begin, max(end, begin + SECOND))
        return self._found[part]


def _column(part: tuple[float, float, str, str], states: Counter[RunState], most: int) -> Iterator[Bar]:
    """Draw a part of the time: what did not succeed at the bottom, with a mark, and above it the others."""
    (x, width, when, link), number = part, states.total()
    height = 3 + round((_COLUMN - 3) * math.sqrt(number / most))
    bad = {state: states[state] for state in _BAD if state in states}
    low = 0 if not bad else height if len(bad) == len(states) else max(3, round(height * sum(bad.values()) / number))
    text = f"{when}: {', '.join([f'{states[state]:,} {state}' for state in _STATES if state in states])}"
    base = _EDGE + _COLUMN
    if bad:
        worst = max(bad, key=lambda state: bad[state])
        yield Bar(x, width, base - low, low, worst.value, SHAPES[worst], text, link)
    if low < height:
        usual = max([state for state in _GOOD if state in states], key=states.__getitem__)
        yield Bar(x, width, base - height, height - low, usual.value, "", text, link)


def _clock(at: Instant, zone: ZoneInfo) -> str:
    wall = local(at, zone)
    return f"{wall:%a} {wall.day} {wall:%b %H:%M:%S}"
