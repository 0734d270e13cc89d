"""One entry of beat's, from wherever its scheduler keeps it, and what it became here. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import Job
from scheduler_service.migrating.converted import Converted
from scheduler_service.migrating.one_time import Bounded


@dataclass(frozen=True, slots=True)
class BeatEntry:
    """One entry as beat has it; `schedule` is a Celery schedule object, or None where `refused` says why.

    `zone` is the crontab's own, else the app's holds. `asleep` says why beat sends it no more. `differences` are those
    that its source knows of. `stored`: the arguments are in the form in which a job holds them.
    """

    name: str
    task: str
    schedule: Any
    args: Any
    kwargs: Any
    options: Mapping[str, Any]
    unknown: tuple[str, ...] = ()
    zone: str | None = None
    refused: str | None = None
    asleep: str | None = None
    once: bool = False
    start_at: Instant | None = None
    end_at: Instant | None = None
    last_run_at: Instant | None = None
    description: str = ""
    differences: tuple[str, ...] = ()
    stored: bool = False

    @property
    def paced(self) -> Any:
        """The schedule as its scheduler asks it: within its bounds, and from its last sending on."""
        bounds = (self.start_at, self.end_at, self.last_run_at)
        if self.schedule is None or not (self.once or any(bound is not None for bound in bounds)):
            return self.schedule
        return Bounded(self.schedule, *bounds, self.once)


@dataclass(frozen=True, slots=True)
class ConvertedEntry:
    """An entry, what it became, and the job where it could be moved."""

    entry: BeatEntry
    converted: Converted
    job: Job | None
