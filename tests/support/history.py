"""The history that a fake store holds, as the invariants read it."""

from itinerary.protocol.instants import Instant
from scheduler_service.core.invariants.history import History, RunFacts
from tests.support.fake_rows import RunRow
from tests.support.fake_store import FakeStore


def history_of(store: FakeStore, now: Instant) -> History:
    """Everything, ordered as the port promises."""
    rows = sorted(store.tables.runs.values(), key=lambda row: (row.job_id or "", row.scheduled_at, row.id))
    cursor, _ = store.tables.cursors.get(0, (None, ""))
    jobs = store.leader.job_histories(None)
    return History(now, cursor, None, jobs, list(store.tables.missed_ranges), [facts_of(store, row) for row in rows])


def facts_of(store: FakeStore, row: RunRow) -> RunFacts:
    ended = sorted(
        (number, kept.attempt) for (run_id, number), kept in store.tables.attempts.items() if run_id == row.run_id
    )
    return RunFacts(
        row.run_id, row.kind, row.job_id, row.job_version, row.queue, row.scheduled_at, row.due_at, row.state,
        row.attempt, row.retry.max_attempts, row.retries, row.overlap, row.timeout, row.reason, row.pending_at,
        row.started_at, row.finished_at, tuple(attempt for _, attempt in ended),
        row.cancel_requested_at, row.recalled_at,
    )  # fmt: skip
