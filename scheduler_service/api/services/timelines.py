"""The contents of a timeline: single runs while they are few, else counts, of many runs by a sample.

Promises that an answer is bounded: some thousand marks, read from some ten thousand rows, however many runs there are.
Runs that did not succeed are counted one by one even where the others are sampled. Changes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from itinerary.protocol.instants import SECOND, format_instant
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.stores import RunFilter
from scheduler_service.ports.timeline import MOST_COUNTED, RARE_ENDS, Cell, LaneKind, LaneRun, Span, TimelineStore

LANES: Final = 25
PARTS: Final = 100
FEW: Final = 1_000
_SAMPLED: Final = 8_000


class Detail(StrEnum):
    """How a timeline was read."""

    RUNS = "runs"
    COUNTS = "counts"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane with its runs, or its cells in the order of time."""

    name: str | None
    number: int
    runs: Sequence[LaneRun]
    cells: Sequence[Cell]

    @property
    def states(self) -> Counter[RunState]:
        """Return how many runs are in each state."""
        found = Counter(run.state for run in self.runs)
        for cell in self.cells:
            found[cell.state] += cell.number
        return found


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lanes from the `first` on; `lane_count` and `run_count` count all, at least that many where `more`."""

    by: LaneKind
    span: Span
    detail: Detail
    lanes: Sequence[Lane]
    first: int
    lane_count: int
    run_count: int
    more: bool

    @property
    def following(self) -> int | None:
        """Return the place of the first lane that is not shown; None if there is none."""
        behind = self.first + len(self.lanes)
        return behind if behind < self.lane_count else None


def read_timeline(store: TimelineStore, by: LaneKind, span: Span, wanted: RunFilter, first: int) -> Timeline:
    """Read as much detail as the number of runs allows."""
    size = store.size(span, wanted)
    if size.number > MOST_COUNTED:
        one_of = -(-size.number // _SAMPLED)
        sampled = store.sample(by, span, wanted, one_of, first=first, lanes=LANES)
        cells = _with_rare(store, by, span, wanted, sampled.cells)
        return Timeline(
            by, span, Detail.SAMPLE, _of_cells(cells), first, sampled.lanes, min(sampled.runs, size.number), size.more
        )
    few = store.few(by, span, wanted, FEW)
    if few is not None:
        lanes = _of_runs(few)
        return Timeline(by, span, Detail.RUNS, lanes[first : first + LANES], first, len(lanes), len(few), size.more)
    counted = store.counts(by, span, wanted, first=first, lanes=LANES)
    return Timeline(by, span, Detail.COUNTS, _of_cells(counted.cells), first, counted.lanes, counted.runs, size.more)


def _with_rare(
    store: TimelineStore, by: LaneKind, span: Span, wanted: RunFilter, sampled: Sequence[Cell]
) -> list[Cell]:
    """Replace the sampled numbers of rare ends by exact ones: they are what people look for."""
    rare = tuple(sorted(RARE_ENDS & frozenset(wanted.states or RARE_ENDS)))
    names = tuple(dict.fromkeys(cell.lane for cell in sampled))
    if not rare or not names:
        return list(sampled)
    exact = store.counts(by, span, replace(wanted, states=rare), first=0, lanes=LANES, among=names)
    kept = [cell for cell in sampled if cell.state not in RARE_ENDS]
    place = {name: n for n, name in enumerate(names)}
    return sorted([*kept, *exact.cells], key=lambda cell: (place[cell.lane], cell.part, cell.state))


def _of_runs(runs: Iterable[LaneRun]) -> list[Lane]:
    of_lane: dict[str | None, list[LaneRun]] = {}
    for run in runs:
        of_lane.setdefault(run.lane, []).append(run)
    lanes = [
        Lane(name, len(found), sorted(found, key=lambda run: (run.scheduled_at, run.run_id)), ())
        for name, found in of_lane.items()
    ]
    return sorted(lanes, key=lambda lane: (-lane.number, lane.name or ""))


def _of_cells(cells: Iterable[Cell]) -> list[Lane]:
    of_lane: dict[str | None, list[Cell]] = {}
    for cell in cells:
        of_lane.setdefault(cell.lane, []).append(cell)
    return [Lane(name, sum(cell.number for cell in found), (), found) for name, found in of_lane.items()]


def timeline_body(shown: Timeline) -> dict[str, Any]:
    """Return the timeline as JSON."""
    return {
        "by": shown.by.value,
        "since": format_instant(shown.span.since),
        "until": format_instant(shown.span.until),
        "part_seconds": shown.span.width / SECOND,
        "detail": shown.detail.value,
        "run_count": shown.run_count,
        "run_count_is_exact": not shown.more and shown.detail is not Detail.SAMPLE,
        "lane_count": shown.lane_count,
        "next_lane": shown.following,
        "lanes": [
            {
                "name": lane.name,
                "run_count": lane.number,
                "runs": [_run_body(run) for run in lane.runs],
                "parts": _part_bodies(lane, shown.span),
            }
            for lane in shown.lanes
        ],
    }


def _run_body(run: LaneRun) -> dict[str, Any]:
    times = {"scheduled_at": run.scheduled_at, "started_at": run.started_at, "finished_at": run.finished_at}
    return {
        "run_id": run.run_id,
        "state": run.state.value,
        **{name: None if at is None else format_instant(at) for name, at in times.items()},
    }


def _part_bodies(lane: Lane, span: Span) -> list[dict[str, Any]]:
    of_part: dict[int, dict[str, int]] = {}
    for cell in lane.cells:
        of_part.setdefault(cell.part, {})[cell.state.value] = cell.number
    return [
        {"since": format_instant(span.since + part * span.width), "counts": counts} for part, counts in of_part.items()
    ]
