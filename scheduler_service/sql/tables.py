"""The database's tables, as SQLAlchemy Core metadata for SQLite and PostgreSQL.

Owns names, keys, indexes and the conditions that indexes are made of; promises that the migrations build the same (a
test compares them). Stored names never change for a word's sake. Holds no statement and opens nothing.
"""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Computed,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    and_,
    false,
    literal_column,
    text,
    true,
)
from sqlalchemy.dialects import postgresql

from scheduler_service.core.model import RunKind
from scheduler_service.core.run_state import ACTIVE, FINAL, IN_FLIGHT, WAITING, RunState
from scheduler_service.sql.column_types import InstantColumn, Payload
from scheduler_service.sql.definition_fields import field_of

NAMES: Final = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
metadata: Final = MetaData(naming_convention=NAMES)

# Every database orders ids by code point, as Python does.
KEY: Final = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
ROW_ID: Final = BigInteger().with_variant(Integer(), "sqlite")
PAYLOAD: Final = Payload()

jobs: Final = Table(
    "jobs",
    metadata,
    Column("job_id", KEY, primary_key=True),
    Column("definition", PAYLOAD, nullable=False),
    Column("tags", Text, nullable=False),
    Column("search_text", Text, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("pause_reason", Text),
    Column("paused_until", InstantColumn),
    Column("pause_skips", Boolean, nullable=False, server_default=false()),
    Column("version", Integer, nullable=False),
    Column("planned_version", Integer, nullable=False),
    Column("effective_from", InstantColumn, nullable=False),
    Column("created_at", InstantColumn, nullable=False),
    Column("updated_at", InstantColumn, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("source", KEY),
    *(Column(name, InstantColumn) for name in ("placed_anchor", "placed_at")),
    *(Column(name, KEY, Computed(field_of(name), persisted=True)) for name in ("queue", "task")),
)

job_versions: Final = Table(
    "job_versions",
    metadata,
    Column("job_id", KEY, ForeignKey("jobs.job_id"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("definition", PAYLOAD, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("pause_reason", Text),
    Column("paused_until", InstantColumn),
    Column("pause_skips", Boolean, nullable=False, server_default=false()),
    Column("effective_from", InstantColumn, nullable=False),
    Column("created_at", InstantColumn, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("actor", Text),
    Column("placed_anchor", InstantColumn),
    Column("placed_at", InstantColumn),
)

TRACKED: Final = "led"
# Index state of a run: `led` if the leader tracks it, the state that it waits in if it was requested, the state that it
# ended in, NULL if that is `completed`. Indexes use this and not `state`, so that PostgreSQL writes nothing into them
# when an occurrence is dispatched or starts (a heap-only update, half the cost).
_INDEX_STATE: Final = """
CASE WHEN state = 'completed' THEN NULL
WHEN state IN ('pending', 'running') OR (kind = 'occurrence' AND state IN ('retrying', 'scheduled')) THEN 'led'
ELSE state END
"""

runs: Final = Table(
    "runs",
    metadata,
    Column("id", ROW_ID, Identity(), primary_key=True),
    Column("run_id", KEY, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("job_id", KEY),
    Column("job_version", Integer),
    Column("task", Text, nullable=False),
    Column("args", PAYLOAD, nullable=False),
    Column("kwargs", PAYLOAD, nullable=False),
    Column("queue", KEY, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("retry_of", KEY),
    Column("scheduled_at", InstantColumn, nullable=False),
    Column("due_at", InstantColumn, nullable=False),
    Column("state", Text, nullable=False, server_default=RunState.SCHEDULED.value),
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    Column("retry", Text),
    Column("timeout", BigInteger),
    Column("overlap", Text),
    Column("reason", Text),
    Column("cancel_requested_at", InstantColumn),
    Column("pending_at", InstantColumn),
    Column("published_at", InstantColumn),
    Column("started_at", InstantColumn),
    Column("finished_at", InstantColumn),
    Column("worker", Text),
    Column("term", BigInteger),
    Column("seq", BigInteger, nullable=False, server_default=text("0")),
    Column("retries", Integer, nullable=False, server_default=text("0")),
    Column("result", PAYLOAD),
    Column("error", PAYLOAD),
    Column("created_at", InstantColumn, nullable=False),
    Column("idempotency_key", Text),
    Column("request_hash", Text),
    Column("traceparent", Text),
    Column("owner", Text),
    Column("start_by", InstantColumn),
    Column("end_by", InstantColumn),
    Column("sla_missed", Boolean),
    Column("headers", PAYLOAD),
    Column("recalled_at", InstantColumn),
    Column("limits", Text),
    Column("lane", KEY, nullable=False, server_default=""),
    Column("forced", Boolean),
    Column("progress", PAYLOAD),
    Column("standing", Text, Computed(_INDEX_STATE, persisted=True)),
    CheckConstraint(f"state IN ({', '.join(repr(s.value) for s in RunState)})", name="state"),
    CheckConstraint(f"kind IN ({', '.join(repr(k.value) for k in RunKind)})", name="kind"),
)

run_attempts: Final = Table(
    "run_attempts",
    metadata,
    Column("run_id", KEY, ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("outcome", Text, nullable=False),
    Column("reason", Text),
    Column("pending_at", InstantColumn),
    Column("published_at", InstantColumn),
    Column("started_at", InstantColumn),
    Column("finished_at", InstantColumn),
    Column("worker", Text),
    Column("error", PAYLOAD),
    Column("late_reports", Integer, nullable=False, server_default=text("0")),
    Column("late_kind", Text),
    Column("late_at", InstantColumn),
    Column("late_worker", Text),
    Column("late_error", PAYLOAD),
    Column("progress", PAYLOAD),
)

gaps: Final = Table(
    "gaps",
    metadata,
    Column("id", ROW_ID, Identity(), primary_key=True),
    Column("job_id", KEY, nullable=False),
    Column("start_at", InstantColumn, nullable=False),
    Column("end_at", InstantColumn, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
)

# One row per shard (the unique key). The term is in the primary key so that a takeover, which changes it, must wait for
# transactions that hold the row FOR KEY SHARE, while a renewal, which does not change it, never waits.
leases: Final = Table(
    "leases",
    metadata,
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("term", BigInteger, primary_key=True, autoincrement=False),
    Column("holder", Text, nullable=False),
    Column("acquired_at", InstantColumn, nullable=False),
    Column("expires_at", InstantColumn, nullable=False),
    Column("ttl", BigInteger, nullable=False),
    Column("renewals", BigInteger, nullable=False),
    Column("resigned", Boolean, nullable=False),
    Column("zone_rules", Text),
    Column("standby_zone_rules", Text),
    Column("standby_seen_at", InstantColumn),
    Column("without_redis_at", InstantColumn),
    Column("relief_at", InstantColumn),
    Column("redis_mark", Text),
    Column("broker_mark", Text),
    Column("controls_term", BigInteger),
    UniqueConstraint("shard"),
)

cursors: Final = Table(
    "cursors",
    metadata,
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("materialised_until", InstantColumn),
    Column("inbox_position", Text, nullable=False),
    Column("judged_until", InstantColumn),
    Column("pruned_until", InstantColumn),
    Column("swept_at", InstantColumn),
)


def among(column: ColumnElement[Any], values: frozenset[Any]) -> ColumnElement[bool]:
    """`column IN (...)` in literals and in one order, so that prepared plans recognise partial indexes."""
    return column.in_([literal_column(f"'{value}'") for value in sorted(v.value for v in values)])


def has_index_state(index_state: str) -> ColumnElement[bool]:
    """Runs in this index state, as a literal, as partial indexes need it."""
    return runs.c.standing == literal_column(f"'{index_state}'")


WAITS: Final = among(runs.c.state, WAITING)
IS_IN_FLIGHT: Final = among(runs.c.state, IN_FLIGHT)
IS_TRACKED: Final = has_index_state(TRACKED)
IS_OCCURRENCE: Final = runs.c.kind == literal_column(f"'{RunKind.OCCURRENCE}'")
IS_MANUAL: Final = runs.c.kind == literal_column(f"'{RunKind.MANUAL}'")
IS_ACTIVE: Final = among(runs.c.state, ACTIVE)
IS_TROUBLE: Final = among(runs.c.standing, frozenset({RunState.FAILED, RunState.MISSED}))
IS_FINAL: Final = among(runs.c.state, FINAL)
# Runs that wait and that no schedule created; only those are found by their lane.
IS_REQUESTED: Final = among(runs.c.standing, WAITING)
_LANE_ORDER: Final = ("queue", "lane", "standing", "priority", "due_at", "id")
# Tests the index state and not the state, as all indexes of runs do: a dispatch writes nothing into it.
HAS_DEADLINE: Final = and_(runs.c.start_by.is_not(None), has_index_state(RunState.SCHEDULED))
ENDED_OTHERWISE: Final = among(runs.c.standing, FINAL - {RunState.COMPLETED})
IS_UNPLANNED: Final = jobs.c.planned_version != jobs.c.version


def partial_index(name: str, *columns: ColumnElement[Any], where: ColumnElement[bool], unique: bool = False) -> Index:
    """An index of the rows that pass `where`, the same on both databases."""
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


partial_index(
    "ix_runs_standing", *(runs.c[name] for name in ("standing", "queue", "priority", "due_at", "id")),
    where=runs.c.standing.is_not(None),
)  # fmt: skip
partial_index("uq_runs_occurrence", runs.c.job_id, runs.c.scheduled_at, where=IS_OCCURRENCE, unique=True)
partial_index("uq_runs_idempotency_key", runs.c.idempotency_key, where=runs.c.idempotency_key.is_not(None), unique=True)
Index("ix_runs_newest", runs.c.scheduled_at, runs.c.id)
# With the index state it answers alone how many runs of a job ended how.
Index("ix_runs_of_job", runs.c.job_id, runs.c.scheduled_at, runs.c.id, runs.c.standing)
partial_index("ix_runs_of_owner", runs.c.owner, runs.c.scheduled_at, runs.c.id, where=runs.c.owner.is_not(None))
Index("ix_runs_of_queue", runs.c.queue, runs.c.scheduled_at, runs.c.id)
# Few runs are or end in these states, so these indexes cost nothing as long as runs succeed.
partial_index(
    "ix_runs_unwanted",
    runs.c.cancel_requested_at,
    runs.c.id,
    where=and_(IS_TRACKED, runs.c.cancel_requested_at.is_not(None)),
)
partial_index("ix_runs_lane", *(runs.c[name] for name in _LANE_ORDER), where=IS_REQUESTED)
partial_index("ix_runs_start_by", runs.c.start_by, runs.c.id, where=HAS_DEADLINE)
partial_index("ix_runs_troubles", runs.c.finished_at, runs.c.id, where=IS_TROUBLE)
# Job and queue make it answer alone: each of these runs lies in another page of the table.
partial_index(
    "ix_runs_ended_otherwise", *(runs.c[name] for name in ("standing", "scheduled_at", "id", "job_id", "queue")),
    where=ENDED_OTHERWISE,
)  # fmt: skip
partial_index(
    "ix_runs_of_job_otherwise", runs.c.job_id, runs.c.standing, runs.c.scheduled_at, runs.c.id, where=ENDED_OTHERWISE
)
partial_index(
    "ix_runs_of_queue_otherwise", runs.c.queue, runs.c.standing, runs.c.scheduled_at, runs.c.id, where=ENDED_OTHERWISE
)
partial_index("ix_runs_tried_again", runs.c.job_id, runs.c.scheduled_at, where=runs.c.retry_of.is_not(None))
partial_index("ix_runs_again", runs.c.retry_of, runs.c.id, where=runs.c.retry_of.is_not(None))
partial_index("ix_jobs_unplanned", jobs.c.job_id, where=IS_UNPLANNED)
for _name in ("queue", "task"):
    partial_index(f"ix_jobs_{_name}", jobs.c[_name], jobs.c.job_id, where=~jobs.c.deleted)
partial_index("ix_jobs_deleted", jobs.c.effective_from, jobs.c.job_id, where=jobs.c.deleted == true())
partial_index("ix_jobs_source", jobs.c.source, where=jobs.c.source.is_not(None))
Index("ix_gaps_of_job", gaps.c.job_id, gaps.c.start_at)
Index("ix_gaps_ended", gaps.c.end_at, gaps.c.id)
