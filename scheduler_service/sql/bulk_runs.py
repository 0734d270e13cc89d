"""The pages of bulk operations on runs: cancel what is not over, run again what is.

Promises that a run is changed only from a state that allows it. Bulk operations run no run again twice: the new run's
key is derived from the old run's id.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection, Text, select
from uuid_utils.compat import uuid7

from itinerary.protocol.instants import Instant
from scheduler_service.core.bulk import CHANGEABLE, BulkAction, BulkOperation
from scheduler_service.core.contract.limit_uses import limit_errors, named_limits
from scheduler_service.core.contract.run_requests import again_once
from scheduler_service.core.model import NewRun, Run
from scheduler_service.core.run_state import WAITING, RunState
from scheduler_service.ports.bulk import runs_of
from scheduler_service.sql.batch import Batch, judged
from scheduler_service.sql.bulk_page import Done
from scheduler_service.sql.database import Database
from scheduler_service.sql.job_limits import known_limits
from scheduler_service.sql.leader import planning
from scheduler_service.sql.run_lists import page_of_runs
from scheduler_service.sql.run_rows import RUN_COLUMNS, whole_run
from scheduler_service.sql.runs import cancelled_or_asked
from scheduler_service.sql.tables import IS_ACTIVE, runs

RUNS_AT_ONCE: Final = 500
_NAMES: Final = Batch(name=Text)


def runs_page(
    database: Database, connection: Connection, operation: BulkOperation, place: str | None, last_run: int, now: Instant
) -> Done:
    """Carry out the page that begins at `place`."""
    action, wanted = operation.order.action, runs_of(operation.order)
    states = CHANGEABLE[action].intersection(wanted.states) if wanted.states else CHANGEABLE[action]
    if not states:
        return Done(None, 0, {})
    limits = operation.limits
    narrowed = replace(wanted, states=tuple(sorted(states)), queues=() if wanted.queue else limits.queues)
    columns, before = (*RUN_COLUMNS, runs.c.id), runs.c.id <= last_run
    by_time = action is BulkAction.CANCEL
    page = page_of_runs(connection, narrowed, RUNS_AT_ONCE, place, columns, before, by_time=by_time)
    found = [run for row in page.items if limits.has_run(run := whole_run(row[:-1]), run.owner)]
    if action is BulkAction.CANCEL:
        counts, changed, stopping = cancel_runs(database, connection, [run.run_id for run in found], now)
        return Done(page.next_cursor, len(found), counts, changed, stopping=stopping)
    counts, pairs = _run_again(connection, operation, found, now)
    return Done(page.next_cursor, len(found), counts, pairs, created=[new for _, new in pairs])


def cancel_runs(
    database: Database, connection: Connection, run_ids: Sequence[str], now: Instant
) -> tuple[Counter[str], list[str], list[str]]:
    """Cancel those that wait, ask those in flight to stop; return counts, ids changed, and ids of those in flight."""
    counts, changed, stopping = Counter[str](), [], []
    batch = select(_NAMES.rows(database.dialect).c.name)
    named = runs.c.run_id.in_(batch)
    guard = judged(runs.c.run_id, IS_ACTIVE & runs.c.cancel_requested_at.is_(None))
    # Locked in the order of their ids, as everywhere: the states are those that the update finds.
    locked = select(runs.c.run_id, runs.c.state).where(named, guard).order_by(runs.c.run_id).with_for_update()
    for chunk in _NAMES.chunks([(run_id,) for run_id in sorted(run_ids)]):
        for run_id, state in connection.execute(locked, chunk):
            changed.append(run_id)
            waits = RunState(state) in WAITING
            counts["cancelled" if waits else "cancel_requested"] += 1
            stopping += [] if waits else [run_id]
    for chunk in _NAMES.chunks([(run_id,) for run_id in changed]):
        connection.execute(cancelled_or_asked().where(named, judged(runs.c.run_id, IS_ACTIVE)), {**chunk, "now": now})
    unchanged = len(run_ids) - len(changed)
    return counts + Counter({"unchanged": unchanged}), changed, stopping


def _run_again(
    connection: Connection, operation: BulkOperation, found: Sequence[Run], now: Instant
) -> tuple[Counter[str], list[tuple[str, str]]]:
    new = [replace(again_once(run, str(uuid7()), now), owner=operation.limits.owner) for run in found]
    known = known_limits(connection, {limit.name for run in new for limit in named_limits(run)})
    allowed: list[NewRun] = [run for run in new if not list(limit_errors(named_limits(run), known))]
    created = planning.insert_missing(connection, allowed, now)
    pairs = [(run.retry_of or "", run.run_id) for run in allowed if run.run_id in created]
    counts = Counter(
        retried=len(created), retried_before=len(allowed) - len(created), limit_missing=len(new) - len(allowed)
    )
    return +counts, pairs
