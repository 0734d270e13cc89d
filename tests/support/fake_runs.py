"""RunStore in memory, by the same contract as the SQL one."""

from collections.abc import Sequence
from dataclasses import replace

from itinerary.protocol.errors import Conflict, NotFound
from itinerary.protocol.instants import format_instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.run_requests import refuse_new
from scheduler_service.core.model import NewRun, Run, RunKind
from scheduler_service.core.run_state import FINAL, WAITING, RunState
from scheduler_service.ports.lists import NEWEST_FIRST, Order, RunSort
from scheduler_service.ports.stores import Page, RunFilter
from scheduler_service.sql.paging import page_of, read_cursor
from tests.support.fake_rows import RunRow, Tables, refuse_unstorable


class FakeRunStore:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def enqueue(self, runs: Sequence[NewRun], *, by: AuditedChange | None = None) -> list[tuple[Run, bool]]:
        with self._tables.lock:
            fresh = self._check(runs)
            refuse_new(runs, fresh, self._tables.clock(), self._tables.per_key())
            made = self._tables.insert_missing(runs)
            if made:
                self._record([run for run in runs if run.run_id in made], by)
            return [(self._found(run).whole(), run.run_id in made) for run in runs]

    def get(self, run_id: str) -> Run:
        with self._tables.lock:
            row = self._row(run_id)
            ended = sorted(
                (attempt, kept.kept())
                for (of_run, attempt), kept in self._tables.attempts.items()
                if of_run == run_id and attempt < row.attempt
            )
            present = self._tables.attempts.get((run_id, row.attempt))
            whole = row.whole(tuple(attempt for _, attempt in ended))
            return replace(whole, late=None if present is None else present.late_reports())

    def list(
        self, wanted: RunFilter, limit: int, cursor: str | None, order: Order[RunSort] = NEWEST_FIRST
    ) -> Page[Run]:
        after = None if cursor is None else tuple(read_cursor(cursor, int, int, int))
        sign = -1 if order.descending else 1

        def place(row: RunRow) -> tuple[int, int, int]:
            value = _value(row, order.by)
            return value is None, sign * (value or 0), sign * row.id

        with self._tables.lock:
            in_order = sorted((row for row in self._tables.runs.values() if matches(row, wanted)), key=place)
            found = [row for row in in_order if after is None or place(row) > after]
            return page_of(found[: limit + 1], limit, RunRow.whole, lambda row: list(map(int, place(row))))

    def request_cancel(self, run_id: str, *, by: AuditedChange | None = None) -> Run:
        with self._tables.lock:
            row, now = self._row(run_id), self._tables.clock()
            before, is_news = row.state.value, row.state not in FINAL and row.cancel_requested_at is None
            if row.state not in FINAL and row.cancel_requested_at is None:
                row.cancel_requested_at = now
            if row.state in WAITING:
                row.state, row.finished_at = RunState.CANCELLED, now
                row.reason = "cancelled on request, before it was released"
            if is_news:
                self._tables.record(by, run_id, {"state": before}, {"state": row.state.value})
            return self.get(run_id)

    def _record(self, made: Sequence[NewRun], by: AuditedChange | None) -> None:
        if len(made) > 1:
            self._tables.record(by, None, None, {"run_ids": [run.run_id for run in made]})
            return
        (run,) = made
        said = {
            "run_id": run.run_id, "task": run.task, "queue": run.queue, "retry_of": run.retry_of,
            "run_at": format_instant(run.due_at) if run.due_at else None, "idempotency_key": run.idempotency_key,
        }  # fmt: skip
        after = {name: value for name, value in said.items() if value is not None}
        self._tables.record(by, run.job_id or run.run_id, None, after)

    def _row(self, run_id: str) -> RunRow:
        row = self._tables.runs.get(run_id)
        if row is None:
            raise NotFound(f"no run {run_id}")
        return row

    def _check(self, runs: Sequence[NewRun]) -> set[str]:
        """Everything that would stop the batch half-way, found before anything is written; the ids of new runs."""
        known = {r.idempotency_key for r in self._tables.runs.values()} - {None}
        hashes = {r.idempotency_key: r.request_hash for r in self._tables.runs.values() if r.idempotency_key}
        for run in runs:
            refuse_unstorable(run.run_id, run.task, run.queue, run.scheduled_at, run.due_at)
            if run.idempotency_key is not None:
                if hashes.setdefault(run.idempotency_key, run.request_hash) != run.request_hash:
                    raise Conflict(f"idempotency key {run.idempotency_key!r} was used for another request")
            elif run.run_id in self._tables.runs:
                raise Conflict(f"run {run.run_id} exists")
        return {run.run_id for run in runs if run.idempotency_key not in known}

    def _found(self, run: NewRun) -> RunRow:
        if run.idempotency_key is None:
            return self._tables.runs[run.run_id]
        rows = self._tables.runs.values()
        return next(row for row in rows if row.idempotency_key == run.idempotency_key)


def _value(row: RunRow, sort: RunSort) -> int | None:
    if sort is RunSort.DURATION:
        return None if row.finished_at is None or row.started_at is None else row.finished_at - row.started_at
    value: int | None = getattr(row, sort.value)
    return value


def matches(row: RunRow, wanted: RunFilter) -> bool:
    return (
        (wanted.job_id is None or row.job_id == wanted.job_id)
        and (not wanted.states or row.state in wanted.states)
        and (wanted.queue is None or row.queue == wanted.queue)
        and (not wanted.queues or row.queue in wanted.queues)
        and (wanted.since is None or row.scheduled_at >= wanted.since)
        and (wanted.until is None or row.scheduled_at < wanted.until)
        and (not wanted.run_ids or row.run_id in wanted.run_ids)
        and wanted.task in (None, row.task)
        and wanted.planned in (None, row.kind is RunKind.OCCURRENCE)
        and wanted.recalled in (None, row.recalled_at is not None)
        and (
            not (wanted.limit_name or wanted.limit_key)
            or any(wanted.limit_name in (None, use.name) and wanted.limit_key in (None, use.key) for use in row.limits)
        )
    )
