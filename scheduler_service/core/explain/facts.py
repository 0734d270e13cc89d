"""The facts behind an explanation: rows of the database and the leader's live state, as values.

Values only: `sql/evidence.py` reads the rows, the route asks the leader. A `live` of None means that nobody answered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.audit import AuditEntry
from scheduler_service.core.controls import QueuePause
from scheduler_service.core.freezes import Freeze
from scheduler_service.core.model import Job, MissedRange, Run

_LATE: Final[Duration] = SECOND


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a job, and its author (None: not recorded)."""

    job: Job
    actor: str | None


@dataclass(frozen=True, slots=True)
class Term:
    """One leadership: `confirmed_at` is its last renewal, `ended_at` None while it lasts."""

    term: int
    holder: str
    began_at: Instant
    confirmed_at: Instant
    ended_at: Instant | None
    ending: str | None


@dataclass(frozen=True, slots=True)
class Live:
    """The leader's own view: from its statistics, or for a due run that waits its answer to `waiting`.

    `job_runs`: the unfinished dispatched runs of the run's job. `waiting` has `limits` alone if memory lacks the run.
    """

    workers: Sequence[Mapping[str, Any]] = ()
    queues: Sequence[Mapping[str, Any]] = ()
    job_runs: Sequence[str] = ()
    waiting: Mapping[str, Any] | None = None

    def listening_on(self, queue: str) -> list[str]:
        """Return the names of living workers that listen on this queue."""
        return [str(w["name"]) for w in self.workers if w.get("alive") and queue in (w.get("queues") or ())]

    def pending_on(self, queue: str) -> int:
        """Count the queue's runs that are dispatched and not started."""
        if self.waiting is not None:
            return int(self.waiting.get("pending", 0))
        return next((int(q["pending"]) for q in self.queues if q["name"] == queue), 0)


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of one explanation.

    `versions` and `terms` are oldest first. Runs are planned up to `cursor`, finished ones pruned up to `pruned_until`.
    `in_queue`: the number of messages in the run's queue (None: unknown); `none_of_ours`: the run's is not there.
    `live` None: the leader did not answer, or was not asked. `backfilled`: the newest manual run for an occurrence.
    `ahead`: the run of the same job that ended last while the run waited. `own_overlap`: the run's own overlap rule.
    `queue_pause`: the pause that holds its queue now. `freezes`: those from its due time on that have it in scope.
    `recalled_at`: when its message was taken back last.
    """

    now: Instant
    cursor: Instant | None
    versions: tuple[Version, ...] = ()
    run: Run | None = None
    missed_range: MissedRange | None = None
    terms: tuple[Term, ...] = ()
    audit_entries: tuple[AuditEntry, ...] = ()
    live: Live | None = None
    pruned_until: Instant | None = None
    in_queue: int | None = None
    none_of_ours: bool = False
    backfilled: Run | None = None
    ahead: Run | None = None
    own_overlap: str | None = None
    queue_pause: QueuePause | None = None
    freezes: tuple[Freeze, ...] = ()
    recalled_at: Instant | None = None


def waited(run: Run) -> tuple[Instant, Instant] | None:
    """Return the interval that a late-dispatched run waited; None if it was in time."""
    if run.pending_at is None or run.pending_at - run.due_at <= _LATE:
        return None
    return run.due_at, run.pending_at
