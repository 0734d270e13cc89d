"""The timeline as a limited token sees it: of the newest thousand runs within its limits. Others' runs do not exist."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from scheduler_service.api.services.limited import LimitedRuns
from scheduler_service.core.model import Run
from scheduler_service.ports.history import Total
from scheduler_service.ports.stores import RunFilter
from scheduler_service.ports.timeline import Cell, Counts, LaneKind, LaneRun, Span, TimelineStore

_MOST: Final = 1_000


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
