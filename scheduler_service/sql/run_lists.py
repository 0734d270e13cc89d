"""The statement that finds a page of runs, newest first, for lists and for bulk operations.

Promises a keyset: pages neither repeat nor miss a run that matches throughout. Each index state is found by its index.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, literal, select, union_all
from sqlalchemy import tuple_ as row_of

from scheduler_service.ports.stores import RunFilter
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.paging import read_cursor
from scheduler_service.sql.tables import in_states, runs


def newest_runs(
    wanted: RunFilter, limit: int, cursor: str | None, columns: Sequence[Any], *more: ColumnElement[bool]
) -> Select[Any]:
    """Select these columns, `scheduled_at` and `id` among them, of the runs that match and pass `more`."""
    conditions = [*_conditions(wanted), *more]
    if cursor is not None:
        at, row_id = read_cursor(cursor, int, int)
        last = row_of(literal(at, InstantColumn), literal(row_id))
        conditions.append(row_of(runs.c.scheduled_at, runs.c.id) < last)
    # Each index state separately: rare and common ones are found by different indexes.
    states = [[*conditions, part] for part in in_states(wanted.states)] or [conditions]
    queues = [[runs.c.queue == queue] for queue in wanted.queues] or [[]]
    return _newest_of_each([[*state, *queue] for state in states for queue in queues], limit, columns)


def _conditions(wanted: RunFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.job_id is not None:
        conditions.append(runs.c.job_id == wanted.job_id)
    if wanted.queue is not None:
        conditions.append(runs.c.queue == wanted.queue)
    if wanted.owner is not None:
        conditions.append(runs.c.owner == wanted.owner)
    if wanted.since is not None:
        conditions.append(runs.c.scheduled_at >= wanted.since)
    if wanted.until is not None:
        conditions.append(runs.c.scheduled_at < wanted.until)
    if wanted.run_ids:
        conditions.append(runs.c.run_id.in_(wanted.run_ids))
    return conditions


def _newest_of_each(parts: Sequence[Sequence[ColumnElement[bool]]], limit: int, columns: Sequence[Any]) -> Select[Any]:
    def newest(table: Any, selected: Sequence[Any]) -> Select[Any]:
        return select(*selected).order_by(table.c.scheduled_at.desc(), table.c.id.desc()).limit(limit)

    of_each = [newest(runs, columns).where(*part) for part in parts]
    if len(of_each) == 1:
        return of_each[0]
    together = union_all(*(select(part.subquery()) for part in of_each)).subquery("together")
    return newest(together, list(together.c))
