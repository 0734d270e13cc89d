"""LeaderStore in memory, by the same contract as the SQL one."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from itinerary.protocol.errors import LeaseLost, RowRefused
from itinerary.protocol.instants import MICROSECOND, Duration, Instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.attempts import Attempt
from scheduler_service.core.balancing.placements import MovedBefore, PlaceJobs, Placement, placed
from scheduler_service.core.balancing.rebalance_record import last_moved, record_body
from scheduler_service.core.calendars.carrying import REACH
from scheduler_service.core.controls import Controls
from scheduler_service.core.leader.commands import (
    CANCELLED_RUNNING,
    Apply,
    CreateRuns,
    Dispatch,
    LateReport,
    PublishedMark,
    Retract,
    Transition,
)
from scheduler_service.core.leader.past_starts import PastStarts, StartsPruned, StoredStarts
from scheduler_service.core.limits import QUEUE, Bounds, Limit
from scheduler_service.core.model import ActiveRun, Cursor, JobHistory, Lease, MissedRange, NewRun, RunKind
from scheduler_service.core.run_state import ACTIVE, FINAL, WAITING, Event, RunState, is_allowed
from scheduler_service.ports.stores import Dispatched
from scheduler_service.sql.leader.quarantine import ascii_text, note, without_payload
from tests.support.compact import compact
from tests.support.fake_polls import FakePolls
from tests.support.fake_rows import AttemptRow, JobRow, RunRow, Tables, as_json, refuse_unstorable, task_error

_OUTCOMES = {Event.FAIL: "failed", Event.RETRY: "retried", Event.LOSE: "lost", Event.TIME_OUT: "timed_out"}


class FakeLeaderStore(FakePolls):
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    has_one_writer = False

    def cursor(self, lease: Lease) -> Cursor:
        with self._tables.lock:
            self._tables.check(lease)
            planned = self._tables.cursors.setdefault(lease.shard, (None, "0-0"))
            return Cursor(*planned, self._tables.judged_until.get(lease.shard))

    def rehearse(self) -> None:
        pass

    def active_runs(self) -> list[ActiveRun]:
        with self._tables.lock:
            return [
                row.active()
                for row in self._tables.runs.values()
                if row.state in ACTIVE - WAITING
                or (row.state in WAITING and row.kind is RunKind.OCCURRENCE)
                or (row.state is RunState.RETRYING and row.kind is RunKind.MANUAL)
            ]

    def job_histories(self, since: Instant | None) -> list[JobHistory]:
        with self._tables.lock:
            rows = [
                row for _, row in sorted(self._tables.jobs.items()) if since is None or not _gone_before(row, since)
            ]
            return self._tables.by_calendars([_history(row, since) for row in rows], since)

    def histories_of(self, job_ids: Sequence[str], since: Instant | None) -> list[JobHistory]:
        with self._tables.lock:
            jobs = self._tables.jobs
            histories = [_history(jobs[job_id], since) for job_id in sorted(set(job_ids)) if job_id in jobs]
            return self._tables.by_calendars(histories, since)

    def calendar_jobs(
        self, calendar_id: str, after: str, since: Instant, limit: int
    ) -> tuple[list[JobHistory], str | None]:
        with self._tables.lock:
            named = (job_id for job_id, ids in self._tables.job_calendars.items() if calendar_id in ids)
            ids = sorted(job_id for job_id in named if job_id > after)[:limit]
            return self.histories_of(ids, since), ids[-1] if len(ids) == limit else None

    def refused_jobs(self) -> int:
        return 0

    def unplanned_jobs(self, limit: int) -> list[str]:
        with self._tables.lock:
            jobs = self._tables.jobs.items()
            return [job_id for job_id, row in jobs if row.planned_version != row.current.version][:limit]

    @contextmanager
    def together(self, lease: Lease, *, by_controls: bool = False) -> Iterator[None]:
        with self._tables.lock:
            yield

    def create_runs(self, lease: Lease, batch: CreateRuns) -> tuple[str, ...]:
        with self._tables.lock:
            self._tables.check(lease)
            self._require_known_calendars(batch)
            for retract in batch.retracts:
                self._retract(retract)
            made = {run.run_id for run in batch.runs if self._make(run)}
            for missed_range in batch.missed_ranges:
                self._keep_missed_range(missed_range)
            for job_id, version in batch.planned:
                job = self._tables.jobs.get(job_id)
                if job is not None and version <= job.current.version:
                    job.planned_version = max(job.planned_version, version)
            until, position = self._tables.cursors.get(lease.shard, (None, "0-0"))
            if batch.cursor is not None:
                until = batch.cursor if batch.set_back else max(until or 0, batch.cursor)
            self._tables.cursors[lease.shard] = (until, position)
            return tuple(run.run_id for run in batch.runs if run.run_id not in made)

    def _require_known_calendars(self, batch: CreateRuns) -> None:
        if batch.cursor is None or batch.control is None:
            return
        for edit in self._tables.calendar_edits(batch.control):
            if edit.effective_from < batch.cursor:
                raise LeaseLost(f"calendar {edit.calendar_id} was edited")

    def controls(self, known: int, since: Instant = 0) -> Controls | None:
        with self._tables.lock:
            tables, rows = self._tables, self._tables.queues.items()
            if tables.control == known:
                return None
            own = {QUEUE + name: Limit(QUEUE + name, row.bounds) for name, row in rows if row.bounds != Bounds()}
            pauses = {name: row.pause for name, row in rows if row.pause is not None}
            fair = frozenset(name for name, row in rows if row.fair)
            freezes = tuple(one for one in tables.freezes.values() if one.end is None or one.end > since)
            edits = () if known < 0 else tables.calendar_edits(known, since)
            return Controls(tables.control, pauses, own | tables.limits, fair, freezes, edits)

    def unchanged_at(self, known: int) -> Instant | None:
        with self._tables.lock:
            return self._tables.clock() if self._tables.control == known else None

    def dispatch_runs(self, lease: Lease, dispatches: Sequence[Dispatch], now: Instant, control: int = 0) -> Dispatched:
        with self._tables.lock:
            self._tables.check(lease)
            if control != self._tables.control:
                return Dispatched((), tuple(r.run_id for r in dispatches), outdated=bool(dispatches))
            return _moved(dispatches, [r for r in dispatches if self._move(lease, r, now)], self._tables)

    def redispatch_runs(self, lease: Lease, dispatches: Sequence[Dispatch]) -> Dispatched:
        with self._tables.lock:
            self._tables.check(lease)
            return _moved(dispatches, [r for r in dispatches if self._renumber(lease, r)], self._tables)

    def apply(self, lease: Lease, batch: Apply) -> tuple[str, ...]:
        with self._tables.lock:
            self._tables.check(lease)
            for run_id in batch.cancels:
                row = self._tables.runs.get(run_id)
                if row is not None and row.state in ACTIVE and row.cancel_requested_at is None:
                    row.cancel_requested_at = self._tables.clock()
            for mark in batch.published:
                self._mark(mark)
            refused = []
            started: Counter[LimitUse] = Counter()
            for change in batch.transitions:
                row = self._tables.runs.get(change.run_id)
                known = None if row is None else (row.state, row.attempt)
                refused += [] if self._transition(change) else [change.run_id]
                if row is not None and known != (row.state, row.attempt):
                    started.update(change.starts)
            self._tables.starts += [(use, self._tables.clock(), count) for use, count in started.items()]
            for report in batch.late:
                self._keep_late(report)
            if batch.position is not None:
                until, _ = self._tables.cursors.get(lease.shard, (None, ""))
                self._tables.cursors[lease.shard] = (until, batch.position)
            if batch.judged_until is not None:
                self._tables.judged_until[lease.shard] = batch.judged_until
            return tuple(dict.fromkeys(refused))

    def starts(self, kept: Mapping[str, Duration]) -> StoredStarts:
        with self._tables.lock:
            now = self._tables.clock()
            stored = self._tables.starts
            counting = [row for row in stored if row[0].name in kept and row[1] > now - kept[row[0].name]]
            read = (PastStarts(use, max(0, now - at), count) for use, at, count in counting)
            return StoredStarts(tuple(read), any=bool(stored))

    def shift_starts(self, lease: Lease, by: Duration) -> None:
        with self._tables.lock:
            self._tables.check(lease)
            now = self._tables.clock()
            self._tables.starts = [(use, min(at + by, now), count) for use, at, count in self._tables.starts]

    def prune_starts(self, lease: Lease, kept: Mapping[str, Duration], now: Instant) -> StartsPruned:
        with self._tables.lock:
            self._tables.check(lease)
            now = min(now, self._tables.clock())
            self._tables.starts = [
                row for row in self._tables.starts if row[0].name in kept and row[1] >= now - kept[row[0].name]
            ]
            return StartsPruned(full=False, left=bool(self._tables.starts))

    def read_runs(self, run_ids: Sequence[str]) -> list[ActiveRun]:
        with self._tables.lock:
            return [self._tables.runs[run_id].active() for run_id in run_ids if run_id in self._tables.runs]

    def place_jobs(self, lease: Lease, batch: PlaceJobs) -> frozenset[str]:
        with self._tables.lock:
            self._tables.check(lease)
            order = batch.order
            repeated = order is not None and any(
                (entry.subject, entry.action) == (order.plan.plan_id, order.asked.audited_change.action)
                for entry in self._tables.audit
            )
            done = {p.job_id for p in batch.placements if self._place(p, batch.at, only_read=repeated)}
            refused = frozenset(p.job_id for p in batch.placements) - done
            if order is not None and not repeated:
                body = as_json(record_body(batch, order.plan, refused))
                self._tables.record(order.asked.audited_change, order.plan.plan_id, None, body)
            return refused

    def last_rebalance(self) -> tuple[MovedBefore, ...] | None:
        with self._tables.lock:
            return last_moved((entry.action, entry.after) for entry in reversed(self._tables.audit))

    def _place(self, placement: Placement, at: Instant, *, only_read: bool) -> bool:
        row = self._tables.jobs.get(placement.job_id)
        if row is None or row.current.deleted:
            return False
        job = row.current
        if only_read or job.placed_anchor == placement.anchor:
            return job.placed_anchor == placement.anchor
        if (job.version, job.placed_anchor) != (placement.version, placement.replaces):
            return False
        row.versions[-1] = placed(job, placement.anchor, at)
        return True

    def _make(self, run: NewRun) -> bool:
        try:
            return bool(self._tables.insert_missing([run]))
        except RowRefused as refused:
            if run.job_id is not None:
                at = run.scheduled_at
                self._keep_missed_range(MissedRange(run.job_id, at, at + MICROSECOND, 1, f"row refused: {refused}"))
            return False

    def _retract(self, retract: Retract) -> None:
        for row in list(self._tables.runs.values()):
            if (
                row.kind is RunKind.OCCURRENCE
                and row.job_id == retract.job_id
                and (row.job_version or 0) < retract.version
                and row.scheduled_at >= retract.start
                and row.state is RunState.SCHEDULED
                and not row.seq
                and row.cancel_requested_at is None
            ):
                del self._tables.runs[row.run_id]
        job = self._tables.jobs.get(retract.job_id)
        if job is not None and job.planned_version < retract.version:
            ranges = self._tables.missed_ranges
            ranges[:] = [one for one in ranges if one.job_id != retract.job_id or one.start < retract.start]

    def _keep_missed_range(self, missed_range: MissedRange) -> None:
        alike = [
            old
            for old in self._tables.missed_ranges
            if (old.job_id, old.reason) == (missed_range.job_id, missed_range.reason)
        ]
        if not any(old.start <= missed_range.start and old.end >= missed_range.end for old in alike):
            self._add_to_missed_ranges(missed_range)

    def _add_to_missed_ranges(self, missed_range: MissedRange) -> None:
        missed_ranges = self._tables.missed_ranges
        for place, old in enumerate(missed_ranges):
            if (old.job_id, old.reason, old.end) == (missed_range.job_id, missed_range.reason, missed_range.start):
                missed_ranges[place] = replace(old, end=missed_range.end, count=old.count + missed_range.count)
                return
        missed_ranges.append(missed_range)

    def _move(self, lease: Lease, release: Dispatch, now: Instant) -> bool:
        row = self._tables.runs.get(release.run_id)
        if (
            row is None
            or row.state not in WAITING
            or row.attempt != release.attempt
            or release.queue not in (None, row.queue)
            or row.due_at > now
            or row.cancel_requested_at is not None
            or not _job_allows(self._tables, row, now)
        ):
            return False
        row.state, row.pending_at, row.term, row.seq = RunState.PENDING, now, lease.term, release.seq
        row.reason = None
        return True

    def _renumber(self, lease: Lease, release: Dispatch) -> bool:
        row = self._tables.runs.get(release.run_id)
        if row is None or row.state is not RunState.PENDING or row.attempt != release.attempt:
            return False
        if row.cancel_requested_at is not None:
            return False
        row.term, row.seq, row.published_at = lease.term, release.seq, None
        return True

    def _mark(self, mark: PublishedMark) -> None:
        row = self._tables.runs.get(mark.run_id)
        if row is not None and row.attempt == mark.attempt and row.pending_at is not None:
            row.published_at = mark.at

    def _transition(self, change: Transition) -> bool:
        try:
            refuse_unstorable(change.reason, change.worker)
            for payload in (change.result, change.error, change.args, change.kwargs):
                as_json(payload)
        except RowRefused as refused:
            change = without_payload(change, refused)
        row = self._tables.runs.get(change.run_id)
        if row is None or row.attempt != change.attempt or not is_allowed(row.state, change.event):
            return False
        if change.event is Event.RECALL:
            return self._recall(row, change)
        if change.to is RunState.RETRYING:
            return self._retry(row, change)
        if change.coalesce is not None and self._may_coalesce(row):
            del self._tables.runs[row.run_id]
            self._add_to_missed_ranges(change.coalesce)
            return True
        self._write(row, change)
        return True

    def _may_coalesce(self, row: RunRow) -> bool:
        job = self._tables.jobs.get(row.job_id or "")
        unchanged = job is not None and not job.current.deleted and job.current.version == row.job_version
        occurs = row.kind is RunKind.OCCURRENCE and row.state is RunState.SCHEDULED and not row.seq
        return unchanged and occurs and row.cancel_requested_at is None

    def _write(self, row: RunRow, change: Transition) -> None:
        started_at = change.at if change.to is RunState.RUNNING and change.started_at is None else change.started_at
        row.started_at = started_at if row.started_at is None else row.started_at
        row.finished_at = change.at if change.to in FINAL else row.finished_at
        if change.to is RunState.CANCELLED:
            row.finished_at = max(change.at, row.cancel_requested_at or 0)
        for name in ("reason", "due_at", "worker", "result", "error", "args", "kwargs"):
            value = getattr(change, name)
            if value is not None:
                setattr(row, name, as_json(value))
        row.progress = change.progress or row.progress
        row.state = change.to

    def _retry(self, row: RunRow, change: Transition) -> bool:
        if row.cancel_requested_at is not None:
            self._write(
                row,
                change._replace(to=RunState.CANCELLED, reason=CANCELLED_RUNNING, due_at=None, args=None, kwargs=None),
            )
            return False
        ended = Attempt(
            row.attempt, _OUTCOMES[change.event], change.reason, row.pending_at, row.published_at,
            change.started_at if row.started_at is None else row.started_at, change.at, change.worker or row.worker,
            task_error(change.error), progress=change.progress,
        )  # fmt: skip
        self._tables.attempts[row.run_id, row.attempt] = AttemptRow(ended)
        row.state, row.attempt, row.reason = RunState.RETRYING, row.attempt + 1, change.reason
        row.due_at = change.at if change.due_at is None else change.due_at
        row.retries += change.event is Event.RETRY
        row.args = row.args if change.args is None else as_json(change.args)
        row.kwargs = row.kwargs if change.kwargs is None else as_json(change.kwargs)
        row.pending_at = row.published_at = row.started_at = None
        row.worker = row.error = None
        return True

    def _recall(self, row: RunRow, change: Transition) -> bool:
        if row.cancel_requested_at is not None:
            return False
        row.state, row.reason, row.recalled_at = change.to, change.reason, change.at
        row.pending_at = row.published_at = None
        return True

    def _keep_late(self, report: LateReport) -> None:
        try:
            refuse_unstorable(report.kind, report.worker)
        except RowRefused as refused:
            report = replace(
                report, worker=ascii_text(report.worker), kind=ascii_text(report.kind), error=note(refused)
            )
        row = self._tables.runs.get(report.run_id)
        if row is None or report.attempt > row.attempt or (report.attempt == row.attempt and row.state in ACTIVE):
            return
        present = Attempt(
            report.attempt, row.state.value, row.reason, row.pending_at, row.published_at, row.started_at,
            row.finished_at, row.worker, task_error(row.error), progress=row.progress,
        )  # fmt: skip
        ended = self._tables.attempts.get((report.run_id, report.attempt), AttemptRow(present))
        if ended.attempt.finished_at != report.at:
            self._tables.attempts[report.run_id, report.attempt] = ended
            ended.late.append(report)


def _moved(asked: Sequence[Dispatch], done: Sequence[Dispatch], tables: Tables) -> Dispatched:
    return Dispatched(
        tuple(tables.runs[release.run_id].dispatched() for release in done),
        tuple(release.run_id for release in asked if release not in done),
    )


def _job_allows(tables: Tables, row: RunRow, now: Instant) -> bool:
    job = tables.jobs.get(row.job_id or "")
    if job is None:
        return True
    if job.planned_version != job.current.version or job.current.deleted:
        return False
    until = job.current.paused_until
    judged_at = row.scheduled_at if job.current.pause_skips else now
    in_pause = job.current.paused and (until is None or judged_at < until)
    return not (in_pause and row.kind is RunKind.OCCURRENCE and row.attempt == 1)


def _history(row: JobRow, since: Instant | None) -> JobHistory:
    calendars = row.versions[-1].calendars
    by_days = calendars is not None and (calendars.when_excluded != "skip" or calendars.workdays is not None)
    reach = REACH if by_days else 0
    ends = [version.effective_from for version in row.versions[1:]]
    kept = [
        version
        for version, end in zip(row.versions, [*ends, None], strict=True)
        if since is None or end is None or end > since - reach or version.version >= row.planned_version
    ]
    alone = len(kept) == 1 and kept[0].placed_anchor is None
    return compact(kept[0], row.planned_version) if alone else JobHistory(tuple(kept), row.planned_version)


def _gone_before(row: JobRow, since: Instant) -> bool:
    current = row.current
    return current.deleted and current.effective_from <= since and row.planned_version == current.version
