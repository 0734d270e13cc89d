"""LeaderStore in SQL: each duty is one fenced transaction, composed from the files beside this one.

Promises that a call's results are committed. After LeaseLost nothing was; after StoreUnavailable it may have been, and
repeating the call then changes nothing more. A row that the database will never take is quarantined with its reason and
blocks no other row.
"""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from sqlalchemy import Connection, select

from itinerary.protocol.errors import RowRefused
from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.balancing.placements import MovedBefore, PlaceJobs
from scheduler_service.core.contract.stored_jobs import StoredJobs
from scheduler_service.core.controls import Controls
from scheduler_service.core.leader.commands import Apply, CreateRuns, Dispatch, Transition
from scheduler_service.core.leader.lane_reads import HeadsRead, LanePage, LanesRead
from scheduler_service.core.leader.past_starts import StartsPruned, StoredStarts
from scheduler_service.core.leader.poll_state import CancelsRead, ExpiredRead, OverdueRead, Place
from scheduler_service.core.model import ActiveRun, Cursor, JobHistory, Lease
from scheduler_service.core.notifications.notices import Topic
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.stores import Dispatched, LeaderStore
from scheduler_service.sql import job_rows
from scheduler_service.sql.calendar_rows import require_known_calendars
from scheduler_service.sql.controls import control_version, heed_edits, read_controls
from scheduler_service.sql.database import Database
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.fence import fenced
from scheduler_service.sql.leader import apply, dispatch, lane_reads, placing, planning, reads, reports, starts
from scheduler_service.sql.leader.quarantine import Applying, Creating
from scheduler_service.sql.named_by_jobs import CALENDARS_NAMED
from scheduler_service.sql.notices import FactNotices
from scheduler_service.sql.pings import keep_pings
from scheduler_service.sql.tables import cursors

_NO_RUN: Final = ""


