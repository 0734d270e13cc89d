"""Ports to the audit log, to the evidence of explanations, and to wakeups after commits.

The log promises that an entry is committed with its change. A wakeup may be lost, so nothing may depend on it alone.
None of these ports changes a job or a run.
"""

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
    """The filters of `GET /audit`."""

    subject: str | None = None
    actor: str | None = None
    action: str | None = None
    since: Instant | None = None
    until: Instant | None = None


class AuditLog(Protocol):
    """The append-only record of changes and their actors. The stores of jobs and runs record theirs with the change."""

    def record(self, by: AuditedChange, subject: str | None, before: Any, after: Any) -> None:
        """Record a change that no store carries out in one transaction with its entry."""

    def list(self, wanted: AuditFilter, limit: int, cursor: str | None) -> Page[AuditEntry]:
        """Entries, newest first; stable under writes."""

    def of_key(self, change: AuditedChange, subject: str) -> Sequence[str] | None:
        """The runs created when this change's key was first used; None if it was not used.

        Raises Conflict if that request was a different one.
        """


class Evidence(Protocol):
    """Everything that the database knows of one occurrence or one run, read for an explanation."""

    def of_occurrence(self, job_id: str, at: Instant) -> Facts:
        """The facts about the job's occurrence at `at`; NotFound if the job never existed."""

    def of_run(self, run_id: str) -> Facts:
        """The facts about the run; NotFound."""

    def of_occurrences(self, job_id: str, times: Sequence[Instant]) -> Known:
        """The facts about the job's occurrences at these ascending times."""


class Wakeups(Protocol):
    """The database's notifications of commits, which save waiting for the next poll. Hints only: they may be lost."""

    def wait(self, timeout: Duration) -> AbstractSet[News]:
        """The kinds of commits since the last call, after waiting up to `timeout`; empty if there are none.

        The first answer, and the first after a broken connection, names every kind: some may have been missed. Raises
        StoreUnavailable if the database does not answer; the next call reconnects.
        """

    def close(self) -> None:
        """Close the connection; a later `wait` opens another."""
