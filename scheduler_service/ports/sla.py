"""The port of SLAs: runs with `must_end_within`, each judged once when its time has come.

An implementation promises that a run is judged once and its notice committed with it, however often it is asked. It
never delays a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.monitors.model import MonitorState


@dataclass(frozen=True, slots=True)
class Judged:
    """The numbers of runs that were judged."""

    kept: int = 0
    missed: int = 0


@dataclass(frozen=True, slots=True)
class SlaMiss:
    """A run that missed its SLA."""

    run_id: str
    job_id: str | None
    end_by: Instant


class JudgeMeter(Protocol):
    """Counts what was judged, and shows the states of monitors."""

    def judged(self, found: Judged) -> None:
        """Count runs that were judged."""

    def monitored(self, counts: Mapping[MonitorState, int]) -> None:
        """Show how many monitors are in each state."""


class SlaStore(Protocol):
    """Judges SLAs."""

    def judge(self, reported: Duration, limit: int) -> Judged:
        """Judge at most `limit` runs that had to end `reported` ago or before, the earliest first."""
