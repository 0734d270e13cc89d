"""The other writes of an Apply: late reports, the leader's own cancel requests, and the inbox position.

Promises that none of these changes the state of a run.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Integer, Text, Update, and_, bindparam, not_, or_, select, true, update

from scheduler_service.core.leader.commands import Apply, LateReport
from scheduler_service.sql.batch import Batch, judged
from scheduler_service.sql.column_types import InstantColumn, Payload, dump_json
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.ready import ReadyStatement
from scheduler_service.sql.tables import IS_ACTIVE, cursors, run_attempts, runs

_LATE: Final = Batch(
    run_id=Text, attempt=Integer, late_reports=Integer, late_kind=Text, late_at=InstantColumn, late_worker=Text,
    late_error=Payload,
)  # fmt: skip
_CANCELS: Final = Batch(run_id=Text)
_NOW: Final = bindparam("now", type_=InstantColumn)


def keep_late_reports(connection: Connection, late: Sequence[LateReport]) -> None:
    """Count the reports on their attempts, which must be over, and keep the error of the last one."""
    counts = Counter((report.run_id, report.attempt, report.at) for report in late)
    by_attempt = {(report.run_id, report.attempt, report.at): report for report in late}
    turns: defaultdict[int, list[LateReport]] = defaultdict(list)
    earlier: Counter[tuple[str, int]] = Counter()
    for report in by_attempt.values():
        turns[earlier[report.run_id, report.attempt]].append(report)  # a statement can change an attempt only once
        earlier[report.run_id, report.attempt] += 1
    for reports in turns.values():
        rows = [
            (r.run_id, r.attempt, counts[r.run_id, r.attempt, r.at], r.kind, r.at, r.worker, _as_text(r.error))
            for r in reports
        ]
        for chunk in _LATE.chunks(rows):
            connection.execute(_keep_late(dialect_of(connection)), chunk)


def _as_text(error: Mapping[str, Any] | None) -> str | None:
    return None if error is None else dump_json(error)


def request_cancels(connection: Connection, run_ids: Sequence[str], now: Any) -> None:
    """Note a cancel request for these runs, unless they are final or have one."""
    for chunk in _CANCELS.chunks([(run_id,) for run_id in run_ids]):
        connection.execute(_request_cancels(dialect_of(connection)), {**chunk, "now": now})


def commit_progress(connection: Connection, shard: int, batch: Apply) -> None:
    """Commit how far the inbox is read and due runs are judged."""
    come_to = {"inbox_position": batch.position, "judged_until": batch.judged_until}
    known = {name: value for name, value in come_to.items() if value is not None}
    if known:
        _commit_progress(tuple(known)).count(connection, {**known, "of_shard": shard})


@cache
def _keep_late(dialect: Dialect) -> Any:
    """Insert the final run's last attempt, which has no row of its own, as the run has it.

    A repeat of the report that ended the attempt is recognised by its time and is not late.
    """
    batch = _LATE.rows(dialect)
    is_other = runs.c.finished_at.is_distinct_from(batch.c.late_at)
    is_over = or_(runs.c.attempt > batch.c.attempt, and_(runs.c.attempt == batch.c.attempt, not_(IS_ACTIVE), is_other))
    copied = ("reason", "pending_at", "published_at", "started_at", "finished_at", "worker", "error", "progress")
    columns = {
        **{name: batch.c[name] for name in batch.c.keys()},  # noqa: SIM118  (columns are no mapping)
        "outcome": runs.c.state,
        **{name: runs.c[name] for name in copied},
    }
    rows = select(*columns.values()).where(runs.c.run_id == batch.c.run_id, judged(batch.c.run_id, is_over))
    insert = dialect.insert(run_attempts).from_select(list(columns), rows.where(true()))
    new = insert.excluded
    by_attempt = {name: new[name] for name in ("late_kind", "late_at", "late_worker", "late_error")}
    return insert.on_conflict_do_update(
        index_elements=[run_attempts.c.run_id, run_attempts.c.attempt],
        set_={"late_reports": run_attempts.c.late_reports + new.late_reports, **by_attempt},
        where=run_attempts.c.finished_at.is_distinct_from(new.late_at),
    )


@cache
def _commit_progress(names: tuple[str, ...]) -> ReadyStatement:
    values = {name: bindparam(name, type_=cursors.c[name].type) for name in names}
    commits = update(cursors).where(cursors.c.shard == bindparam("of_shard", type_=Integer)).values(values)
    return ReadyStatement(lambda _: commits)


@cache
def _request_cancels(dialect: Dialect) -> Update:
    batch = _CANCELS.rows(dialect)
    is_news = and_(runs.c.cancel_requested_at.is_(None), IS_ACTIVE)
    return (
        update(runs)
        .where(runs.c.run_id == batch.c.run_id, judged(batch.c.run_id, is_news))
        .values(cancel_requested_at=_NOW)
    )
