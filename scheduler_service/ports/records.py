"""The records that explain what happened, and news of commits."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.audit import AuditedChange, AuditEntry
from scheduler_service.core.contract.backfill import Known
from scheduler_service.core.explain.facts import Facts
from scheduler_service.ports.stores import Page

News = Literal["runs", "jobs"]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """What `GET /audit` may ask for."""

    subject: str | None = None
    actor: str | None = None
    action: str | None = None
    since: Instant | None = None
    until: Instant | None = None


class AuditLog(Protocol):
    """Who changed what, append-only. Changes of jobs and runs are recorded by their own stores, with the change."""

    def record(self, by: AuditedChange, subject: str | None, before: Any, after: Any) -> None:
        """Note a change that no store of ours carries out in one transaction with it."""

    def list(self, wanted: AuditFilter, limit: int, cursor: str | None) -> Page[AuditEntry]:
        """Newest first; stable under writes."""

    def of_key(self, change: AuditedChange, subject: str) -> Sequence[str] | None:
        """The runs that this deed made when its key was first given; None where it was not. Conflict where the request
        was another one."""


class Evidence(Protocol):
    """Everything that the database knows of one occurrence or one run, read for an explanation."""

    def of_occurrence(self, job_id: str, at: Instant) -> Facts:
        """What bears on the job's occurrence at `at`; NotFound where the job never was."""

    def of_run(self, run_id: str) -> Facts:
        """What bears on the run; NotFound."""

    def of_occurrences(self, job_id: str, times: Sequence[Instant]) -> Known:
        """What is known of the job's occurrences at these times, ascending."""


class Wakeups(Protocol):
    """What the database says was committed, so that nobody need wait for the next look. Only hints: may be lost."""

    def wait(self, timeout: Duration) -> AbstractSet[News]:
        """What is new since the last call, after waiting up to `timeout`; empty where nothing is.

        The first answer, and the first after a broken connection, names everything: it may have been missed.
        StoreUnavailable where the database does not answer; the next call connects anew.
        """

    def close(self) -> None:
        """Give the connection back; a later `wait` opens another."""
