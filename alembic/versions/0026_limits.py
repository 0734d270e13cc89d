"""Limits, which runs and which jobs name them, and the lane in which a run waits.

Waiting runs that no schedule created are in the index of lanes, those of the lane '' too: a flood of others would hide
them from a read by time. On PostgreSQL it is made beside running leaders (CONCURRENTLY); one that was left half made is
made anew.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
PAYLOAD = sa.Text().with_variant(postgresql.JSON(), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INDEX = "ix_runs_lane"
COLUMNS = ["queue", "lane", "standing", "priority", "due_at", "id"]
WHERE = sa.text("standing IN ('retrying', 'scheduled')")


def upgrade() -> None:
    """No run so far has limits, and each waits in the lane ''."""
    on_postgres = op.get_bind().dialect.name == "postgresql"
    # A migration that was killed before its index is run again.
    again = {"if_not_exists": True} if on_postgres else {}
    op.add_column("runs", sa.Column("limits", sa.Text()), **again)
    op.add_column("runs", sa.Column("lane", KEY, nullable=False, server_default=""), **again)
    op.add_column("queues", sa.Column("concurrency", sa.Integer()), **again)
    op.add_column("queues", sa.Column("rate_count", sa.Integer()), **again)
    op.add_column("queues", sa.Column("rate_per", sa.BigInteger()), **again)
    op.add_column("queues", sa.Column("fair", sa.Boolean(), nullable=False, server_default=sa.false()), **again)
    op.create_table(
        "limits",
        sa.Column("name", KEY, nullable=False),
        sa.Column("concurrency", sa.Integer()),
        sa.Column("rate_count", sa.Integer()),
        sa.Column("rate_per", sa.BigInteger()),
        sa.Column("per_key", sa.Boolean(), nullable=False),
        sa.Column("overrides", PAYLOAD, nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_limits"),
        **again,
    )
    op.create_table(
        "job_limits",
        sa.Column("limit_name", KEY, nullable=False),
        sa.Column("job_id", KEY, nullable=False),
        sa.PrimaryKeyConstraint("limit_name", "job_id", name="pk_job_limits"),
        **again,
    )
    op.create_index("ix_job_limits_job", "job_limits", ["job_id"], **again)
    op.create_table(
        "limit_starts",
        sa.Column("id", ROW_ID, sa.Identity(), nullable=False),
        sa.Column("limit_name", KEY, nullable=False),
        sa.Column("limit_key", KEY, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_limit_starts"),
        **again,
    )
    op.create_index("ix_limit_starts_limit", "limit_starts", ["limit_name", "at", "id"], **again)
    if not on_postgres:
        op.create_index(INDEX, "runs", COLUMNS, sqlite_where=WHERE)
        return
    with op.get_context().autocommit_block():
        op.drop_index(INDEX, "runs", if_exists=True, postgresql_concurrently=True)
        op.create_index(INDEX, "runs", COLUMNS, postgresql_where=WHERE, postgresql_concurrently=True)


def downgrade() -> None:
    """Forget them: no run waits for a limit any more."""
    if op.get_bind().dialect.name == "postgresql":
        with op.get_context().autocommit_block():
            op.drop_index(INDEX, "runs", if_exists=True, postgresql_concurrently=True)
    else:
        op.drop_index(INDEX, "runs")
    for table in ("limit_starts", "job_limits", "limits"):
        op.drop_table(table)
    for column in ("fair", "rate_per", "rate_count", "concurrency"):
        op.drop_column("queues", column)
    op.drop_column("runs", "lane")
    op.drop_column("runs", "limits")
