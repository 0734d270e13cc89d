"""How far running attempts have come, by their heartbeats. In memory only: the next heartbeat says it again."""

from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from itinerary.protocol.instants import Instant, format_instant
from itinerary.protocol.progress import Progress

_MOST: Final = 20_000


@dataclass(frozen=True, slots=True)
class ShownProgress:
    """The latest progress of a run's attempt; `at`: when it last changed, as the leader saw it."""

    value: Progress
    at: Instant

    def body(self) -> dict[str, Any]:
        """The progress as JSON."""
        return {**self.value._asdict(), "at": format_instant(self.at)}


@dataclass(slots=True)
class RunProgress:
    """The progress by run, the last changed at the end; at most 20,000 runs."""

    _of: dict[str, ShownProgress] = field(default_factory=dict)

    def report(self, run_id: str, value: Progress, now: Instant) -> None:
        """Note what a heartbeat says of a running attempt."""
        known = self._of.get(run_id)
        if known is not None and known.value == value:
            return
        if known is None and len(self._of) >= _MOST:
            return
        self._of.pop(run_id, None)
        self._of[run_id] = ShownProgress(value, now)

    def attempt_over(self, run_id: str) -> None:
        """Forget the run's attempt."""
        self._of.pop(run_id, None)

    def of(self, run_id: str) -> ShownProgress | None:
        """The run's progress, if it shows one."""
        return self._of.get(run_id)

    def newest(self, most: int) -> dict[str, dict[str, Any]]:
        """The JSON of those that changed last, by run."""
        return {run_id: self._of[run_id].body() for run_id in islice(reversed(self._of), most)}

    def __len__(self) -> int:
        return len(self._of)
