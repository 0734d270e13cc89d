"""The timeline as a limited token sees it: of the newest thousand runs within its limits. Others' runs do not exist."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from itinerary.protocol.instants import Instant
from scheduler_service.api.services.limited import LimitedRuns
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Total
from scheduler_service.ports.stores import RunFilter
from scheduler_service.ports.timeline import Cell, Counts, Ends, JobEnds, LaneKind, LaneRun, Span, TimelineStore

_MOST: Final = 1_000
_ENDS: Final = (RunState.COMPLETED, RunState.FAILED, RunState.MISSED)


class LimitedTimeline(TimelineStore):
    """TimelineStore by the limited list of runs; runs scheduled earlier that ran into the time are not looked for."""

    def __init__(self, runs: LimitedRuns) -> None:
        self._runs = runs

    def size(self, span: Span, wanted: RunFilter) -> Total:
        page = self._runs.list(_within(span, wanted), _MOST, None)
        return Total(len(page.items), page.next_cursor is not None)

    def few(self, by: LaneKind, span: Span, wanted: RunFilter, most: int) -> list[LaneRun] | None:
        return self._found(by, span, wanted)

    def counts(
        self, by: LaneKind, span: Span, wanted: RunFilter, *, first: int, lanes: int, among: Sequence[str | None] = ()
    ) -> Counts:
        found = [run for run in self._found(by, span, wanted) if not among or run.lane in among]
        sizes = Counter(run.lane for run in found)
        names = sorted(sizes, key=lambda name: (-sizes[name], name or ""))[first : first + lanes]
        counted = Counter((run.lane, (run.scheduled_at - span.since) // span.width, run.state) for run in found)
        cells = [Cell(*key, number) for key, number in counted.items() if key[0] in names]
        in_order = sorted(cells, key=lambda cell: (names.index(cell.lane), cell.part, cell.state))
        return Counts(in_order, len(sizes), len(found))

    def sample(self, by: LaneKind, span: Span, wanted: RunFilter, one_of: int, *, first: int, lanes: int) -> Counts:
        return self.counts(by, span, wanted, first=first, lanes=lanes)

    def ends(self, job_id: str, edges: Sequence[Instant], most: int) -> JobEnds:
        within = RunFilter(job_id=job_id, since=edges[0], until=edges[-1])
        page = self._runs.list(within, min(most, _MOST), None)
        counted = Counter((bisect_right(edges, run.scheduled_at) - 1, run.state) for run in page.items)
        ends = [Ends(*(counted[place, state] for state in _ENDS)) for place in range(len(edges) - 1)]
        return JobEnds(ends, page.items[-1].scheduled_at if page.next_cursor else None)

    def _found(self, by: LaneKind, span: Span, wanted: RunFilter) -> list[LaneRun]:
        page = self._runs.list(_within(span, wanted), _MOST, None)
        return [
            LaneRun(_lane(run, by), run.run_id, run.state, run.scheduled_at, run.started_at, run.finished_at)
            for run in page.items
        ]


def _within(span: Span, wanted: RunFilter) -> RunFilter:
    return replace(wanted, since=span.since, until=span.until)


def _lane(run: Run, by: LaneKind) -> str | None:
    of_run = {LaneKind.JOB: run.job_id, LaneKind.QUEUE: run.queue, LaneKind.WORKER: run.worker}
    return of_run.get(by, run.task)