class SqlLeaderStore(LeaderStore):
    """LeaderStore on SQLite and PostgreSQL; commits the notices of the given `topics` together with their runs."""

    def __init__(self, database: Database, topics: frozenset[Topic] = frozenset()) -> None:
        self._database = database
        self._dialect = database.dialect
        self._notices = FactNotices(topics)
        self._open = threading.local()
        self._refused: set[str] = set()
        self._of_calendar = StoredJobs()

    @property
    def has_one_writer(self) -> bool:
        return self._dialect is Dialect.SQLITE

    def cursor(self, lease: Lease) -> Cursor:
        first = self._dialect.insert(cursors).values(shard=lease.shard, inbox_position="0-0")
        columns = (cursors.c.materialised_until, cursors.c.inbox_position, cursors.c.judged_until)
        kept = select(*columns).where(cursors.c.shard == lease.shard)
        with self._fenced(lease) as connection:
            connection.execute(first.on_conflict_do_nothing())
            return Cursor(*connection.execute(kept).one())

    def rehearse(self) -> None:
        """As a write that nothing fences, since it matches no row: no run has this id."""
        self.due_runs(0, 1)
        self.overdue_runs(0, 1, None)
        self.expired_runs(0, 1, None)
        self.cancel_requests(1, None)
        self.waiting_lanes("", "", 1)
        self.lane_heads(0, (LanePage("", ""),), 1)
        end = Transition(_NO_RUN, 1, Event.SUCCEED, RunState.COMPLETED, 0)
        with self._database.write() as connection:
            dispatch.dispatch(connection, 0, (Dispatch(_NO_RUN, 1, 0),), 0, 0)
            apply.apply_transitions(connection, (end,), ())

    def active_runs(self) -> list[ActiveRun]:
        with self._database.read() as connection:
            return reads.tracked_runs(connection)

    def job_histories(self, since: Instant | None) -> list[JobHistory]:
        with self._database.read() as connection:
            return job_rows.histories(connection, since, refused=self._refused)

    def histories_of(self, job_ids: Sequence[str], since: Instant | None) -> list[JobHistory]:
        with self._database.read() as connection:
            return job_rows.histories(connection, since, job_ids, self._refused)

    def calendar_jobs(
        self, calendar_id: str, after: str, since: Instant, limit: int
    ) -> tuple[list[JobHistory], str | None]:
        with self._database.read() as connection:
            ids = CALENDARS_NAMED.jobs(connection, calendar_id, limit, after)
            stored = self._of_calendar  # jobs of one calendar are often alike
            found = job_rows.histories(connection, since, ids, self._refused, stored) if ids else []
        if is_last := len(ids) < limit:
            self._of_calendar = StoredJobs()
        return found, None if is_last else ids[-1]

    def refused_jobs(self) -> int:
        return len(self._refused)

    def unplanned_jobs(self, limit: int) -> list[str]:
        with self._database.read() as connection:
            found = job_rows.unplanned(connection, limit + len(self._refused))
        # Jobs that cannot be read stay unplanned: they sort last, so that they block no other job.
        return sorted(found, key=lambda job_id: job_id in self._refused)[:limit]

    @contextmanager
    def together(self, lease: Lease, *, by_controls: bool = False) -> Iterator[None]:
        with self._fenced(lease, by_controls=by_controls) as connection:
            self._open.connection, self._open.by_controls = connection, by_controls
            try:
                yield
            finally:
                self._open.connection = None

    def create_runs(self, lease: Lease, batch: CreateRuns) -> tuple[str, ...]:
        """A run whose row is refused counts as not created, and is recorded as a missed range."""
        try:
            created = self._create(lease, batch, row_by_row=False)
        except RowRefused:
            if self._shared is not None:
                raise
            created = self._create(lease, batch, row_by_row=True)
        return tuple(run.run_id for run in batch.runs if run.run_id not in created)

    def controls(self, known: int, since: Instant = 0) -> Controls | None:
        with self._database.read() as connection:
            return read_controls(connection, known, since)

    def unchanged_at(self, known: int) -> Instant | None:
        """As a write, since on SQLite only writes wait for an edit that is under way."""
        with self._database.write() as connection:
            heed_edits(connection)
            at = self._database.read_clock(connection)
            return at if control_version(connection) == known else None

    def dispatch_runs(self, lease: Lease, dispatches: Sequence[Dispatch], now: Instant, control: int = 0) -> Dispatched:
        with self._fenced(lease, by_controls=True) as connection:
            return dispatch.dispatch(connection, lease.term, dispatches, now, control)

    def redispatch_runs(self, lease: Lease, dispatches: Sequence[Dispatch]) -> Dispatched:
        with self._fenced(lease) as connection:
            return dispatch.redispatch(connection, lease.term, dispatches)

    def apply(self, lease: Lease, batch: Apply) -> tuple[str, ...]:
        """A transition whose row is refused is written without its payload."""
        try:
            refused = self._apply(lease, batch, row_by_row=False)
        except RowRefused:
            if self._shared is not None:
                raise
            refused = self._apply(lease, batch, row_by_row=True)
        return tuple(dict.fromkeys(t.run_id for t in batch.transitions if t.run_id in refused))

    def starts(self, kept: Mapping[str, Duration]) -> StoredStarts:
        with self._database.read() as connection:
            return starts.read(connection, kept, self._database.read_clock(connection))

    def shift_starts(self, lease: Lease, by: Duration) -> None:
        with self._fenced(lease) as connection:
            starts.shift(connection, by, self._database.read_clock(connection))

    def prune_starts(self, lease: Lease, kept: Mapping[str, Duration], now: Instant) -> StartsPruned:
        with self._fenced(lease) as connection:
            return starts.prune(connection, kept, min(now, self._database.read_clock(connection)))

    def read_runs(self, run_ids: Sequence[str]) -> list[ActiveRun]:
        with self._database.read() as connection:
            return reads.runs_by_id(connection, run_ids)

    def due_runs(self, until: Instant, limit: int, paused: Collection[str] = ()) -> list[ActiveRun]:
        with self._database.read() as connection:
            return reads.due_runs(connection, until, limit, paused)

    def waiting_lanes(self, queue: str, first: str, limit: int) -> LanesRead:
        with self._database.read() as connection:
            return lane_reads.lanes(connection, queue, first, limit)

    def lane_heads(self, until: Instant, pages: Sequence[LanePage], limit: int) -> HeadsRead:
        with self._database.read() as connection:
            return lane_reads.heads(connection, until, pages, limit)

    def overdue_runs(self, until: Instant, limit: int, after: Place | None) -> OverdueRead:
        with self._database.read() as connection:
            found, place = reads.overdue(connection, until, limit, after, planned=True)
        return OverdueRead(tuple(found), place)

    def expired_runs(self, until: Instant, limit: int, after: Place | None) -> ExpiredRead:
        with self._database.read() as connection:
            found, place = reads.expired(connection, until, limit, after)
        return ExpiredRead(tuple(found), place)

    def cancel_requests(self, limit: int, after: Place | None) -> CancelsRead:
        with self._database.read() as connection:
            found, place = reads.cancel_requests(connection, limit, after)
        return CancelsRead(tuple(found), place)

    def place_jobs(self, lease: Lease, batch: PlaceJobs) -> frozenset[str]:
        with self._fenced(lease) as connection:
            return placing.place_jobs(connection, batch, self._database.read_clock(connection))

    def last_rebalance(self) -> tuple[MovedBefore, ...] | None:
        with self._database.read() as connection:
            return placing.last_rebalance(connection)

    @property
    def _shared(self) -> Connection | None:
        """The transaction of this thread's `together`, if any."""
        return getattr(self._open, "connection", None)

    def _fenced(self, lease: Lease, *, by_controls: bool = False) -> AbstractContextManager[Connection]:
        shared = self._shared
        if shared is None:
            return fenced(self._database, lease, by_controls=by_controls)
        if by_controls and not self._open.by_controls:
            heed_edits(shared)
        return nullcontext(shared)

    def _create(self, lease: Lease, batch: CreateRuns, *, row_by_row: bool) -> set[str]:
        by_controls = batch.cursor is not None and batch.control is not None
        with self._fenced(lease, by_controls=by_controls) as connection:
            if batch.cursor is not None and batch.control is not None:
                require_known_calendars(connection, batch.control, batch.cursor)
            planning.retract(connection, batch.retracts)
            creating = Creating(connection, self._database.read_clock(connection))
            created = creating.row_by_row(batch.runs) if row_by_row else creating.all(batch.runs)
            new_missed_ranges = planning.keep_missed_ranges(connection, batch.missed_ranges)
            self._notices.missed_ranges(connection, [*creating.missed_ranges, *new_missed_ranges])
            planning.mark_planned(connection, batch.planned)
            if batch.cursor is not None:
                planning.advance(connection, lease.shard, batch.cursor, back=batch.set_back)
        return created

    def _apply(self, lease: Lease, batch: Apply, *, row_by_row: bool) -> set[str]:
        with self._fenced(lease) as connection:
            if batch.cancels:
                now = self._database.read_clock(connection)
                reports.request_cancels(connection, batch.cancels, now)
            applying = Applying(connection, batch.published)
            applied = applying.row_by_row(batch) if row_by_row else applying.all(batch)
            self._notices.ended(connection, applied.ended)
            if any(t.pings for t in batch.transitions):
                keep_pings(connection, batch.transitions, applied.refused, self._database.read_clock(connection))
            if applied.starts:
                starts.keep(connection, applied.starts, self._database.read_clock(connection))
            reports.commit_progress(connection, lease.shard, batch)
        return applied.refused
