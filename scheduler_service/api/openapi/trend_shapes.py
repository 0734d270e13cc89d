"""The shapes of trends, for the OpenAPI document."""

from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.patterns import Duration, Time


class TrendPoint(BaseModel):
    """One step that a leader sampled: what was counted in it, and the worst of what was seen.

    Steps in which nobody led are absent. Delays are estimates within the bounds of the leader's histogram; null where
    nothing was dispatched, and for one queue.
    """

    at: Time = Field(description="The beginning of the step")
    term: int
    started: int = Field(description="Attempts that began to run")
    completed: int
    failed: int
    missed: int
    pending: int = Field(description="Most runs that were dispatched and not started")
    running: int = Field(description="Most runs at once")
    lag: Duration = Field(description="How long the longest waiting run was overdue at most")
    dispatch_delay_p50: Duration | None
    dispatch_delay_p99: Duration | None
    workers: int | None = Field(description="Fewest workers alive; null for one queue")
    inbox_lag: Duration | None = Field(description="How far the leader's reading was behind; null for one queue")


class TrendMark(BaseModel):
    """A change that may explain what follows."""

    at: Time
    kind: Literal["leader", "version", "freeze", "queue"]
    text: str


class TrendsOut(BaseModel):
    """The samples of a window, of all queues or of one, by equal steps from `from` on."""

    start: Time = Field(alias="from")
    end: Time = Field(alias="to")
    step: Duration
    queue: str | None
    points: list[TrendPoint]
    marks: list[TrendMark]


TRENDS: Final[dict[str, Any]] = {
    "from": "2026-12-01T00:00:00Z", "to": "2026-12-01T01:00:00Z", "step": "1m", "queue": None,
    "points": [
        {
            "at": "2026-12-01T00:00:00Z", "term": 7, "started": 120, "completed": 118, "failed": 1, "missed": 0,
            "pending": 9, "running": 4, "lag": "1200ms", "dispatch_delay_p50": "4ms", "dispatch_delay_p99": "19ms",
            "workers": 2, "inbox_lag": "0s",
        }
    ],
    "marks": [{"at": "2026-12-01T00:00:00Z", "kind": "leader", "text": "a leader began term 7"}],
}  # fmt: skip
