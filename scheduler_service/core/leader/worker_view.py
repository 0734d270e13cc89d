"""A worker as the leader knows it."""

from dataclasses import dataclass

from itinerary.protocol.instants import Duration, Instant


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker process as its last heartbeat showed it; `left`: it said goodbye. Its clock is so far `behind` ours."""

    name: str
    last_seen_at: Instant
    concurrency: int
    queues: tuple[str, ...]
    running: tuple[str, ...]
    left: bool
    epoch: str | None = None
    behind: Duration = 0
    protocol: int = 1
