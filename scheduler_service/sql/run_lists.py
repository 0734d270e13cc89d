"""Pages of runs, newest first, for lists and for bulk operations.

Promises a keyset: pages neither repeat nor miss a run that matches throughout. Each index state is found by its index,
and a page reads at most SCANNED rows of it, whatever the filter.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, func, literal, select, union_all
from sqlalchemy import tuple_ as row_of

from scheduler_service.ports.lists import Page, RunFilter
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.database import PLANNED_EACH_TIME
from scheduler_service.sql.holding_text import holds
from scheduler_service.sql.paging import page_of, read_cursor, write_cursor
from scheduler_service.sql.tables import in_states, runs

SCANNED: Final = 10_000
_EACH: Final = {PLANNED_EACH_TIME: True}


def page_of_runs(
    connection: Connection, wanted: RunFilter, limit: int, cursor: str | None, columns: Sequence[Any],
    *more: ColumnElement[bool], by_time: bool = False,
) -> Page[Any]:  # fmt: skip
    """The next page of rows with these columns, `scheduled_at` and `id` among them, that match and pass `more`.

    `by_time`: the states are judged, not searched. The index of waiting runs is not in the order of time: among a
    million of them, each page would sort all.
    """
    in_time = wanted.states if by_time else ()
    if in_time:
        wanted = replace(wanted, states=())
    if not (wanted.scans or in_time):
        rows = connection.execute(_newest_runs(wanted, limit + 1, cursor, columns, more), execution_options=_EACH).all()
        return page_of(rows, limit, _as_it_is, _place)
    scanned = _newest_runs(wanted, SCANNED, cursor, columns, more).subquery("scanned")
    found = select(*scanned.c).where(*judging(wanted, scanned.c)).limit(limit + 1)
    if in_time:
        found = found.where(scanned.c.state.in_([state.value for state in in_time]))
    newest_first = (scanned.c.scheduled_at.desc(), scanned.c.id.desc())
    rows = connection.execute(found.order_by(*newest_first), execution_options=_EACH).all()
    page = page_of(rows, limit, _as_it_is, _place)
    if page.next_cursor is not None:
        return page
    last = select(scanned.c.scheduled_at, scanned.c.id).order_by(*newest_first).offset(SCANNED - 1).limit(1)
    end = connection.execute(last, execution_options=_EACH).first()
    return Page(page.items, None if end is None else write_cursor(list(end)))


def judging(wanted: RunFilter, columns: Any) -> list[ColumnElement[bool]]:
    """The conditions that no index serves, on these columns."""
    conditions: list[ColumnElement[bool]] = []
    if wanted.task is not None:
        conditions.append(columns.task == wanted.task)
    uses = func.coalesce(columns.limits, "")
    if wanted.limit_name is not None and wanted.limit_key is not None:
        use = json.dumps([wanted.limit_name, wanted.limit_key], ensure_ascii=False, separators=(",", ":"))
        conditions.append(holds(uses, use))
    elif wanted.limit_name is not None:
        conditions.append(holds(uses, f'["{wanted.limit_name}",'))
    elif wanted.limit_key is not None:
        conditions.append(holds(uses, f",{json.dumps(wanted.limit_key, ensure_ascii=False)}]"))
    return conditions


def _as_it_is(row: Any) -> Any:
    return row


def _place(row: Any) -> list[Any]:
    return [row.scheduled_at, row.id]


def _newest_runs(
    wanted: RunFilter, limit: int, cursor: str | None, columns: Sequence[Any], more: Sequence[ColumnElement[bool]]
) -> Select[Any]:
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
