"""The pages of bulk operations on runs: cancel or move what waits, run again or delete what is over.

Promises that a run is changed only from a state that allows it. Bulk operations run no run again twice: the new run's
key is derived from the old run's id. Runs that a schedule planned are not deleted: their rows record which times ran,
and without them a backfill would run those times again.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection, Text, delete, select
from uuid_utils.compat import uuid7

from itinerary.protocol.instants import Instant
from scheduler_service.core.bulk import CHANGEABLE, BulkAction, BulkOperation
from scheduler_service.core.contract.limit_uses import limit_errors, named_limits
from scheduler_service.core.contract.run_requests import again_once
from scheduler_service.core.model import NewRun, Run
from scheduler_service.core.run_state import WAITING, RunState
from scheduler_service.ports.bulk import runs_of
from scheduler_service.sql.batch import Batch, judged
from scheduler_service.sql.bulk_moves import move_runs
from scheduler_service.sql.bulk_page import Done
from scheduler_service.sql.database import Database
from scheduler_service.sql.job_limits import known_limits
from scheduler_service.sql.leader import planning
from scheduler_service.sql.run_lists import page_of_runs
from scheduler_service.sql.run_rows import RUN_COLUMNS, whole_run
from scheduler_service.sql.runs import cancelled_or_asked
from scheduler_service.sql.tables import IS_ACTIVE, IS_FINAL, IS_OCCURRENCE, runs

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
    page = page_of_runs(connection, narrowed, RUNS_AT_ONCE, place, columns, before, now=now)
    found = [run for row in page.items if limits.has_run(run := whole_run(row[:-1]), run.owner)]
    run_ids, following = [run.run_id for run in found], page.next_cursor
    if action is BulkAction.CANCEL:
        counts, changed, stopping = cancel_runs(database, connection, run_ids, now)
        return Done(following, len(found), counts, changed, stopping=stopping)
    if action is BulkAction.MOVE:
        counts, moved = move_runs(database, connection, dict.fromkeys(run_ids, operation.order.options["queue"]))
        return Done(following, len(found), counts, moved, moved=[run_id for run_id, _ in moved])
    if action is BulkAction.DELETE:
        counts, deleted = _delete_runs(database, connection, run_ids)
        return Done(following, len(found), counts, deleted)
    counts, pairs = _run_again(connection, operation, found, now)
    return Done(following, len(found), counts, pairs, created=[new for _, new in pairs])


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


def _delete_runs(database: Database, connection: Connection, run_ids: Sequence[str]) -> tuple[Counter[str], list[str]]:
    """Delete those that are over and that no schedule planned, with their attempts and logs; return counts and ids."""
    counts, deleted = Counter[str](), list[str]()
    named = runs.c.run_id.in_(select(_NAMES.rows(database.dialect).c.name))
    is_over = judged(runs.c.run_id, IS_FINAL)
    locked = select(runs.c.run_id, IS_OCCURRENCE).where(named, is_over).order_by(runs.c.run_id).with_for_update()
    for chunk in _NAMES.chunks([(run_id,) for run_id in sorted(run_ids)]):
        for run_id, is_planned in connection.execute(locked, chunk):
            if is_planned:
                counts["planned_kept"] += 1
            else:
                deleted.append(run_id)
    for chunk in _NAMES.chunks([(run_id,) for run_id in deleted]):
        connection.execute(delete(runs).where(named, is_over), chunk)
    counts.update(deleted=len(deleted), unchanged=len(run_ids) - len(deleted) - counts["planned_kept"])
    return +counts, deleted


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
