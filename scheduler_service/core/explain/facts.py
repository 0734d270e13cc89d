"""What an explanation rests on: rows of the database and the leader's live state, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.audit import AuditEntry
from scheduler_service.core.model import Job, MissedRange, Run

_LATE: Final[Duration] = SECOND


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a job, and who made it (None: not recorded)."""

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
    """The leader's own view, as its statistics tell it; `job_runs`: what of the run's job is out and not final."""

    workers: Sequence[Mapping[str, Any]] = ()
    queues: Sequence[Mapping[str, Any]] = ()
    job_runs: Sequence[str] = ()

    def listening_on(self, queue: str) -> list[str]:
        """Names of the workers that live and listen on this queue."""
        return [str(w["name"]) for w in self.workers if w.get("alive") and queue in (w.get("queues") or ())]

    def pending_on(self, queue: str) -> int:
        """How many runs of the queue are out and not started."""
        return next((int(q["pending"]) for q in self.queues if q["name"] == queue), 0)


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything known. `versions` oldest first; `terms` oldest first; planned up to `cursor`, and pruned up to
    `pruned_until`, as far as it was over.

    `in_queue`: how many messages the run's queue has (None: nobody could say); `none_of_ours`: the run's is not there.
    `live` None: the leader did not answer, or was not asked. `backfilled`: the newest run by hand for an occurrence.
    `ahead`: the run of the same job that ended last while the run waited. `own_overlap`: the run's own overlap rule.
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


def waited(run: Run) -> tuple[Instant, Instant] | None:
    """From when to when a run that was dispatched late had waited; None of one that was in time."""
    if run.pending_at is None or run.pending_at - run.due_at <= _LATE:
        return None
    return run.due_at, run.pending_at
