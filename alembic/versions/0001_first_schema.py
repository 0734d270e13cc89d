"""First schema: jobs with their versions, runs with their attempts, gaps, the lease, the cursor, statistics."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
PAYLOAD = sa.Text().with_variant(postgresql.JSON(), "postgresql")
INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")

STATES = "'scheduled', 'pending', 'running', 'retrying', 'completed', 'failed', 'cancelled', 'skipped', 'missed'"
WAITS = "state IN ('retrying', 'scheduled')"
IS_OCCURRENCE = "kind = 'occurrence'"
IS_ACTIVE = "state IN ('pending', 'retrying', 'running', 'scheduled')"


def upgrade() -> None:
    """Make everything."""
    _jobs()
    _runs()
    _run_indexes()
    _run_attempts()
    _gaps()
    _leading()


def downgrade() -> None:
    """Drop everything."""
    for table in (
        "scheduler_statistics", "cursors", "leases", "gaps", "run_attempts", "runs", "job_versions", "jobs",
    ):  # fmt: skip
        op.drop_table(table)


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("definition", PAYLOAD, nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("search_text", sa.Text(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("pause_reason", sa.Text()),
        sa.Column("paused_until", INSTANT),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("planned_version", sa.Integer(), nullable=False),
        sa.Column("effective_from", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_jobs"),
    )
    _partial_index("ix_jobs_unplanned", "jobs", ["job_id"], "planned_version != version")
    op.create_table(
        "job_versions",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", PAYLOAD, nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("pause_reason", sa.Text()),
        sa.Column("paused_until", INSTANT),
        sa.Column("effective_from", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name="fk_job_versions_job_id"),
        sa.PrimaryKeyConstraint("job_id", "version", name="pk_job_versions"),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", ROW_ID, sa.Identity(), nullable=False),
        sa.Column("run_id", KEY, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("job_id", KEY),
        sa.Column("job_version", sa.Integer()),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("args", PAYLOAD, nullable=False),
        sa.Column("kwargs", PAYLOAD, nullable=False),
        sa.Column("queue", KEY, nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("retry_of", KEY),
        sa.Column("scheduled_at", INSTANT, nullable=False),
        sa.Column("due_at", INSTANT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False, server_default="scheduled"),
        sa.Column("attempt", sa.Integer(), nullable=False, server_default=sa.text("1")),
        sa.Column("retry", sa.Text()),
        sa.Column("timeout", sa.BigInteger()),
        sa.Column("overlap", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("cancel_requested_at", INSTANT),
        sa.Column("pending_at", INSTANT),
        sa.Column("published_at", INSTANT),
        sa.Column("started_at", INSTANT),
        sa.Column("finished_at", INSTANT),
        sa.Column("worker", sa.Text()),
        sa.Column("term", sa.BigInteger()),
        sa.Column("seq", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("retries", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("result", PAYLOAD),
        sa.Column("error", PAYLOAD),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("idempotency_key", sa.Text()),
        sa.Column("request_hash", sa.Text()),
        sa.CheckConstraint(f"state IN ({STATES})", name=op.f("ck_runs_state")),
        sa.CheckConstraint("kind IN ('occurrence', 'manual', 'adhoc')", name=op.f("ck_runs_kind")),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("run_id", name="uq_runs_run_id"),
    )


def _run_indexes() -> None:
    _partial_index("ix_runs_waiting", "runs", ["queue", "priority", "due_at", "id"], WAITS)
    _partial_index("uq_runs_occurrence", "runs", ["job_id", "scheduled_at"], IS_OCCURRENCE, unique=True)
    _partial_index("ix_runs_active", "runs", ["state", "kind"], IS_ACTIVE)
    _partial_index("uq_runs_idempotency_key", "runs", ["idempotency_key"], "idempotency_key IS NOT NULL", unique=True)
    op.create_index("ix_runs_newest", "runs", ["scheduled_at", "id"])
    op.create_index("ix_runs_of_job", "runs", ["job_id", "scheduled_at", "id"])


def _run_attempts() -> None:
    op.create_table(
        "run_attempts",
        sa.Column("run_id", KEY, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("pending_at", INSTANT),
        sa.Column("published_at", INSTANT),
        sa.Column("started_at", INSTANT),
        sa.Column("finished_at", INSTANT),
        sa.Column("worker", sa.Text()),
        sa.Column("error", PAYLOAD),
        sa.Column("late_reports", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("late_kind", sa.Text()),
        sa.Column("late_at", INSTANT),
        sa.Column("late_worker", sa.Text()),
        sa.Column("late_error", PAYLOAD),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_run_attempts_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "attempt", name="pk_run_attempts"),
    )


def _gaps() -> None:
    op.create_table(
        "gaps",
        sa.Column("id", ROW_ID, sa.Identity(), nullable=False),
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("start_at", INSTANT, nullable=False),
        sa.Column("end_at", INSTANT, nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_gaps"),
    )
    op.create_index("ix_gaps_of_job", "gaps", ["job_id", "start_at"])


def _leading() -> None:
    op.create_table(
        "leases",
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("term", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("acquired_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.Column("ttl", sa.BigInteger(), nullable=False),
        sa.Column("renewals", sa.BigInteger(), nullable=False),
        sa.Column("resigned", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("shard", "term", name="pk_leases"),
        sa.UniqueConstraint("shard", name="uq_leases_shard"),
    )
    op.create_table(
        "cursors",
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("materialised_until", INSTANT),
        sa.Column("inbox_position", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("shard", name="pk_cursors"),
    )
    op.create_table(
        "scheduler_statistics",
        sa.Column("at", INSTANT, autoincrement=False, nullable=False),
        sa.Column("active_runs", sa.BigInteger(), nullable=False),
        sa.Column("index_runs", sa.BigInteger(), nullable=False),
        sa.Column("lag", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("at", name="pk_scheduler_statistics"),
    )


def _partial_index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
