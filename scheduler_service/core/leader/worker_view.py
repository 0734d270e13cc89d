"""The leader's view of a worker. Values only."""

from dataclasses import dataclass

from itinerary.protocol.instants import Duration, Instant


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker process as of its last heartbeat; `left`: that was a farewell. `behind`: how far its clock lags ours."""

    name: str
    last_seen_at: Instant
    concurrency: int
    queues: tuple[str, ...]
    running: tuple[str, ...]
    left: bool
    epoch: str | None = None
    behind: Duration = 0
    protocol: int = 1
