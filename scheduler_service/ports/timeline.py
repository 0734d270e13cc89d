"""The port of the timeline: which runs fell into a time, one by one while they are few, else counted.

An implementation promises that an answer reads a bounded number of runs, however many there are. It never writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.run_state import FINAL, RunState
from scheduler_service.ports.history import Total
from scheduler_service.ports.stores import RunFilter

MOST_COUNTED: Final = 25_000
"""A span with more runs is sampled."""
RARE_ENDS: Final = FINAL - {RunState.COMPLETED}
"""The ends of runs that an index finds, however many others lie between."""


class LaneKind(StrEnum):
    """The field that the runs of one lane have in common."""

    JOB = "job"
    QUEUE = "queue"
    WORKER = "worker"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class Span:
    """The time [since, until) of a timeline, in parts of equal width; the last one may reach beyond the end."""

    since: Instant
    until: Instant
    parts: int

    @property
    def width(self) -> Duration:
        """Return the length of a part."""
        return max(1, -(-(self.until - self.since) // self.parts))

    def each(self) -> list[tuple[Instant, Instant]]:
        """Return beginning and end of each part."""
        return [(at, min(at + self.width, self.until)) for at in range(self.since, self.until, self.width)]


@dataclass(frozen=True, slots=True)
class LaneRun:
    """A run with the name of its lane; None: it has no job, or no worker has started it."""

    lane: str | None
    run_id: str
    state: RunState
    scheduled_at: Instant
    started_at: Instant | None
    finished_at: Instant | None


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of one state scheduled in one part of the span."""

    lane: str | None
    part: int
    state: RunState
    number: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The cells of some lanes; `lanes` and `runs` count all that were read, also those of other lanes."""

    cells: Sequence[Cell]
    lanes: int
    runs: int


class Ends(NamedTuple):
    """How many runs ended how."""

    completed: int = 0
    failed: int = 0
    missed: int = 0


class JobEnds(NamedTuple):
    """The ends of a job's runs by consecutive times; `since` when they are counted, if not all are."""

    ends: Sequence[Ends]
    since: Instant | None = None


class TimelineStore(Protocol):
    """Runs by their scheduled time, of everything or as the filter says; its own `since` and `until` do not count."""

    def size(self, span: Span, wanted: RunFilter) -> Total:
        """How many runs of this job, queue or rare end the span has, whatever else the filter says.

        Exact up to MOST_COUNTED; beyond it at most 1,000 of each hundredth of the span are counted.
        """

    def few(self, by: LaneKind, span: Span, wanted: RunFilter, most: int) -> list[LaneRun] | None:
        """The runs scheduled in the span, and those scheduled earlier that ran into it; None if there are over `most`.

        Of those scheduled earlier all that run still are found, and of those that are over the ones among the last
        10,000 before the span.
        """

    def counts(
        self, by: LaneKind, span: Span, wanted: RunFilter, *, first: int, lanes: int, among: Sequence[str | None] = ()
    ) -> Counts:
        """Count the newest MOST_COUNTED runs of the span, or only those of the lanes `among`.

        The lanes with most runs come first, `lanes` of them from the `first` on.
        """

    def sample(self, by: LaneKind, span: Span, wanted: RunFilter, one_of: int, *, first: int, lanes: int) -> Counts:
        """Count as `counts` does by one run of so many; of a hundredth of the span 1,000 at most."""

    def ends(self, job_id: str, edges: Sequence[Instant], most: int) -> JobEnds:
        """How the newest `most` runs of the job ended that were scheduled between each edge and the next."""
