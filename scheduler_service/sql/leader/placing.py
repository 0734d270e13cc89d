"""Places of balanced jobs in SQL: guarded UPDATEs of the job, and of the version that the place belongs to.

Promises: a place makes no new version; repeating the same PlaceJobs changes nothing and gives the same answer. A
rebalance is in the audit log exactly if its places are committed.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    Subquery,
    Text,
    Update,
    and_,
    false,
    or_,
    select,
    union_all,
    update,
)

from itinerary.protocol.instants import Instant
from scheduler_service.core.balancing.placements import MovedBefore, PlaceJobs, RebalanceOrder
from scheduler_service.core.balancing.rebalance_record import REBALANCE, UNDO, last_moved, record_body
from scheduler_service.sql.audit import record
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.record_tables import audit_log
from scheduler_service.sql.tables import job_versions, jobs

_PLACES: Final = Batch(
    job_id=Text, version=Integer, replaces=InstantColumn, anchor=InstantColumn, placed_at=InstantColumn
)
_CHECKED: Final = 50


def place_jobs(connection: Connection, batch: PlaceJobs, now: Instant) -> frozenset[str]:
    """See PlacementStore; runs in the open transaction."""
    order = batch.order
    repeated = order is not None and _is_recorded(connection, order)
    done: set[str] = set()
    for chunk in _PLACES.chunks((p.job_id, p.version, p.replaces, p.anchor, batch.at) for p in batch.placements):
        if repeated:
            done.update(connection.execute(_in_place(dialect_of(connection)), chunk).scalars())
        else:
            done.update(connection.execute(_place(dialect_of(connection)), chunk).scalars())
            # If we die here, both are rolled back: a version never has a place that its job lacks.
            connection.execute(_place_versions(dialect_of(connection)), chunk)
    refused = frozenset(p.job_id for p in batch.placements) - done
    if order is not None and not repeated:
        body = record_body(batch, order.plan, refused)
        record(connection, now, order.asked.audited_change, order.plan.plan_id, None, body)
    return refused


def last_rebalance(connection: Connection) -> tuple[MovedBefore, ...] | None:
    """See PlacementStore; reads the newest 50 records."""
    # Each action separately, so that each record is one index step.
    of_each = [
        select(audit_log.c.action, audit_log.c.after, audit_log.c.id)
        .where(audit_log.c.action == action)
        .order_by(audit_log.c.id.desc())
        .limit(_CHECKED)
        .subquery(f"of_{action}")
        for action in (REBALANCE, UNDO)
    ]
    together = union_all(*(select(part) for part in of_each)).subquery("together")
    newest = select(together).order_by(together.c.id.desc()).limit(_CHECKED)
    return last_moved((row.action, row.after) for row in connection.execute(newest))


def _is_recorded(connection: Connection, order: RebalanceOrder) -> bool:
    named = and_(audit_log.c.subject == order.plan.plan_id, audit_log.c.action == order.asked.audited_change.action)
    return connection.execute(select(audit_log.c.id).where(named).limit(1)).first() is not None


def _is_there(batch: Subquery) -> ColumnElement[bool]:
    return and_(jobs.c.job_id == batch.c.job_id, jobs.c.placed_anchor == batch.c.anchor, jobs.c.deleted == false())


@cache
def _in_place(dialect: Dialect) -> Select[Any]:
    batch = _PLACES.rows(dialect)
    return select(jobs.c.job_id).join(batch, _is_there(batch))


@cache
def _place(dialect: Dialect) -> Update:
    batch = _PLACES.rows(dialect)
    as_seen = or_(
        jobs.c.placed_anchor.is_not_distinct_from(batch.c.replaces),
        jobs.c.placed_anchor == batch.c.anchor,
    )
    return (
        update(jobs)
        .where(jobs.c.job_id == batch.c.job_id, jobs.c.version == batch.c.version, jobs.c.deleted == false(), as_seen)
        .values(placed_anchor=batch.c.anchor, placed_at=batch.c.placed_at)
        .returning(jobs.c.job_id)
    )


@cache
def _place_versions(dialect: Dialect) -> Update:
    batch = _PLACES.rows(dialect)
    its_job = and_(
        jobs.c.job_id == job_versions.c.job_id,
        jobs.c.version == job_versions.c.version,
        jobs.c.placed_anchor == batch.c.anchor,
    )
    return (
        update(job_versions)
        .where(
            job_versions.c.job_id == batch.c.job_id,
            job_versions.c.version == batch.c.version,
            select(jobs.c.job_id).where(its_job).correlate(job_versions, batch).exists(),
        )
        .values(placed_anchor=batch.c.anchor, placed_at=batch.c.placed_at)
    )
