"""The figures that leaders counted, step by step, and the changes meanwhile."""

from dataclasses import dataclass, field
from datetime import datetime

from itinerary.client.results.record import Answer, Record


@dataclass(frozen=True, eq=False)
class TrendPoint(Record):
    """One step that a leader sampled; steps in which nobody led are absent."""

    at: datetime
    term: int
    started: int
    completed: int
    failed: int
    missed: int
    pending: int
    running: int
    lag: str
    dispatch_delay_p50: str | None
    dispatch_delay_p99: str | None
    workers: int | None
    inbox_lag: str | None


@dataclass(frozen=True, eq=False)
class TrendMark(Record):
    """A change of the leader or of versions, a freeze, or a pause of a queue."""

    at: datetime
    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Trends(Answer):
    """The steps of a window, of all queues or of one."""

    start: datetime = field(metadata={"json": "from"})
    end: datetime = field(metadata={"json": "to"})
    step: str
    queue: str | None
    points: list[TrendPoint]
    marks: list[TrendMark]
