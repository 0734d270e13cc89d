"""Write a leader's batch whole or, if the database refuses a row of it, with only that row quarantined.

Promises that each quarantined row is logged and leaves a note in its place, so that none is lost without a trace. A run
that cannot be created becomes a missed range; a transition loses its payload but not its state; a late report loses its
error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import structlog
from sqlalchemy import Connection

from itinerary.protocol.errors import RowRefused
from itinerary.protocol.instants import MICROSECOND, Instant
from itinerary.protocol.json_text import storable
from scheduler_service.core.leader.commands import Apply, LateReport, PublishedMark, Transition
from scheduler_service.core.model import MissedRange, NewRun
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.sql.leader import apply, coalescing, planning, reports
from scheduler_service.sql.leader.apply import Applied
from scheduler_service.sql.leader.bisect import write_bisecting

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Creating:
    """The insertion of runs inside one transaction; both methods return the ids of the runs created.

    `missed_ranges` stand for runs that were quarantined.
    """

    connection: Connection
    now: Instant
    missed_ranges: list[MissedRange] = field(default_factory=list)

    def all(self, runs: Sequence[NewRun]) -> set[str]:
        """Insert the runs that do not exist."""
        return planning.insert_missing(self.connection, runs, self.now)

    def row_by_row(self, runs: Sequence[NewRun]) -> set[str]:
        """The same, row by row as far as needed."""
        return write_bisecting(self.connection, runs, self.all, self._record_missed_range)

    def _record_missed_range(self, run: NewRun, refused: RowRefused) -> set[str]:
        log.error("run not made, its row was refused", run_id=run.run_id, reason=str(refused))
        if run.job_id is not None:
            at = run.scheduled_at
            missed_range = MissedRange(run.job_id, at, at + MICROSECOND, 1, f"row refused: {ascii_text(str(refused))}")
            self.missed_ranges.extend(planning.keep_missed_ranges(self.connection, [missed_range]))
        return set()


@dataclass(frozen=True, slots=True)
class Applying:
    """The writing of transitions and late reports inside one transaction; both methods return the results."""

    connection: Connection
    published: Sequence[PublishedMark]

    def all(self, batch: Apply) -> Applied:
        """Write the batch in few statements."""
        coalesced = coalescing.coalesce(self.connection, batch.transitions)
        kept = [t for t in batch.transitions if t.run_id not in coalesced]
        applied = apply.apply_transitions(self.connection, kept, self.published)
        reports.keep_late_reports(self.connection, batch.late)
        return applied

    def row_by_row(self, batch: Apply) -> Applied:
        """The same, row by row as far as needed; occurrences that could coalesce keep their rows."""
        apply.mark_published(self.connection, self.published)
        applied = write_bisecting(self.connection, batch.transitions, self._write, self._write_bare)
        write_bisecting(self.connection, batch.late, self._write_late, self._write_late_bare)
        return applied

    def _write(self, transitions: Sequence[Transition]) -> Applied:
        return apply.apply_transitions(self.connection, transitions, ())

    def _write_bare(self, transition: Transition, refused: RowRefused) -> Applied:
        log.error("report set aside, its row was refused", run_id=transition.run_id, reason=str(refused))
        return write_bisecting(self.connection, [without_payload(transition, refused)], self._write, self._give_up)

    def _give_up(self, transition: Transition, refused: RowRefused) -> Applied:
        log.error("transition given up, even its bare row was refused", run_id=transition.run_id, reason=str(refused))
        return Applied({transition.run_id}, [])

    def _write_late(self, late: Sequence[LateReport]) -> set[str]:
        reports.keep_late_reports(self.connection, late)
        return set()

    def _write_late_bare(self, report: LateReport, refused: RowRefused) -> set[str]:
        log.error("late report set aside, its row was refused", run_id=report.run_id, reason=str(refused))
        bare = replace(report, kind=ascii_text(report.kind), worker=ascii_text(report.worker), error=note(refused))
        return write_bisecting(self.connection, [bare], self._write_late, self._drop)

    def _drop(self, report: LateReport, refused: RowRefused) -> set[str]:
        log.error("late report dropped, even its bare row was refused", run_id=report.run_id, reason=str(refused))
        return set()


def without_payload(transition: Transition, refused: RowRefused) -> Transition:
    """The transition with a note in place of its payload; a run that loses its new arguments ends as failed."""
    bare = transition._replace(
        reason=None if transition.reason is None else ascii_text(transition.reason),
        worker=None if transition.worker is None else ascii_text(transition.worker),
        result=None,
        error=note(refused),
        args=None,
        kwargs=None,
    )
    if transition.to is RunState.RETRYING and (transition.args is not None or transition.kwargs is not None):
        return bare._replace(event=Event.FAIL, to=RunState.FAILED, reason="the retry's arguments cannot be stored")
    return bare


def note(refused: RowRefused) -> dict[str, str]:
    """The error that replaces the value that could not be stored."""
    return {"type": "RowRefused", "message": ascii_text(str(refused))}


def ascii_text(text: str) -> str:
    """The storable text in ASCII, since the reason of a refusal may be the database's encoding."""
    return storable(text).encode("ascii", "backslashreplace").decode()
